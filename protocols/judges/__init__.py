"""Judges: ways to get a probability for each answer out of a model."""

from .distribution import DistributionJudge
from .ensemble import Ensemble
from .judge import Judge, ModelJudge
from .jury import Jury
from .logprob import LogprobJudge
from .published import PublishedJudge
from .redrawn import Redrawn
from .shots import Shot
from .stated import StatedJudge
from .votes import VotesJudge

__all__ = [
    "DistributionJudge",
    "Ensemble",
    "Judge",
    "Jury",
    "LogprobJudge",
    "ModelJudge",
    "PublishedJudge",
    "Redrawn",
    "Shot",
    "StatedJudge",
    "VotesJudge",
]
