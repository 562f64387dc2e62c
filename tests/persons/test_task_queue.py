"""The assignment of tasks, and the journal after a process ends at any moment."""

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
from tests.persons.queues import PLAIN, event_kind, judgement, work, worlds
from tests.persons.test_task import speech
from tests.virtual import run
from tests.world import shipment

ONE = judgement(shipment(0).question, 0)


async def test_raters_never_get_two_worlds_of_one_problem(tmp_path):
    async with work(tmp_path) as at_work:
        calls = worlds(20)
        await at_work.put(calls)
        first, second = await at_work.finish(1), await at_work.finish(2)
        assert len(first) == len(second) == 20
        for calls_of_rater in (first, second):
            assert len({PersonTask(call).problem for call in calls_of_rater}) == 20
        assert {call.address for call in (*first, *second)} == {call.address for call in calls}
        replies = [await task for task in at_work.waiting.values()]
        assert {reply.served_model for reply in replies} == {"raters-1", "raters-2"}


def kinds(folder: Path) -> list[str]:
    """The kinds of the journal's events, in order."""
    return [event_kind(event) for event in read_journal(folder)]


def kinds_of(calls: list[Call]) -> dict[str, TaskKind]:
    """The kinds of both worlds of problems in turn; (A) is right in the first half."""
    half = len(calls) / 2
    return {
        call.address: TaskKind(PersonTask(call).problem, (n % 2 == 0) == (n < half))
        for n, call in enumerate(calls)
    }


@pytest.mark.parametrize(("persons", "raters"), [(1, 2), (1, 3), (1, 4), (1, 7), (2, 4), (2, 7)])
def test_loads_and_kinds_are_balanced(persons, raters):
    names = [f"raters-{n}" for n in range(raters)]
    tasks = {
        f"{problem} {world} {person}": TaskKind(str(problem), world)
        for problem in range(42)
        for world in (True, False)
        for person in range(persons)
    }
    assigned = balanced_assignment(tasks, names, seed=3)
    assert assigned == balanced_assignment(tasks, names, seed=3)
    assert assigned != balanced_assignment(tasks, names, seed=4)
    assert assigned.keys() == tasks.keys()
    loads = Counter(assigned.values())
    assert max(loads.values()) - min(loads.values()) <= 1
    for rater in names:
        of_rater = [tasks[task] for task, name in assigned.items() if name == rater]
        assert len({task.problem for task in of_rater}) == len(of_rater)
        assert abs(2 * sum(task.kind is True for task in of_rater) - len(of_rater)) <= 2
    # Earlier assignments stay, and count.
    earlier = dict(sorted(assigned.items())[::3])
    again = balanced_assignment(tasks, names, earlier, seed=4)
    assert earlier.items() <= again.items() and again.keys() == tasks.keys()
    assert len({(tasks[task].problem, name) for task, name in again.items()}) == len(tasks)


async def test_additional_raters_share_the_remaining_tasks(tmp_path):
    calls = worlds(12)
    async with work(tmp_path) as at_work:
        at_work.queue.assignment.assign(kinds_of(calls))
        await at_work.put(calls)
        for _ in range(6):
            await at_work.answer(1, await at_work.take(1))
    async with work(tmp_path, raters=4) as again:
        again.queue.assignment.assign(kinds_of(calls))
        await again.put(calls)
        counts = [len(await again.finish(n)) for n in (1, 2, 3, 4)]
        assert counts[0] == 0 and sorted(counts[1:]) == [6, 6, 6]


def test_task_of_an_absent_rater_goes_to_another_rater(tmp_path):
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


async def test_order_of_tasks_depends_on_seed_and_rater(tmp_path):
    orders = []
    for name, seed, rater in (("a", 0, 1), ("b", 0, 1), ("c", 1, 1), ("d", 0, 2)):
        async with work(tmp_path / name, replace(PLAIN, seed=seed)) as at_work:
            await at_work.put(worlds(8))
            orders.append([call.address for call in await at_work.finish(rater)])
    assert orders[0] == orders[1] and orders[0] not in orders[2:]


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
async def test_rater_gets_only_one_task_per_problem(other, tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        assert len(await at_work.finish(1)) == 1
        await at_work.put([other])
        assert await at_work.finish(1) == [] and await at_work.finish(2) == [other]


async def test_repeated_answer_counts_once_and_a_different_one_is_refused(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        await asyncio.gather(at_work.answer(1, offer, 60), at_work.answer(1, offer, 60))
        with pytest.raises(NotTheirs, match="the first answer that was saved stands"):
            await at_work.answer(1, offer, 20)
        with pytest.raises(NotTheirs, match="the first answer that was saved stands"):
            await at_work.queue.answer(at_work.rater(1), offer.ticket, None)
        assert kinds(tmp_path) == ["given", "answered"]
        [task] = at_work.waiting.values()
        assert '"A":0.6' in (await task).text


@pytest.mark.parametrize("posted", [{"p0": "65", "p1": "35"}, None], ids=["answer", "abstention"])
async def test_answer_saved_before_a_kill_is_the_reply_after_it(posted, tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        await at_work.queue.answer(at_work.rater(1), offer.ticket, posted)
        reply = await at_work.waiting[ONE.address]
    async with work(tmp_path) as again:
        await again.put([ONE])
        assert await asyncio.wait_for(again.waiting[ONE.address], 120) == reply


async def test_erased_answers_are_asked_of_another_rater(tmp_path):
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        await at_work.answer(1, offer, 65)
        await at_work.queue.withdraw("raters-1", erasing=True)
        # The page that was left open must not report it as saved.
        with pytest.raises(NotTheirs, match="You have left this study"):
            await at_work.answer(1, offer, 65)
        with pytest.raises(NotTheirs, match="You have left this study"):
            await at_work.queue.answer(at_work.rater(1), offer.ticket, None)
    async with work(tmp_path) as at_work:
        await at_work.put([ONE])
        assert await at_work.finish(1) == [] and len(await at_work.finish(2)) == 1
        (reply,) = [await task for task in at_work.waiting.values()]
        assert reply.served_model == "raters-2"


async def test_open_task_stays_with_its_rater_after_a_restart(tmp_path):
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


def test_rater_keys_are_private_and_permanent(tmp_path):
    first = seated_raters(tmp_path, ["raters"], 2)
    more = seated_raters(tmp_path, ["raters", "others"], 3)
    assert stat.S_IMODE(os.stat(tmp_path / PANEL).st_mode) == 0o600 and more[:2] == first
    assert {rater.name for rater in read_raters(tmp_path)} == {
        f"{panel}-{n}" for panel in ("raters", "others") for n in (1, 2, 3)
    }
    assert len({rater.key for rater in more}) == 6 and "key" not in repr(more[0])


async def test_panel_answers_only_its_calls(tmp_path):
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


async def test_belief_before_is_asked_without_the_transcript(tmp_path):
    async with work(tmp_path, QueueSettings()) as at_work:
        await at_work.put([ONE])
        offer = await at_work.take(1)
        assert offer.before
        belief = {"p0": "40", "p1": "60"}
        await at_work.queue.believe(at_work.rater(1), offer.ticket, belief)
        await at_work.queue.believe(at_work.rater(1), offer.ticket, belief)
        assert not (await at_work.take(1)).before and kinds(tmp_path) == ["given", "before"]


async def test_queue_warns_if_no_rater_may_get_its_tasks(tmp_path, caplog):
    async with work(tmp_path, raters=1) as at_work:
        await at_work.put(worlds(3))
        await at_work.finish(1)
        assert "3 tasks wait for another rater" in caplog.text
        assert at_work.queue.progress(at_work.rater(1)).answered == 3


def test_abandoned_task_goes_to_another_rater(tmp_path):
    async def left_lying() -> None:
        async with work(tmp_path, replace(PLAIN, returned_after=600.0)) as at_work:
            await at_work.put([ONE])
            lying = await at_work.take(1)
            await asyncio.sleep(590)
            assert (await at_work.take(1)).ticket == lying.ticket, "the page is opened again"
            assert await at_work.queue.offer(at_work.rater(2)) is None
            with pytest.raises(NotTheirs, match="is not yours"):
                await at_work.answer(2, lying)
            await asyncio.sleep(20)
            second = await at_work.take(2)
            assert second.task.call == lying.task.call and second.ticket != lying.ticket
            with pytest.raises(NotTheirs, match="someone else has it"):
                await at_work.answer(1, lying)
            # A rater who has seen the problem does not get its other world.
            await at_work.put([judgement(shipment(0).question, 1)])
            assert await at_work.queue.offer(at_work.rater(1)) is None
            await at_work.answer(2, second)

    run(left_lying())
    assert kinds(tmp_path) == ["given", "given", "answered"]


async def test_rater_continues_a_conversation(tmp_path):
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
