"""Every protocol, judge and speaker by the name that a sweep file uses."""

from collections.abc import Mapping
from types import MappingProxyType

from oversight.protocols.judges import (
    DistributionJudge,
    Ensemble,
    Judge,
    Jury,
    LogprobJudge,
    Redrawn,
    StatedJudge,
    VotesJudge,
)
from oversight.protocols.mechanisms.adversarial_propaganda import AdversarialPropaganda
from oversight.protocols.mechanisms.amplification import Amplification
from oversight.protocols.mechanisms.baselines import NaiveJudge, OpenTrust, Propaganda
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.mechanisms.critique import Critique
from oversight.protocols.mechanisms.cross_examination import CrossExamination
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.debate_feedback import DebateFeedback
from oversight.protocols.mechanisms.debate_game import DebateGame
from oversight.protocols.mechanisms.double_consultancy import DoubleConsultancy
from oversight.protocols.mechanisms.doubly_efficient_debate import DoublyEfficientDebate
from oversight.protocols.mechanisms.interactive_debate import InteractiveDebate
from oversight.protocols.mechanisms.market_making import MarketMaking
from oversight.protocols.mechanisms.open_protocols import OpenConsultancy, OpenDebate
from oversight.protocols.mechanisms.proposer_critic import ProposerCritic
from oversight.protocols.mechanisms.prover_estimator_debate import ProverEstimatorDebate
from oversight.protocols.mechanisms.recursive_reward_modelling import RecursiveRewardModelling
from oversight.protocols.mechanisms.weak_to_strong import WeakToStrong
from oversight.protocols.protocol import Protocol

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
    }
)
