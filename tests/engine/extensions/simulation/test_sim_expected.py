"""Closed form against protocols that are really run through simulated models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, pstdev
from typing import TypeAlias

import pytest

from oversight.engine.extensions.simulation import GroundTruth, SimModel, SimProvider
from oversight.engine.extensions.simulation.model import SHIFTS, nats_summed
from oversight.engine.extensions.simulation.simulated_call import probabilities
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import Judge, LogprobJudge, StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.market_making import AdversarialPropaganda, MarketMaking
from oversight.protocols.protocol import Protocol
from oversight.protocols.scores import SCORES, Score
from tests.world import shipments

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

    score: a name in oversight.protocols.scores.SCORES. Roles are plain agents, and judges that
    state a probability or are read by logprobs, in one order.
    """
    measure = SCORES[score]
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
    agent = models[protocol.agent.model] if hasattr(protocol, "agent") else None
    other = getattr(protocol, "adversary", None) or getattr(protocol, "opponent", None)
    rival = models[other.model] if other else agent
    if isinstance(protocol, MarketMaking):
        against = [
            [_leaning(agent), *[_case(rival, true)] * protocol.rounds] for true in (False, True)
        ]
        return _total(against[0]), _total(against[1])
    reading = _leaning(models[protocol.judge.model])
    said, answered = 1, 0
    match protocol:
        case NaiveJudge():
            return reading, reading
        case AdversarialPropaganda():
            said = protocol.rounds
        case Consultancy():
            said = (protocol.turns + (protocol.first == "consultant")) // 2
        case Debate():
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


def _leaning(model: SimModel) -> EvidenceSpread:
    return _gathered((model.leaning(shift), 0.5) for shift in SHIFTS)


def _case(model: SimModel, true: bool) -> EvidenceSpread:
    """Spread of the nats toward the truth from one speech, for the true or for the wrong answer."""
    sign = 1 if true else -1
    spoken = ((sign * model.strength(true, shift), (1 - model.refusal) / 2) for shift in SHIFTS)
    return _gathered([*spoken, (0.0, model.refusal)])


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


MODELS = {
    "sim/strong": SimModel(persuasion=1.6, honesty_gap=0.9, noise=0.7, insight=0.3),
    "sim/shy": SimModel(persuasion=0.8, honesty_gap=-0.4, noise=0.3, refusal=0.15, tool_use=0.5),
    "sim/judge": SimModel(insight=0.6, noise=0.45),
}
STRONG, SHY = Agent("sim/strong"), Agent("sim/shy", tools=("calculator",))

JUDGES: dict[str, Judge] = {
    "stated": StatedJudge("sim/judge"),
    "logprob": LogprobJudge("sim/judge"),
}
PROTOCOLS = {
    "naive": lambda judge: NaiveJudge(judge),
    "propaganda": lambda judge: Propaganda(judge, STRONG),
    "consultancy, client first": lambda judge: Consultancy(judge, STRONG),
    "consultancy, consultant first": lambda judge: Consultancy(judge, SHY, "consultant", 3),
    "adversarial propaganda": lambda judge: AdversarialPropaganda(
        judge, STRONG, epsilon=0, rounds=2
    ),
    "market": lambda judge: MarketMaking(judge, STRONG, epsilon=0, rounds=2),
    "market, against another": lambda judge: MarketMaking(judge, STRONG, SHY, 0, 1),
    "debate, simultaneous": lambda judge: Debate(judge, STRONG),
    "debate, simultaneous, against another": lambda judge: Debate(judge, STRONG, SHY, 1),
    "debate, sequential": lambda judge: Debate(judge, STRONG, rounds=1, simultaneous=False),
    "debate, sequential, against another": lambda judge: Debate(judge, SHY, STRONG, 1, False),
}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_without_chance_each_problem_scores_what_the_closed_form_says(kind, judge):
    """A known truth: simulated models without noise leave the closed form one outcome."""
    certain = {name: replace(model, noise=0, refusal=0) for name, model in MODELS.items()}
    protocol, problems = PROTOCOLS[kind](JUDGES[judge]), shipments(3)
    sim = SimProvider(GroundTruth(problems), certain)
    for problem in problems:
        right = problem.best
        verdicts = await protocol.worlds(problem, sim)
        for score, measure in SCORES.items():
            closed = expected_scores(protocol, certain, score)
            assert measure(verdicts[right].probs, right) == pytest.approx(closed.true, abs=1e-4)
            wrong = 1 - right
            assert measure(verdicts[wrong].probs, wrong) == pytest.approx(closed.false, abs=1e-4)
            assert closed.deviation == pytest.approx(0, abs=1e-6)


@pytest.mark.campaign
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_protocols_score_what_the_closed_form_says(kind, judge, campaign):
    """The known truth: with simulated models every expected score is a finite sum over coins. Mean
    and deviation over many problems are met within 4 standard errors, under every score."""
    protocol = PROTOCOLS[kind](JUDGES[judge])
    problems = shipments(campaign.size(500, 2000))
    sim = SimProvider(GroundTruth(problems), MODELS)
    beliefs = [
        (problem.best, [verdict.probs for verdict in await protocol.worlds(problem, sim)])
        for problem in problems
    ]
    for score in SCORES:
        check(score, beliefs, protocol)


def check(
    score: str, beliefs: list[tuple[int, list[tuple[float, ...]]]], protocol: Protocol
) -> None:
    """beliefs: the place of the best answer of each problem, and the verdicts of its worlds."""
    measure = SCORES[score]
    true = [measure(worlds[best], best) for best, worlds in beliefs]
    false = [measure(worlds[1 - best], 1 - best) for best, worlds in beliefs]
    asd = [t - f for t, f in zip(true, false, strict=True)]

    closed = expected_scores(protocol, MODELS, score)
    root_n = len(beliefs) ** 0.5
    assert fmean(true) == pytest.approx(closed.true, abs=4 * pstdev(true) / root_n + 1e-4)
    assert fmean(false) == pytest.approx(closed.false, abs=4 * pstdev(false) / root_n + 1e-4)
    assert fmean(asd) == pytest.approx(closed.asd, abs=4 * closed.deviation / root_n + 1e-4)
    # Four standard errors of a deviation, which are many where most problems score alike.
    spread = pstdev([(each - fmean(asd)) ** 2 for each in asd])
    off = spread / (2 * closed.deviation * root_n) if closed.deviation else 0.0
    assert pstdev(asd) == pytest.approx(closed.deviation, abs=4 * off + 1e-3)


def test_a_naive_judge_without_noise_scores_what_one_computes_by_hand():
    models = {"sim/judge": SimModel(insight=log(3), noise=0)}
    naive = NaiveJudge(StatedJudge("sim/judge"))
    brier = expected_scores(naive, models, "brier")
    assert (brier.true, brier.false) == (pytest.approx(-0.125), pytest.approx(-1.125))
    assert brier.asd == pytest.approx(1.0)
    assert expected_scores(naive, models, "log").asd == pytest.approx(log(3))
    assert expected_scores(naive, models, "logodds").asd == pytest.approx(2 * log(3))
    assert expected_scores(naive, models, "accuracy").asd == pytest.approx(1)
    assert brier.deviation == pytest.approx(0, abs=1e-7)
