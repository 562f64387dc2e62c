"""Scores of lm-evaluation-harness."""
