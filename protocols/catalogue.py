"""Every protocol, judge and speaker by the name that a sweep file uses."""

from collections.abc import Mapping
from types import MappingProxyType

from .judges import (
    DistributionJudge,
    Ensemble,
    Judge,
    Jury,
    LogprobJudge,
    PublishedJudge,
    Redrawn,
    StatedJudge,
    VotesJudge,
)
from .mechanisms.adversarial_propaganda import AdversarialPropaganda
from .mechanisms.amplification import Amplification
from .mechanisms.baselines import NaiveJudge, OpenTrust, Propaganda
from .mechanisms.consultancy import Consultancy
from .mechanisms.critique import Critique
from .mechanisms.cross_examination import CrossExamination
from .mechanisms.debate import Debate
from .mechanisms.debate_feedback import DebateFeedback
from .mechanisms.debate_game import DebateGame
from .mechanisms.double_consultancy import DoubleConsultancy
from .mechanisms.doubly_efficient_debate import DoublyEfficientDebate
from .mechanisms.interactive_debate import InteractiveDebate
from .mechanisms.market_making import MarketMaking
from .mechanisms.open_protocols import OpenConsultancy, OpenDebate
from .mechanisms.proposer_critic import ProposerCritic
from .mechanisms.prover_estimator_debate import ProverEstimatorDebate
from .mechanisms.recorded import Recorded
from .mechanisms.recursive_reward_modelling import RecursiveRewardModelling
from .mechanisms.weak_to_strong import WeakToStrong
from .protocol import Protocol

PROTOCOLS: Mapping[str, type[Protocol]] = MappingProxyType(
    {
        "naive_judge": NaiveJudge,
        "open_trust": OpenTrust,
        "propaganda": Propaganda,
        "consultancy": Consultancy,
        "debate": Debate,
        "debate_game": DebateGame,
        "interactive_debate": InteractiveDebate,
        "open_consultancy": OpenConsultancy,
        "open_debate": OpenDebate,
        "double_consultancy": DoubleConsultancy,
        "cross_examination": CrossExamination,
        "critique": Critique,
        "proposer_critic": ProposerCritic,
        "market_making": MarketMaking,
        "adversarial_propaganda": AdversarialPropaganda,
        "amplification": Amplification,
        "recursive_reward_modelling": RecursiveRewardModelling,
        "doubly_efficient_debate": DoublyEfficientDebate,
        "prover_estimator_debate": ProverEstimatorDebate,
        "debate_feedback": DebateFeedback,
        "weak_to_strong": WeakToStrong,
        "recorded": Recorded,
    }
)

JUDGES: Mapping[str, type[Judge]] = MappingProxyType(
    {
        "stated": StatedJudge,
        "distribution": DistributionJudge,
        "logprob": LogprobJudge,
        "votes": VotesJudge,
        "jury": Jury,
        "ensemble": Ensemble,
        "redrawn": Redrawn,
        "published": PublishedJudge,
    }
)
