"""What verdicts say: worlds, samples, intervals, trends, bounds. For reports only."""
