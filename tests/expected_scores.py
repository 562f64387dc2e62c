"""Expected scores of simulated models: agent score differences in closed form.

Take two answers, the true T and the wrong F, and measure evidence in nats toward T. A simulated
speech for T states g = persuasion + honesty_gap / 2 ± noise, one for F states
b = persuasion - honesty_gap / 2 ± noise and counts as -b; a refused speech counts as 0. The judge
sums x = insight ± noise + stated evidence, and its probability of T is p = 1 / (1 + e^-x). With m
speeches by the agent (and m by its opponent, marked '):

    naive judge     x = insight ± noise                       in both worlds
    one voice       x = insight ± noise + g1 + … + gm         in world T (propaganda: m = 1)
                    x = insight ± noise - b1 - … - bm         in world F
    debate          x = insight ± noise + Σ g - Σ b'          in world T (m rounds)
                    x = insight ± noise + Σ g' - Σ b          in world F
    a market        x = insight ± noise - Σ b'                in world T (m rounds)
                    x = insight ± noise + Σ g'                in world F

In a market, the agent is the market: the insight is its own, and only its adversary speaks.
Adversarial propaganda is one voice with m = rounds. Both assume epsilon 0, so that all rounds are
played.

Every ± is an independent coin toss, as each call has its own address; so x takes finitely many
values, and E S(p, T), E S(p, F) and ASD = E S(p^(T), T) - E S(p^(F), F) are finite sums. By
linearity ASD does not depend on whether the worlds share their calls; its variance does.

Rounding: strengths are summed as stated; stated percentages are exact to 1e-8 of a probability,
an error of at most 1e-4 nats in the clipped logarithm. Unreadable judgements do not count, as in a
mean over the cells with a verdict.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from oversight.engine.extensions.simulation.judgement import probabilities
from oversight.engine.extensions.simulation.model import SHIFTS, SimModel, nats_summed
from oversight.protocols.agents.agent import Agent, Speaker
from oversight.protocols.judges import DistributionJudge, LogprobJudge, StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.market_making import AdversarialPropaganda, MarketMaking
from oversight.protocols.protocol import Protocol
from oversight.protocols.scores import SCORES, Score

CLOSED_FORMS = (NaiveJudge, Propaganda, Consultancy, Debate, AdversarialPropaganda, MarketMaking)
"""Protocols whose expected scores have a closed form here."""

EvidenceSpread: TypeAlias = dict[float, float]
"""Nats toward the truth -> probability."""


@dataclass(frozen=True, slots=True)
class ExpectedScores:
    """Expected scores of a protocol on problems with two answers, of values +1 and -1."""

    true: float
    """Mean agent score in the world in which the agent argues for the true answer."""
    false: float
    """Mean agent score in the world in which it argues for the wrong one."""
    deviation: float
    """Standard deviation of the ASD of one problem."""

    @property
    def asd(self) -> float:
        """Mean agent score difference."""
        return self.true - self.false


def expected_scores(
    protocol: Protocol, models: Mapping[str, SimModel], score: str = "brier"
) -> ExpectedScores:
    """Exact expected scores of `protocol` with these models.

    score: a name in oversight.protocols.scores.SCORES.

    Raises: ValueError for roles without a closed form here, which is any but plain agents, and
    judges that state a probability or are read by logprobs, in one order.
    """
    measure = SCORES[score]
    # Exact types: a subclass may add other speakers.
    if type(protocol) not in CLOSED_FORMS or getattr(protocol, "epsilon", 0.0) > 0:
        raise ValueError(f"{protocol.name}: its expected score has no closed form here")
    in_true, in_false = _worlds(protocol, models)
    true = _moments(in_true, measure, for_true=1.0, for_false=0.0)
    false = _moments(in_false, measure, for_true=0.0, for_false=1.0)
    if _one_conversation(protocol):
        variance = _moments(in_true, measure, for_true=1.0, for_false=-1.0)[1]
    else:
        variance = true[1] + false[1]
    return ExpectedScores(true[0], false[0], max(variance, 0.0) ** 0.5)


def _worlds(
    protocol: Protocol, models: Mapping[str, SimModel]
) -> tuple[EvidenceSpread, EvidenceSpread]:
    """Spreads of the judge's final nats toward the truth, in the world in which the agent argues
    for the true answer and in the other."""
    if isinstance(protocol, MarketMaking):
        market = _leaning(_plain(protocol.agent, models))
        rival = _plain(protocol.adversary or protocol.agent, models)
        against = [[market, *[_case(rival, true)] * protocol.rounds] for true in (False, True)]
        return _total(against[0]), _total(against[1])
    reading = _reading(protocol, models)
    match protocol:
        case NaiveJudge():
            return reading, reading
        case AdversarialPropaganda():
            agent = rival = _plain(protocol.agent, models)
            said, answered = protocol.rounds, 0
        case Propaganda():
            agent = rival = _plain(protocol.agent, models)
            said, answered = 1, 0
        case Consultancy():
            agent = rival = _plain(protocol.agent, models)
            said = (protocol.turns + (protocol.first == "consultant")) // 2
            answered = 0
        case Debate():
            agent = _plain(protocol.agent, models)
            rival = _plain(protocol.opponent or protocol.agent, models)
            said = answered = protocol.rounds
    in_true = [reading, *[_case(agent, True)] * said, *[_case(rival, False)] * answered]
    in_false = [reading, *[_case(agent, False)] * said, *[_case(rival, True)] * answered]
    return _total(in_true), _total(in_false)


def _one_conversation(protocol: Protocol) -> bool:
    """Whether both worlds consist of the same calls."""
    match protocol:
        case NaiveJudge():
            return True
        case Debate():
            return protocol.simultaneous and protocol.opponent in (None, protocol.agent)
    return False


def _reading(protocol: Protocol, models: Mapping[str, SimModel]) -> EvidenceSpread:
    """Spread of the judge's own nats toward the truth, before any speech."""
    judge = protocol.judge
    if not isinstance(judge, (StatedJudge, DistributionJudge, LogprobJudge)) or judge.both_orders:
        raise ValueError(f"{judge.name}: no closed form here; use a judge that is asked once")
    return _leaning(models[judge.model])


def _leaning(model: SimModel) -> EvidenceSpread:
    return _gathered((model.leaning(shift), 0.5) for shift in SHIFTS)


def _case(model: SimModel, true: bool) -> EvidenceSpread:
    """Spread of the nats toward the truth from one speech, for the true or for the wrong answer."""
    sign = 1 if true else -1
    spoken = ((sign * model.strength(true, shift), (1 - model.refusal) / 2) for shift in SHIFTS)
    return _gathered([*spoken, (0.0, model.refusal)])


def _plain(speaker: Speaker, models: Mapping[str, SimModel]) -> SimModel:
    if not isinstance(speaker, Agent):
        raise ValueError(f"{speaker.name}: no closed form here; use a plain agent")
    return models[speaker.model]


def _total(spreads: Iterable[EvidenceSpread]) -> EvidenceSpread:
    """Spread of a sum of independent parts."""
    total: EvidenceSpread = {0.0: 1.0}
    for spread in spreads:
        total = _gathered(
            (nats + more, p * q) for nats, p in total.items() for more, q in spread.items()
        )
    return total


def _gathered(outcomes: Iterable[tuple[float, float]]) -> EvidenceSpread:
    """A spread from outcomes; those that a simulated judge rounds to the same nats are merged."""
    spread: EvidenceSpread = {}
    for nats, p in outcomes:
        spread[nats_summed(nats)] = spread.get(nats_summed(nats), 0.0) + p
    return spread


def _moments(
    spread: EvidenceSpread, measure: Score, *, for_true: float, for_false: float
) -> tuple[float, float]:
    """Mean and variance of a weighted sum of the scores of the two answers."""
    mean = square = 0.0
    for nats, p in spread.items():
        probs = tuple(probabilities([nats, 0.0]))
        scored = for_true * measure(probs, 0) + for_false * measure(probs, 1)
        mean += p * scored
        square += p * scored * scored
    return mean, square - mean * mean
