"""Judges: ways to get a probability for each answer out of a model."""

from oversight.protocols.judges.distribution import DistributionJudge
from oversight.protocols.judges.ensemble import Ensemble
from oversight.protocols.judges.judge import Judge, ModelJudge
from oversight.protocols.judges.jury import Jury
from oversight.protocols.judges.logprob import LogprobJudge
from oversight.protocols.judges.redrawn import Redrawn
from oversight.protocols.judges.shots import Shot
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.judges.votes import VotesJudge

__all__ = [
    "DistributionJudge",
    "Ensemble",
    "Judge",
    "Jury",
    "LogprobJudge",
    "ModelJudge",
    "Redrawn",
    "Shot",
    "StatedJudge",
    "VotesJudge",
]
