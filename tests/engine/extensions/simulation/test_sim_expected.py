"""Closed form against protocols that are really run through simulated models."""

from collections.abc import Mapping
from math import exp

import pytest

from oversight.engine.extensions.simulation import GroundTruth, SimModel, SimProvider
from oversight.protocols import Agent, Debate, LogprobJudge, Protocol, StatedJudge
from oversight.protocols.mechanisms.baselines import Consultancy, NaiveJudge, Propaganda
from oversight.protocols.mechanisms.market_making import AdversarialPropaganda, MarketMaking
from tests.world import shipments


def final_nats(protocol: Protocol, models: Mapping[str, SimModel]) -> tuple[float, float]:
    """The judge's final nats toward the truth where the agent argues for it, and where it argues
    for the wrong answer; of models without noise."""
    agent = models[protocol.agent.model] if hasattr(protocol, "agent") else None
    other = getattr(protocol, "adversary", None) or getattr(protocol, "opponent", None)
    rival = models[other.model] if other else agent
    if isinstance(protocol, MarketMaking):
        market = agent.leaning(0)
        true, false = (protocol.rounds * _case(rival, true) for true in (True, False))
        return market + false, market + true
    speeches, answered = 1, 0
    match protocol:
        case NaiveJudge():
            speeches = 0
        case AdversarialPropaganda():
            speeches = protocol.rounds
        case Consultancy():
            speeches = (protocol.turns + (protocol.first == "consultant")) // 2
        case Debate():
            speeches = answered = protocol.rounds
    reading = models[protocol.judge.model].leaning(0)
    if not speeches:
        return reading, reading
    in_true = reading + speeches * _case(agent, True) + answered * _case(rival, False)
    return in_true, reading + speeches * _case(agent, False) + answered * _case(rival, True)


def _case(model: SimModel, true: bool) -> float:
    """Nats toward the truth from one speech, for the true or for the wrong answer."""
    return model.strength(true, 0) * (1 if true else -1)


MODELS = {
    "sim/strong": SimModel(persuasion=1.6, honesty_gap=0.9, noise=0, insight=0.3),
    "sim/shy": SimModel(persuasion=0.8, honesty_gap=-0.4, noise=0, tool_use=0.5),
    "sim/judge": SimModel(insight=0.6, noise=0),
}
STRONG, SHY = Agent("sim/strong"), Agent("sim/shy", tools=("calculator",))

JUDGES = {"stated": StatedJudge("sim/judge"), "logprob": LogprobJudge("sim/judge")}
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
    """A known truth: simulated models without noise leave one outcome."""
    protocol, problems = PROTOCOLS[kind](JUDGES[judge]), shipments(3)
    sim = SimProvider(GroundTruth(problems), MODELS)
    expected = [1 / (1 + exp(-nats)) for nats in final_nats(protocol, MODELS)]
    for problem in problems:
        right, wrong = problem.best, 1 - problem.best
        verdicts = await protocol.worlds(problem, sim)
        believed = [verdicts[place].probs[right] for place in (right, wrong)]
        assert believed == pytest.approx(expected, abs=1e-6)
