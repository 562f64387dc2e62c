"""Every protocol, judge and speaker by the name that a sweep file uses."""

from .judges.judge import Judge
from .protocol import Protocol
from .settings import LazyRegistry

PROTOCOLS: LazyRegistry[type[Protocol]] = LazyRegistry(
    Protocol,
    {
        "naive_judge": "mechanisms.baselines:NaiveJudge",
        "open_trust": "mechanisms.open_protocols:OpenTrust",
        "propaganda": "mechanisms.baselines:Propaganda",
        "consultancy": "mechanisms.baselines:Consultancy",
        "debate": "mechanisms.debate:Debate",
        "debate_game": "mechanisms.debate_game:DebateGame",
        "interactive_debate": "mechanisms.debate:InteractiveDebate",
        "open_consultancy": "mechanisms.open_protocols:OpenConsultancy",
        "open_debate": "mechanisms.open_protocols:OpenDebate",
        "double_consultancy": "mechanisms.baselines:DoubleConsultancy",
        "cross_examination": "mechanisms.cross_examination:CrossExamination",
        "critique": "mechanisms.critique:Critique",
        "proposer_critic": "mechanisms.critique:ProposerCritic",
        "market_making": "mechanisms.market_making:MarketMaking",
        "adversarial_propaganda": "mechanisms.market_making:AdversarialPropaganda",
        "amplification": "mechanisms.decomposition:Amplification",
        "recursive_reward_modelling": ("mechanisms.decomposition:RecursiveRewardModelling"),
        "doubly_efficient_debate": "mechanisms.doubly_efficient_debate:DoublyEfficientDebate",
        "prover_estimator_debate": "mechanisms.prover_estimator_debate:ProverEstimatorDebate",
        "debate_feedback": "mechanisms.critique:DebateFeedback",
        "weak_to_strong": "mechanisms.auxiliary:WeakToStrong",
        "recorded": "mechanisms.open_protocols:Recorded",
    },
)

JUDGES: LazyRegistry[type[Judge]] = LazyRegistry(
    Judge,
    {
        "stated": "judges.stated:StatedJudge",
        "distribution": "judges.stated:DistributionJudge",
        "logprob": "judges.logprob:LogprobJudge",
        "votes": "judges.votes:VotesJudge",
        "jury": "judges.jury:Jury",
        "ensemble": "judges.repeated:Ensemble",
        "redrawn": "judges.repeated:Redrawn",
        "published": "judges.published:PublishedJudge",
    },
)
