"""Walking a sweep finds its calls before anything is sent."""

import sys
from dataclasses import dataclass
from pathlib import Path

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.engine.extensions.simulation import PRESETS
from oversight.engine.run import dry_run
from oversight.engine.sweep.sweep import Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.drafting import BestOf
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from tests.fakes import Scripted
from tests.sessions import sessions
from tests.tables import PUBLIC, printed
from tests.world import sweep

AGENT, JUDGE = Agent("openai/gpt-4o"), StatedJudge("openai/gpt-4o-mini")


@dataclass(frozen=True)
class Broken(Protocol):
    rounds: int = 1

    async def play(self, question: Question, side: Answer, ask: Ask) -> float:
        raise ZeroDivisionError


def sweep_of(*protocols: Protocol) -> Sweep:
    return sweep(*protocols, problems=1)


async def walked(*protocols: Protocol) -> tuple[int, list[tuple[Call, Reply]]]:
    """The number of verdicts, and each call with its reply."""
    grid, exchanges = sweep_of(*protocols), list[tuple[Call, Reply]]()
    provider = dry_run.stand_ins(grid, PRESETS)
    walker = dry_run.Walker(provider.reply, lambda call, reply: exchanges.append((call, reply)))
    verdicts = await walker.walk(grid.cells())
    assert all(reply.call == call.address for call, reply in exchanges)
    return verdicts, exchanges


async def count(*protocols: Protocol) -> tuple[int, int]:
    verdicts, exchanges = await walked(*protocols)
    return verdicts, len(exchanges)


async def test_a_walk_asks_what_the_sweep_would_ask_if_models_said_the_same():
    protocol = Debate(JUDGE, BestOf(2, AGENT, JUDGE), rounds=1)
    run = Scripted(dry_run.stand_ins(sweep_of(protocol), PRESETS).reply)
    for cell in sweep_of(protocol).cells():
        question = cell.problem.question
        await protocol.run(question, question.answers[cell.side], lambda call: run(call.drawn(0)))
    _, exchanges = await walked(protocol)
    assert {call.address for call, _ in exchanges} == {call.address for call in run.calls}


async def able(*protocols: Protocol) -> list[str]:
    """The shapes of the calls, each with the row that asks it first, if all can be asked."""
    calls = await dry_run.require_abilities(sweep_of(*protocols), PRESETS)
    return [f"{call.model} {call.max_tokens} {row.title}" for call, row in calls.items()]


@sessions(Path(__file__).with_name("dry_run.md"))
def test_sweeps_are_walked_and_refused_before_anything_is_sent(session, request, monkeypatch):
    if "not installed" in session.heading:
        monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    names = PUBLIC | globals() | {"monkeypatch": monkeypatch}
    session.check(request, printed(names), names)
