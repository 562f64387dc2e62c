"""What is drawn of a run: the figures of each picture, and their painter for files."""
