"""What the scores of a benchmark say: how sure, which is better, under how much pressure."""
