"""Walking a sweep finds its calls before anything is sent."""

import sys
from dataclasses import dataclass, replace
from datetime import date

import pytest

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.engine.errors import UsageError
from oversight.engine.extensions.simulation import PRESETS
from oversight.engine.providers.capabilities import retirement
from oversight.engine.run import dry_run
from oversight.engine.sweep.sweep import Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.drafting import BestOf, SideCheck
from oversight.protocols.judges.jury import Jury
from oversight.protocols.judges.logprob import LogprobJudge
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.critique import Critique
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.open_protocols import OpenTrust
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from tests.fakes import Scripted
from tests.world import sweep

AGENT, JUDGE = Agent("openai/gpt-4o"), StatedJudge("openai/gpt-4o-mini")
JURORS = (StatedJudge("sim/a"), LogprobJudge("sim/b"))


@dataclass(frozen=True)
class Broken(Protocol):
    rounds: int = 1

    async def play(self, question: Question, side: Answer, ask: Ask) -> float:
        raise ZeroDivisionError


def sweep_of(*protocols: Protocol) -> Sweep:
    return sweep(*protocols, problems=1)


async def walked(grid: Sweep) -> tuple[int, list[tuple[Call, Reply]]]:
    exchanges, provider = [], dry_run.stand_ins(grid, PRESETS)
    walker = dry_run.Walker(provider.reply, lambda call, reply: exchanges.append((call, reply)))
    return await walker.walk(grid.cells()), exchanges


async def test_a_walk_sees_each_different_call_of_both_worlds_once():
    verdicts, exchanges = await walked(sweep_of(NaiveJudge(JUDGE), Debate(JUDGE, AGENT, rounds=2)))
    assert verdicts == 4
    # One for the naive judge; two speeches a round that both worlds share, and their judge.
    assert len(exchanges) == len({call.address for call, _ in exchanges}) == 1 + 2 * 2 + 1
    assert all(reply.call == call.address for call, reply in exchanges)


async def test_a_walk_asks_what_the_sweep_would_ask_if_models_said_the_same():
    sweep = sweep_of(Debate(JUDGE, BestOf(2, AGENT, JUDGE), rounds=1))
    run = Scripted(dry_run.stand_ins(sweep, PRESETS).reply)
    for cell in sweep.cells():
        answers = cell.problem.question.answers
        await cell.row.protocol.run(
            cell.problem.question, answers[cell.side], lambda call: run(call.drawn(0))
        )
    _, exchanges = await walked(sweep)
    assert {call.address for call, _ in exchanges} == {call.address for call in run.calls}


async def test_a_logprob_judge_on_a_model_without_logprobs_is_refused_with_the_mend():
    sweep = sweep_of(Debate(LogprobJudge("anthropic/claude-3-5-haiku-latest"), AGENT))
    with pytest.raises(UsageError) as error:
        await dry_run.require_abilities(sweep, PRESETS)
    assert str(error.value).splitlines() == [
        "anthropic/claude-3-5-haiku-latest: top_logprobs: this model reports no logprobs; "
        "judge by stated probabilities or votes",
        "  asked for in: debate simultaneous 2 rounds · openai/gpt-4o · "
        "anthropic/claude-3-5-haiku-latest logprob",
        "Nothing was sent.",
    ]


async def test_all_missing_things_are_reported_together_and_once():
    tempered = replace(AGENT, model="openai/gpt-5-mini")
    sweep = sweep_of(
        Debate(JUDGE, tempered),
        NaiveJudge(LogprobJudge("anthropic/claude-3-haiku-20240307")),
        Debate(LogprobJudge("anthropic/claude-3-haiku-20240307"), tempered, rounds=1),
    )
    with pytest.raises(UsageError) as error:
        await dry_run.require_abilities(sweep, PRESETS)
    lines = str(error.value).splitlines()
    assert len([line for line in lines if line.startswith("openai/gpt-5-mini: temperature")]) == 1
    assert len([line for line in lines if "reports no logprobs" in line]) == 1


async def test_a_sweep_that_asks_for_nothing_impossible_passes():
    sim = NaiveJudge(LogprobJudge("sim/judge"))
    await dry_run.require_abilities(sweep_of(sim, Debate(JUDGE, AGENT)), PRESETS)


async def test_cells_with_unreadable_replies_are_walked_but_have_no_verdicts():
    calls: list[Call] = []
    walker = dry_run.Walker(lambda call: Reply("who knows"), lambda call, _: calls.append(call))
    assert await walker.walk(sweep_of(NaiveJudge(JUDGE)).cells()) == 0 and len(calls) == 1


def test_a_model_that_its_vendor_no_longer_serves_is_refused_with_the_day():
    messages = [retirement("openai/o1"), retirement("openai/gpt-4o")]
    ends = [message for message in messages if message is not None]
    assert len(ends) == 2
    dry_run.require_service(ends, date(2026, 10, 22))
    with pytest.raises(UsageError) as refused:
        dry_run.require_service(ends, date(2026, 10, 23))
    assert str(refused.value).splitlines() == [
        "openai/o1: its vendor stopped serving it on 2026-10-23",
        "choose another model; its stored replies can still be read with --cache replay. "
        "Nothing was sent.",
    ]


async def test_rows_that_differ_in_name_only_are_refused():
    agents = Agent("sim/a"), Agent("sim/a", words=7)
    judges = JUDGE, LogprobJudge(JUDGE.model)
    for rows, label in (
        ([OpenTrust(JUDGE, agent) for agent in agents], "open trust · sim/a + words 7 · "),
        ([OpenTrust(judge, AGENT) for judge in judges], "gpt-4o-mini logprob"),
    ):
        with pytest.raises(UsageError, match="the same calls") as fault:
            await dry_run.require_abilities(sweep_of(*rows), PRESETS)
        assert label in str(fault.value)


@pytest.mark.parametrize(
    "rows",
    [
        # They score equal calls differently.
        [NaiveJudge(Jury(JURORS, pool=pool)) for pool in ("mean", "logodds")],
        [Debate(JUDGE, SideCheck(Agent("sim/a"), Agent("sim/b"), retries)) for retries in (1, 2)],
        # They fail alike, whatever they are: that their code is wrong is told where they run.
        [Broken(JUDGE, 1), Broken(JUDGE, 2)],
        # The settings of a protocol are taken at their word.
        [Critique(JUDGE, AGENT, critiques=1, shown=1), Critique(JUDGE, AGENT), NaiveJudge(JUDGE)],
    ],
    ids=["pools", "retries", "crashes", "settings"],
)
async def test_rows_that_differ_are_told_apart(rows):
    await dry_run.require_distinct(sweep_of(*rows))


async def test_a_chain_counts_what_is_asked_at_once_as_one_step():
    protocols = (NaiveJudge(JUDGE), Debate(JUDGE, AGENT, rounds=2), Debate(
        JUDGE, AGENT, rounds=2, simultaneous=False,
    ))  # fmt: skip
    steps = (await dry_run.chains(sweep_of(*protocols), PRESETS)).values()
    agent, judge = (AGENT.model,), (JUDGE.model,)
    assert [*steps] == [[judge], [2 * agent, 2 * agent, judge], [*[agent] * 4, judge]]


async def test_a_tool_that_is_not_installed_is_reported_before_the_first_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    agent = replace(AGENT, tools=("python",))
    with pytest.raises(UsageError, match=r"python needs an interpreter: .*pip install"):
        await dry_run.require_abilities(sweep_of(Debate(JUDGE, agent)), {})
    await dry_run.require_abilities(
        sweep_of(Debate(JUDGE, replace(agent, tools=("calculator",)))), {}
    )
