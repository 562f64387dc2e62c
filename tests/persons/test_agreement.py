"""Figures of raters against what is reckoned by hand from what they answered; judgements asked for
twice, and how tasks of a sweep under way are shared out.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.analysis.scoring.agreement import krippendorff_alpha
from oversight.engine.extensions.people.desk import NotTheirs
from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    RaterJournal,
    RepeatAnswered,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    read_journal,
)
from oversight.engine.extensions.people.panel import seated_raters
from oversight.engine.extensions.people.raters import rater_agreement, rater_standings
from oversight.engine.extensions.people.repeats import MIN_BETWEEN
from oversight.engine.extensions.people.session import expecting
from oversight.engine.extensions.people.task import Moment, answer_digests
from oversight.engine.run.loaded_sweep import open_run
from oversight.engine.run.scheduler import attempt
from oversight.engine.sweep.rows import report_rows
from oversight.engine.sweep.sweep import Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import DistributionJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.question import Problem, randomness
from oversight.protocols.transcript import Verdict
from tests.command_line import within
from tests.persons.desks import MODEL, PLAIN, Work, work, worlds
from tests.shipments import shipments, simulated

MOMENT = Moment("", "", 0, 0, "", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rated")
    (place / "rated.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 3}}\njudges: sim/judge\n"
        "protocols: naive_judge\n"
    )
    assert within("run", "rated.yaml", cwd=place, OVERSIGHT_STORE=str(place / "store")).code == 0
    return next((place / "runs").glob("rated-*"))


def answered(
    rater: str, problem: Problem, truth: float, *, turned: bool = False, seconds: float = 10.0
) -> TaskAnswered:
    """truth: the probability of the right answer. turned: whether the answers were shown in the
    other order."""
    digest, order = answer_digests(problem.question)
    probs = (truth, 1 - truth) if problem.best == 0 else (1 - truth, truth)
    if turned:
        order, probs = order[::-1], probs[::-1]
    task = f"{digest}-{rater}"
    return TaskAnswered(rater, task, digest, digest, order, {}, probs, seconds, 0)


@pytest.mark.wire
def test_every_figure_is_that_of_the_answers_in_whatever_order_they_were_shown(run):
    a, b, c = open_run(run).sweep.problems
    seated_raters(run / "persons", ["raters"], 2)
    journal = RaterJournal(run / "persons")
    one, two = "raters-1", "raters-2"
    first = answered(one, a, 0.9, seconds=20)
    for event in (
        TaskGiven(one, first.task, first.problem, MOMENT, 0),
        BeliefBefore(one, first.task, tuple(reversed(first.probs or ())), 5.0),
        first,
        answered(two, a, 0.8, turned=True),
        answered(one, b, 0.3, turned=True),
        answered(two, b, 0.6),
        answered(two, c, 0.7),
        TaskAbstained(one, "other", "x", "y", "asked", 3.0, 0),
        TaskGiven(two, "under way", "p", MOMENT, 0),
    ):
        journal.append(event)
    found = rater_agreement(run)
    assert found.tasks == 3
    rater, other = found.raters
    # Brier of two answers is -2 (1 - p)^2.
    assert rater.brier is not None and rater.brier.value == pytest.approx(-(0.02 + 0.98) / 2)
    assert (rater.judged, rater.accuracy, rater.abstained) == (2, 0.5, 1)
    assert rater.moved is not None and rater.moved.value == pytest.approx(-0.02 + 1.62)
    assert rater.seconds == 15.0
    assert rater.calibration is not None
    # Sure to 0.9 and 0.7, right in one of two.
    assert rater.calibration.overconfidence == pytest.approx(0.8 - 0.5)
    assert other.brier is not None
    assert other.brier.value == pytest.approx(-(0.08 + 0.32 + 0.18) / 3)
    probs = [
        [(p, 1 - p) if problem.best == 0 else (1 - p, p) for p in stated]
        for problem, stated in ((a, (0.9, 0.8)), (b, (0.3, 0.6)))
    ]
    by_hand = krippendorff_alpha(probs)
    assert by_hand is not None and found.interval is not None and found.nominal is not None
    assert found.interval.alpha == pytest.approx(by_hand.alpha)
    assert (found.interval.units, found.interval.values) == (2, 4)
    assert found.beside == ()
    standing = {each.rater: each for each in rater_standings(run)}
    assert (standing[one].answered, standing[one].abstained, standing[one].under_way) == (2, 1, 0)
    assert (standing[two].answered, standing[two].under_way) == (3, 1)
    told = within("measure", "people", run, cwd=run.parent.parent)
    assert told.code == 0 and "Krippendorff's alpha" in told.out


@pytest.mark.wire
def test_self_agreement_is_of_what_a_rater_judged_twice(run, tmp_path):
    mine = Path(copytree(run, tmp_path / run.name, ignore=lambda *_: ["persons"]))
    seated_raters(mine / "persons", ["raters"], 2)
    journal, one = RaterJournal(mine / "persons"), "raters-1"
    first = [answered(one, problem, 0.9) for problem in open_run(mine).sweep.problems]
    for event in first:
        journal.append(event)
    pairs = []
    for n, (event, shift) in enumerate(zip(first, (0.1, -0.2, 0.0), strict=True)):
        assert event.probs
        probs = (event.probs[0] + shift * (1 if event.probs[0] < 0.5 else -1), 0.0)
        probs = (probs[0], 1 - probs[0])
        pairs.append((event.probs, probs))
        journal.append(RepeatAnswered(one, f"again {n}", event.task, probs, 9.0, 0))
    journal.append(RepeatAnswered(one, "again 3", first[0].task, None, 9.0, 0))
    journal.append(replace(first[0], rater="raters-2", task="another's"))
    found = rater_agreement(mine)
    [again] = found.again
    by_hand = krippendorff_alpha(pairs)
    assert (again.rater, again.repeated, again.same) == (one, 3, 1.0)
    assert again.apart == pytest.approx(0.1)
    assert by_hand and again.alpha and again.alpha.alpha == pytest.approx(by_hand.alpha)
    assert (found.tasks, found.raters[0].judged) == (3, 3), "a repeat is no other judgement"
    told = within("measure", "people", mine, cwd=run.parent.parent)
    assert told.code == 0 and "Self-agreement" in told.out


async def test_a_judgement_is_repeated_after_ten_others_and_reaches_no_store(tmp_path):
    async with work(tmp_path, replace(PLAIN, repeats=1.0)) as desk:
        await desk.put(worlds(16))
        had = await desk.finish(1)
        repeats = {n: call for n, call in enumerate(had) if call.address not in desk.waiting}
        first = {call.request: n for n, call in enumerate(had) if n not in repeats}
        # Of sixteen judgements the first six have ten others behind them.
        assert len(repeats) == 16 - MIN_BETWEEN and len(first) == 16
        for n, call in repeats.items():
            others = [k for k in range(first[call.request] + 1, n) if k not in repeats]
            assert len(others) >= MIN_BETWEEN
        again = [event for event in read_journal(tmp_path) if isinstance(event, RepeatAnswered)]
        assert [event.of for event in again] == [
            had[first[call.request]].address for call in repeats.values()
        ]
        assert {event.probs for event in again} == {(0.7, 0.3)}
        assert desk.desk.progress(desk.rater(1)).answered == 16


async def test_about_the_share_that_was_asked_for_is_repeated(tmp_path):
    counts = []
    for seed in range(4):
        async with work(tmp_path / str(seed), replace(PLAIN, repeats=0.2, seed=seed)) as desk:
            await desk.put(worlds(30))
            counts.append(len(await desk.finish(1)) - 30)
    # Binomial: 80 judgements that have ten others behind them, and four standard errors.
    assert 2 <= sum(counts) <= 30 and len(set(counts)) > 1


async def test_a_repeat_from_before_a_restart_is_not_waited_for(tmp_path):
    settings, calls = replace(PLAIN, repeats=1.0), worlds(16)
    async with work(tmp_path, settings) as desk:
        await desk.put(calls)
        while (offer := await desk.take(1)).task.call.address in desk.waiting:
            await desk.answer(1, offer)
    async with work(tmp_path, settings) as desk:
        await desk.put(calls)
        with pytest.raises(NotTheirs, match="not needed any more"):
            await desk.answer(1, offer)
        had = await desk.finish(1)
        # The first judgement, ten others, and then its repeat had come before.
        assert len([call for call in had if call.address in desk.waiting]) == 15 - MIN_BETWEEN


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
            asyncio.create_task(attempt(cell, expecting(cell, pool, ask))) for cell in sweep.cells()
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
        assert isinstance(event, TaskGiven) or event.what == "answered"
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
        asked = [attempt(cell, expecting(cell, pool, desk.desk)) for cell in sweep.cells()]
        tasks = [asyncio.create_task(each) for each in asked]
        await until(desk, 1)
        [address] = pool.waiting
        assert pool.kind(address) == sweep.rows[0].address[:12]
        await desk.finish(1)
        await asyncio.gather(*tasks)
