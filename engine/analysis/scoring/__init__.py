"""What the scores of a benchmark say: how sure, and which is better."""
