"""Who gets what, and what is kept of it when a process ends at any moment."""

import asyncio
import os
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from oversight.cache.call import Call
from oversight.engine.errors import Interrupted
from oversight.engine.extensions.people.journal import (
    PANEL,
    read_journal,
    read_raters,
    seated_raters,
)
from oversight.engine.extensions.people.task import PersonTask
from oversight.engine.extensions.people.task_queue import (
    NotReady,
    NotTheirs,
    QueueSettings,
    TaskKind,
    balanced_assignment,
)
from tests.persons.queues import PLAIN, judgement, what, work, worlds
from tests.persons.test_task import speech
from tests.virtual import run
from tests.world import shipment

ONE = judgement(shipment(0).question, 0)


async def test_nobody_gets_two_worlds_of_one_problem_and_all_are_judged(tmp_path):
    async with work(tmp_path) as at_work:
        calls = worlds(20)
        await at_work.put(calls)
        first, second = await at_work.finish(1), await at_work.finish(2)
        assert len(first) == len(second) == 20
        for had in (first, second):
            assert len({PersonTask(call).problem for call in had}) == 20
        assert {call.address for call in (*first, *second)} == {call.address for call in calls}
        replies = [await task for task in at_work.waiting.values()]
        assert {reply.served_model for reply in replies} == {"raters-1", "raters-2"}


def told(folder: Path) -> list[str]:
    """What the journal has, in order."""
    return [what(event) for event in read_journal(folder)]


def kinds_of(calls: list[Call]) -> dict[str, TaskKind]:
    """Of both worlds of problems, one after the other: of the first half the truth is (A)."""
    half = len(calls) / 2
    return {
        call.address: TaskKind(PersonTask(call).problem, (n % 2 == 0) == (n < half))
        for n, call in enumerate(calls)
    }


@pytest.mark.parametrize(("each", "raters"), [(1, 2), (1, 3), (1, 4), (1, 7), (2, 4), (2, 7)])
def test_loads_and_kinds_are_as_equal_as_numbers_allow(each, raters):
    names = [f"raters-{n}" for n in range(raters)]
    tasks = {
        f"{problem} {world} {person}": TaskKind(str(problem), world)
        for problem in range(42)
        for world in (True, False)
        for person in range(each)
    }
    found = balanced_assignment(tasks, names, seed=3)
    assert found == balanced_assignment(tasks, names, seed=3)
    assert found != balanced_assignment(tasks, names, seed=4)
    assert found.keys() == tasks.keys()
    loads = Counter(found.values())
    assert max(loads.values()) - min(loads.values()) <= 1
    for rater in names:
        own = [tasks[task] for task, who in found.items() if who == rater]
        assert len({task.problem for task in own}) == len(own)
        truths = sum(task.kind is True for task in own)
        assert abs(2 * truths - len(own)) <= 2
    # What was given before stays, and counts.
    given = dict(sorted(found.items())[::3])
    again = balanced_assignment(tasks, names, given, seed=4)
    assert given.items() <= again.items() and again.keys() == tasks.keys()
    assert len({(tasks[task].problem, who) for task, who in again.items()}) == len(tasks)


async def test_more_raters_than_before_share_what_is_left(tmp_path):
    calls = worlds(12)
    async with work(tmp_path) as at_work:
        at_work.queue.assignment.assign(kinds_of(calls))
        await at_work.put(calls)
        for _ in range(6):
            await at_work.answer(1, await at_work.take(1))
    async with work(tmp_path, raters=4) as again:
        again.queue.assignment.assign(kinds_of(calls))
        await again.put(calls)
        had = [len(await again.finish(n)) for n in (1, 2, 3, 4)]
        assert sum(had) == 24 - 6
        assert had[0] == 0 and sorted(had[1:]) == [6, 6, 6]


def test_a_task_whose_rater_never_comes_goes_to_another_one(tmp_path):
    async def absent() -> None:
        async with work(tmp_path, replace(PLAIN, returned_after=600.0), raters=3) as at_work:
            calls = worlds(6)
            at_work.queue.assignment.assign(kinds_of(calls))
            await at_work.put(calls)
            assert len(await at_work.finish(1)) == len(await at_work.finish(2)) == 4
            assert await at_work.queue.offer(at_work.rater(1)) is None
            await asyncio.sleep(601)
            assert len(await at_work.finish(1)) + len(await at_work.finish(2)) == 4

    run(absent())


async def test_the_order_of_tasks_is_by_the_seed_and_differs_between_raters(tmp_path):
    orders = []
    for name, seed, rater in (("a", 0, 1), ("b", 0, 1), ("c", 1, 1), ("d", 0, 2)):
        async with work(tmp_path / name, replace(PLAIN, seed=seed)) as at_work:
            await at_work.put(worlds(8))
            orders.append([call.address for call in await at_work.finish(rater)])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != orders[3]


@pytest.mark.parametrize(
    "other",
    [
        judgement(shipment(0).question, 1),
        judgement(shipment(0).question, 0, (0, 1)),
        judgement(shipment(0).question, 0, (1,)),
        judgement(shipment(0).question, 0, rules="You are patient."),
        judgement(shipment(0).question, 0, exchange=True),
    ],
    ids=["other world", "another person's", "another draw", "other protocol", "other order"],
)
async def test_who_has_seen_a_problem_gets_nothing_else_about_it(other, tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        assert len(await at_work.finish(1)) == 1
        await at_work.put([other])
        assert await at_work.finish(1) == []
        assert await at_work.finish(2) == [other]


async def test_an_answer_that_is_sent_twice_is_one_and_another_is_refused(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        await asyncio.gather(at_work.answer(1, offer, 60), at_work.answer(1, offer, 60))
        with pytest.raises(NotTheirs, match="the first answer that was saved stands"):
            await at_work.answer(1, offer, 20)
        with pytest.raises(NotTheirs, match="the first answer that was saved stands"):
            await at_work.queue.abstain(at_work.rater(1), offer.ticket)
        assert told(tmp_path) == ["given", "answered"]
        [task] = at_work.waiting.values()
        assert '"A":0.6' in (await task).text


async def test_an_answer_saved_before_a_kill_is_the_reply_after_it(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        await at_work.answer(1, await at_work.take(1), 65)
        said = await at_work.waiting[ONE.address]
    async with work(tmp_path) as again:
        await again.put([ONE])
        assert await asyncio.wait_for(again.waiting[ONE.address], 120) == said


async def test_what_a_rater_takes_back_is_asked_of_another_one(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        await at_work.answer(1, offer, 65)
        await at_work.queue.withdraw("raters-1", erasing=True)
        # The page that was left open must not say that this is saved.
        with pytest.raises(NotTheirs, match="You have left this study"):
            await at_work.answer(1, offer, 65)
        with pytest.raises(NotTheirs, match="You have left this study"):
            await at_work.queue.abstain(at_work.rater(1), offer.ticket)
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        assert await at_work.finish(1) == []
        assert len(await at_work.finish(2)) == 1
        (reply,) = [await task for task in at_work.waiting.values()]
        assert reply.served_model == "raters-2"


async def test_a_task_under_way_stays_with_its_rater_over_a_restart(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
    async with work(tmp_path) as again:
        # The page that was left open is sent before the run has come to this call again.
        with pytest.raises(NotReady):
            await again.answer(1, offer)
        await again.put([ONE])
        assert await again.queue.offer(again.rater(2)) is None
        await again.answer(1, offer)
        assert (await again.waiting[ONE.address]).outcome == "ok"


def test_keys_are_the_owners_alone_and_stay_the_same(tmp_path):
    first = seated_raters(tmp_path, ["raters"], 2)
    more = seated_raters(tmp_path, ["raters", "others"], 3)
    assert stat.S_IMODE(os.stat(tmp_path / PANEL).st_mode) == 0o600
    assert more[:2] == first
    assert {rater.name for rater in read_raters(tmp_path)} == {
        f"{panel}-{n}" for panel in ("raters", "others") for n in (1, 2, 3)
    }
    assert len({rater.key for rater in more}) == 6
    assert "key" not in repr(more[0])


async def test_a_panel_answers_its_own_calls_alone(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE.changed(model="person/experts")])
        assert await at_work.finish(1) == []


async def test_a_stop_ends_every_wait_at_once(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put(worlds(3))
        at_work.stop_token.stop(Interrupted(2))
        for task in at_work.waiting.values():
            with pytest.raises(Interrupted):
                await task
        with pytest.raises(Interrupted):
            await at_work.queue(judgement(shipment(9).question, 0))


async def test_a_cancelled_call_is_offered_to_nobody(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        at_work.waiting[ONE.address].cancel()
        await asyncio.wait(at_work.waiting.values())
        assert await at_work.finish(1) == []


async def test_a_belief_before_is_asked_without_the_transcript(tmp_path):
    async with work(tmp_path, QueueSettings()) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        assert offer.before
        belief = {"p0": "40", "p1": "60"}
        await at_work.queue.believe(at_work.rater(1), offer.ticket, belief)
        await at_work.queue.believe(at_work.rater(1), offer.ticket, belief)
        assert not (await at_work.take(1)).before
        assert told(tmp_path) == ["given", "before"]


async def test_a_desk_that_nobody_may_serve_says_so(tmp_path, caplog):
    async with work(tmp_path, raters=1) as at_work:
        await at_work.put(worlds(3))
        await at_work.finish(1)
        assert "3 tasks wait for another rater" in caplog.text
        assert at_work.queue.progress(at_work.rater(1)).answered == 3


def test_a_task_that_is_let_lie_goes_to_another_rater(tmp_path):
    async def left_lying() -> None:
        async with work(tmp_path, replace(PLAIN, returned_after=600.0)) as at_work:
            await at_work.put([ONE])
            lying = await at_work.take(1)
            await asyncio.sleep(590)
            assert (await at_work.take(1)).ticket == lying.ticket, "a page that is opened again"
            assert await at_work.queue.offer(at_work.rater(2)) is None
            with pytest.raises(NotTheirs, match="is not yours"):
                await at_work.answer(2, lying)
            await asyncio.sleep(20)
            taken = await at_work.take(2)
            assert taken.task.call == lying.task.call
            assert taken.ticket != lying.ticket
            with pytest.raises(NotTheirs, match="someone else has it"):
                await at_work.answer(1, lying)
            # Who has seen the problem is not given its other world either.
            await at_work.put([judgement(shipment(0).question, 1)])
            assert await at_work.queue.offer(at_work.rater(1)) is None
            await at_work.answer(2, taken)

    run(left_lying())
    assert told(tmp_path) == ["given", "given", "answered"]


async def test_who_began_a_conversation_goes_on_with_it(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([speech("a").call])
        offer = await at_work.take(2)
        await at_work.queue.answer(at_work.rater(2), offer.ticket, {"text": "b"})
        await at_work.put([speech("a", "b", "c").call])
        assert await at_work.queue.offer(at_work.rater(1)) is None
        offer = await at_work.take(2)
        assert offer.task.heard.count("<turn") == 3
        await at_work.queue.answer(at_work.rater(2), offer.ticket, {"text": "d"})
        await at_work.put([speech("a", "b", "c", "d", "e").call])
        assert await at_work.queue.offer(at_work.rater(1)) is None
        await at_work.queue.withdraw("raters-2", erasing=False)
        assert (await at_work.take(1)).task.heard.count("<turn") == 5, (
            "nobody waits for who has left"
        )
