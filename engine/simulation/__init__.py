"""Simulated models: a provider without a wire, and their expected scores."""

from oversight.engine.simulation.expected import ExpectedScores, expected_scores
from oversight.engine.simulation.ground_truth import GroundTruth
from oversight.engine.simulation.model import PRESETS, SimModel
from oversight.engine.simulation.provider import SimProvider

__all__ = ["PRESETS", "ExpectedScores", "GroundTruth", "SimModel", "SimProvider", "expected_scores"]
