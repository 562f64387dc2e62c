"""Speeches that are drafted before they are spoken: best of N, refine, check."""
