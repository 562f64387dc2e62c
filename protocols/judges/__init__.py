"""Judges: ways to elicit a probability for each answer from a model."""
