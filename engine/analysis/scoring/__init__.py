"""Statistics of a benchmark's scores: estimates, intervals, comparisons."""
