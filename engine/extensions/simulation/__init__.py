"""Simulated models: a provider without a wire."""

from .model import PRESETS, SimModel
from .provider import SimProvider
from .simulated_call import GroundTruth

__all__ = ["PRESETS", "GroundTruth", "SimModel", "SimProvider"]
