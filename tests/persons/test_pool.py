"""How tasks of a sweep under way are shared out."""

import asyncio
from collections import Counter

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.extensions.people.journal import TaskGiven, read_journal
from oversight.engine.run.scheduler import attempt
from oversight.engine.sweep.rows import report_rows
from oversight.engine.sweep.sweep import Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import DistributionJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.question import randomness
from oversight.protocols.transcript import Verdict
from tests.persons.desks import MODEL, Work, what, work
from tests.world import shipments, simulated


@pytest.mark.parametrize(("rows", "raters"), [(1, 2), (1, 3), (2, 4)])
async def test_raters_of_a_sweep_under_way_get_as_many_truths_as_lies(rows, raters, tmp_path):
    problems, judge = shipments(30), DistributionJudge(MODEL)
    protocols = [Propaganda(judge, Agent(name)) for name in ("sim/it", "sim/quiet")]
    sweep = Sweep("s", tuple(problems), report_rows(protocols[:rows]))
    models = simulated(problems)
    async with work(tmp_path, raters=raters) as desk:

        async def ask(call: Call) -> Reply:
            return await (desk.desk if call.model == MODEL else models)(call)

        pool = desk.desk.pool
        cells = [
            asyncio.create_task(attempt(cell, desk.desk.ask_of(cell, ask)))
            for cell in sweep.cells()
        ]
        await until(desk, len(cells))
        turns = randomness(1, "turns", "test")
        while pool.waiting:
            number = turns.randint(1, raters)
            if (offer := await desk.desk.offer(desk.rater(number))) is not None:
                await desk.answer(number, offer)
        assert all(isinstance(outcome, Verdict) for outcome in await asyncio.gather(*cells))
    had: dict[str, Counter[str]] = {}
    for event in read_journal(tmp_path):
        assert isinstance(event, TaskGiven) or what(event) == "answered"
        if isinstance(event, TaskGiven):
            had.setdefault(event.rater, Counter())[event.kind[-2:]] += 1
    # By chance alone they are four apart on average; over twelve seeds they are one or two.
    apart = sum(abs(kinds["+1"] - kinds["-1"]) for kinds in had.values())
    assert apart <= 2.5 * raters, had


async def until(desk: Work, count: int) -> None:
    """Return when so many tasks wait."""
    while len(desk.desk.pool.waiting) < count:
        await desk.desk.news(30)


async def test_a_task_that_two_worlds_share_belongs_to_neither(tmp_path):
    problem = shipments(1)[0]
    sweep = Sweep("s", (problem,), report_rows([NaiveJudge(DistributionJudge(MODEL))]))
    async with work(tmp_path) as desk:
        pool = desk.desk.pool
        asked = [attempt(cell, desk.desk.ask_of(cell, desk.desk)) for cell in sweep.cells()]
        tasks = [asyncio.create_task(each) for each in asked]
        await until(desk, 1)
        [address] = pool.waiting
        assert pool.kind(address) == sweep.rows[0].address[:12]
        await desk.finish(1)
        await asyncio.gather(*tasks)
