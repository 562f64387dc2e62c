"""The cache before an ask: modes, single flight, durability first; work that cells share. Replays:
answers from the store alone."""

import asyncio
import gc
import itertools
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from oversight.cache.cache import Cache, CacheStatistics
from oversight.cache.call import (
    Ask,
    Call,
    Message,
    RecordingAsk,
    for_purpose,
    for_role,
    run_once,
    store_key,
    with_repeat,
)
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.entry import read_entry
from oversight.cache.errors import DamagedEntry, ReplayMiss, StoreError
from oversight.cache.reasoning import Tags
from oversight.cache.reply import Reply
from oversight.cache.shared_results import MAX_NOTES, TRIED, SharedResults
from oversight.cache.store import MemoryStore
from tests.cache.asking import CALL, answers, ask_all, calls, home
from tests.fakes import Scripted


class Gate:
    """An `Ask` that answers when it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = 0

    async def __call__(self, call: Call) -> Reply:
        self.asked += 1
        await self.open.wait()
        return Reply("48")


async def waiters(cache: Cache, count: int) -> list[asyncio.Task[Reply]]:
    """Tasks that have asked for one call, and wait for it."""
    tasks = [asyncio.create_task(cache(CALL)) for _ in range(count)]
    for _ in range(9):
        await asyncio.sleep(0)
    return tasks


async def test_a_call_is_paid_once_and_served_from_the_store_afterwards():
    store, inner = MemoryStore(), answers()
    first = Cache(store, inner, identity=home, clock=lambda: 1_700_000_000.9)
    await first(CALL)
    ((key, value),) = store.items()
    record = read_entry(key, value)
    assert (record.stored_at, record.identity, record.call()) == (1_700_000_000, "here/v1", CALL)
    again = Cache(store, inner, identity=home)
    assert await again(CALL) == Reply("48", call=CALL.address) and len(inner.calls) == 1
    assert first.statistics == CacheStatistics(asked=1, stored=0, shared=0, new=1)
    assert again.statistics == CacheStatistics(asked=1, stored=1, shared=0, new=0)


async def test_two_processes_on_one_store_are_handed_the_reply_that_was_stored_first(tmp_path):
    stores, barrier = [DiskStore(tmp_path), DiskStore(tmp_path)], asyncio.Barrier(2)

    async def says(reply: str, call: Call) -> Reply:
        await barrier.wait()
        return Reply(reply)

    caches = [Cache(at, partial(says, f"reply {n}"), identity=home) for n, at in enumerate(stores)]
    replies = await asyncio.gather(*(cache(CALL) for cache in caches))
    assert replies == [await Cache(stores[0], answers(), identity=home, mode="replay")(CALL)] * 2
    assert [await cache(CALL) for cache in caches] == replies
    for cache, store in zip(caches, stores, strict=True):
        await cache.close()
        store.close()


async def test_a_refresh_replaces_what_another_process_has_stored_meanwhile():
    store, early = MemoryStore(), answers("early")

    async def late(call: Call) -> Reply:
        await Cache(store, early, identity=home)(CALL)
        return Reply("late")

    refreshed = await Cache(store, late, identity=home, mode="refresh")(CALL)
    assert refreshed.text == "late" and await Cache(store, early, identity=home)(CALL) == refreshed


async def test_an_object_that_answers_several_calls_is_not_changed_for_its_holders():
    shared = Reply("48")

    async def inner(call: Call) -> Reply:
        return shared

    cache = Cache(MemoryStore(), inner, identity=home, origin=home)
    first, second = [await cache(call) for call in calls(2)]
    assert [first.call, second.call] == [call.address for call in calls(2)]


@pytest.mark.parametrize("mode", ["use", "refresh", "off"])
async def test_a_hundred_tasks_that_ask_one_call_at_once_cause_one_call(mode):
    inner = answers()
    cache = Cache(MemoryStore(), inner, identity=home, mode=mode)
    replies = await ask_all(cache, [CALL] * 100)
    assert replies == [Reply("48", call=CALL.address)] * 100 and len(inner.calls) == 1
    assert cache.statistics == CacheStatistics(asked=100, stored=0, shared=99, new=1)


async def test_a_cancelled_waiter_does_not_cancel_the_flight_for_others():
    gate = Gate()
    first, second = await waiters(Cache(MemoryStore(), gate, identity=home), 2)
    first.cancel()
    await asyncio.wait([first])
    gate.open.set()
    assert (first.cancelled(), (await second).text, gate.asked) == (True, "48", 1)


async def test_a_flight_that_everybody_left_still_lands_and_is_saved():
    store, gate = MemoryStore(), Gate()
    cache = Cache(store, gate, identity=home)
    waiting = await waiters(cache, 3)
    for waiter in waiting:
        waiter.cancel()
    await asyncio.wait(waiting)
    gate.open.set()
    await cache.close()
    assert cache.statistics.new == len(store) == 1


async def test_an_exception_reaches_all_waiting_calls_and_is_not_stored():
    store, replies = MemoryStore(), iter([ConnectionError("reset"), Reply("48")])

    async def flaky(call):
        reply = next(replies)
        await asyncio.sleep(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    cache = Cache(store, flaky, identity=home)
    failed = await asyncio.gather(*await waiters(cache, 3), return_exceptions=True)
    assert [str(fault) for fault in failed] == ["reset"] * 3 and len(store) == 0
    assert (await cache(CALL)).text == "48"
    assert cache.statistics == CacheStatistics(asked=4, stored=0, shared=2, new=1)


async def test_a_failed_flight_that_everybody_left_is_not_reported_as_lost():
    complaints: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = Gate()

    async def fails(call):
        await gate(call)
        raise ConnectionError("reset")

    cache = Cache(MemoryStore(), fails, identity=home)
    (waiter,) = await waiters(cache, 1)
    waiter.cancel()
    await asyncio.wait([waiter])
    gate.open.set()
    await cache.close()
    del waiter
    gc.collect(1)
    assert complaints == []


@pytest.mark.parametrize("clock", [0, 10**9, 10**11])
async def test_a_continued_refresh_repeats_all_calls_except_its_refreshed_ones(clock):
    """Calls that the run stored before its refresh are asked again, with any clock."""
    store, numbers = MemoryStore(), iter(range(10))
    inner = Scripted(lambda call: str(next(numbers)))
    for run, call in zip("78", calls(2), strict=True):
        await Cache(store, inner, identity=home, clock=lambda: clock, run_id=run)(call)
    for run, call in zip("78", calls(4)[2:], strict=True):
        await Cache(store, inner, identity=home, mode="refresh", run_id=run)(call)
    going_on = Cache(store, inner, identity=home, mode="refresh", run_id="7")
    assert [(await going_on(call)).text for call in calls(4)] == ["4", "5", "2", "6"]


async def test_refresh_asks_each_address_once_and_then_serves_what_it_got():
    store, numbers = MemoryStore(), iter(range(10))
    inner = Scripted(lambda call: str(next(numbers)))
    await Cache(store, inner, identity=home)(CALL)
    refresh = Cache(store, inner, identity=home, mode="refresh")
    assert [(await refresh(CALL)).text for _ in range(3)] == ["1", "1", "1"]
    assert (await Cache(store, inner, identity=home)(CALL)).text == "1"
    assert refresh.statistics == CacheStatistics(asked=3, stored=2, shared=0, new=1)


async def test_off_neither_reads_nor_writes():
    store = MemoryStore()
    await Cache(store, answers(), identity=home)(CALL)
    before = list(store.items())
    off = Cache(store, answers("36"), identity=home, mode="off")
    assert [(await off(CALL)).text for _ in range(2)] == ["36", "36"]
    assert (list(store.items()), off.statistics.new) == (before, 2)


async def test_a_damaged_entry_is_an_error_and_no_reason_to_pay_again():
    store, inner = MemoryStore(), answers()
    store.put_many([(store_key(CALL.address, "here/v1"), b"\x01 no record")])
    with pytest.raises(DamagedEntry):
        await Cache(store, inner, identity=home)(CALL)
    assert inner.calls == []


async def test_a_closed_cache_still_serves_and_asks_no_more():
    """Also where it has missed a call, and so looks up together what comes together."""
    store, inner = MemoryStore(), answers()
    first, other = calls(2)
    await Cache(store, answers(), identity=home)(first)
    async with Cache(store, inner, identity=home) as cache:
        await cache(other)
    assert [(await cache(call)).text for call in (first, other)] == ["48", "48"]
    async with Cache(store, inner, identity=home) as fresh:
        pass
    assert (await fresh(first)).text == "48"
    with pytest.raises(StoreError, match="the cache is closed"):
        await cache(CALL.drawn(2))
    assert len(inner.calls) == 1


async def test_abandoning_cancels_the_flights_and_keeps_what_had_landed():
    store = MemoryStore()
    await Cache(store, answers(), identity=home)(CALL.drawn(1))
    cache = Cache(store, Gate(), identity=home)
    (waiter,) = await waiters(cache, 1)
    await cache.abandon()
    await asyncio.wait([waiter])
    assert (waiter.cancelled(), len(store)) == (True, 1)


@pytest.mark.parametrize("missed", [0, 1], ids=["not begun", "not looked up"])
async def test_abandoning_leaves_nobody_to_wait_for_a_flight_that_has_not_begun(missed):
    inner = answers()
    cache = Cache(MemoryStore(), inner, identity=home)
    await ask_all(cache, calls(missed))
    waiter = asyncio.create_task(cache(CALL))
    await asyncio.sleep(0)
    await cache.abandon()
    await asyncio.wait([waiter])
    assert waiter.cancelled() and len(inner.calls) == missed


async def test_calls_fail_at_once_if_no_thread_can_start(tmp_path, monkeypatch):
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(DiskStore(tmp_path)) as store:
        cache = Cache(store, answers(), identity=home)
        monkeypatch.setattr(threading.Thread, "start", refused)
        with pytest.raises(StoreError, match="can't start new thread"):
            await cache(CALL)
        monkeypatch.undo()
        assert (await cache(CALL)).text == "48" and cache.statistics.unsaved == 1
        await cache.close()


async def test_a_run_served_from_the_store_lets_others_have_a_turn():
    cache = Cache(MemoryStore(), answers(), identity=home)
    await cache(CALL)
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watcher = asyncio.create_task(other())
    for _ in range(2560):
        await cache(CALL)
    watcher.cancel()
    assert turns >= 10


async def test_a_reply_is_durable_before_it_is_handed_out(tmp_path):
    store = DiskStore(tmp_path)
    cache, durable = Cache(store, answers(), identity=home), []

    async def ask(call: Call) -> None:
        await cache(call)
        # Another reader of the file finds what this one was just handed.
        other = ReadOnlyStore(tmp_path)
        durable.append(other.get(store_key(call.address, "here/v1")) is not None)
        other.close()

    async with asyncio.TaskGroup() as group:
        for call in calls(50):
            group.create_task(ask(call))
    await cache.close()
    store.close()
    assert durable == [True] * 50


class Told:
    """Some cells of a run, and what they were spared."""

    def __init__(self, delay: float = 0.0) -> None:
        self.model = Scripted(lambda call: call.messages[-1].text.upper(), delay)
        self.spared: list[tuple[int, bool]] = []
        self.shared = SharedResults(lambda notes, joined: self.spared.append((len(notes), joined)))

    def cell(self) -> RecordingAsk:
        return RecordingAsk(self.model, shared=self.shared)


def speech(*texts: str, fault: Exception | None = None) -> Callable[[Ask], Awaitable[str]]:
    async def said(ask: Ask) -> str:
        replies = [await ask(CALL.changed(messages=(Message("user", text),))) for text in texts]
        if fault is not None:
            raise fault
        return " ".join(reply.text for reply in replies)

    return said


async def test_repeated_work_is_noted_by_every_caller_and_counted():
    work = Told()
    first, second = work.cell(), work.cell()
    for cell in (first, second):
        assert await run_once(cell, speech("a", "b"), (("settings",),), "transcript") == "A B"
    assert len(work.model.calls) == 2 and first.notes == second.notes and len(first.notes) == 2
    assert work.spared == [(2, False)]
    store = MemoryStore()
    cache = Cache(store, work.model, identity=home)
    for paid in (2, 2, 4):
        cell = RecordingAsk(cache, shared=cache.shared_results)
        assert await run_once(cell, speech("a", "b"), (("settings",),), "transcript") == "A B"
        assert cache.statistics.new == paid
        if cache.statistics.stored == 2:
            store.delete_many(deleted := [*store.keys()])
            cache.forget(deleted)
    assert cache.statistics == CacheStatistics(asked=6, stored=2, shared=0, new=4)


@pytest.mark.parametrize(
    ("settings", "about", "altered"),
    [
        ("others", "transcript", lambda ask: ask),
        ("settings", "another", lambda ask: ask),
        ("settings", "transcript", lambda ask: with_repeat(ask, 1)),
        ("settings", "transcript", lambda ask: for_purpose(ask, "draft")),
        ("settings", "transcript", lambda ask: for_role(ask, "speak", "Debater A", 0)),
    ],
    ids=["settings", "transcript", "draw", "role", "seat"],
)
async def test_other_settings_transcripts_draws_and_seats_are_other_work(settings, about, altered):
    work = Told()
    await run_once(work.cell(), speech("a"), ("settings",), "transcript")
    await run_once(altered(work.cell()), speech("a"), (settings,), about)
    assert len(work.model.calls) == 2 and not work.spared


async def test_running_work_is_joined_and_its_fault_reaches_all_but_is_not_kept():
    work, fault = Told(delay=0.01), ValueError("cut")
    cells = [work.cell(), work.cell()]
    ends = await asyncio.gather(
        *(run_once(cell, speech("a", fault=fault), (), "t") for cell in cells),
        return_exceptions=True,
    )
    assert ends == [fault, fault] and [len(cell.notes) for cell in cells] == [1, 1]
    assert work.spared == [(1, True)] and await run_once(work.cell(), speech("a"), (), "t") == "A"
    assert len(work.model.calls) == 2


async def test_joined_caller_repeats_cancelled_work():
    work = Told(delay=0.01)
    first, second = (asyncio.create_task(run_once(work.cell(), speech("a"), (), "t")) for _ in "12")
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "A" and first.cancelled() and not work.spared


async def test_an_agent_that_has_no_hash_shares_nothing():
    work = Told()
    for _ in range(2):
        assert await run_once(work.cell(), speech("a"), ([],), "t") == "A"
        assert await run_once(work.cell(), speech("a"), (), ["t"]) == "A"
    assert len(work.model.calls) == 4


async def test_a_kind_of_work_that_nobody_asks_for_again_is_shared_no_more():
    work = Told()
    settings = ("agent",)
    for n in range(TRIED):
        await run_once(work.cell(), speech("a"), (settings,), n)
    await run_once(work.cell(), speech("a"), (settings,), 0)
    assert not work.spared  # asked again, and answered by the cache
    await run_once(work.cell(), speech("a"), (("judge",),), 0)
    await run_once(work.cell(), speech("a"), (("judge",),), 0)
    assert work.spared == [(1, False)]


@pytest.mark.parametrize("prompts", [("a",), ()], ids=["asked", "asked nobody"])
async def test_old_work_is_forgotten(prompts):
    work = Told()
    # Done twice, its kind is shared from then on, however seldom it is repeated.
    for _ in range(2):
        await run_once(work.cell(), speech(), (), "again")
    for n in range(MAX_NOTES + 2):
        await run_once(work.cell(), speech(*prompts), (), n)
    work.spared.clear()
    await run_once(work.cell(), speech(*prompts), (), 0)
    assert not work.spared
    await run_once(work.cell(), speech(*prompts), (), MAX_NOTES + 1)
    assert work.spared == [(len(prompts), False)]


class Looked(MemoryStore):
    """Remembers what it was asked for together."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []
        self.alone: list[str] = []

    def get_many(self, keys):
        self.together.append(len(keys))
        return super().get_many(keys)

    def get(self, key):
        self.alone.append(key)
        if (value := super().get(key)) == b"damaged":
            raise DamagedEntry(key, "it is damaged")
        return value


@pytest.mark.parametrize(("mode", "origin", "run", "expected"), [
    ("use", "live A", "7", "live A 7"), ("use", "live A", "", "live A"), ("use", "", "7", ""),
    ("refresh", "live A", "7", "live A 7-refresh"), ("refresh", "live A", "", "live A"),
    ("refresh", "", "7", "simulated - 7-refresh"), ("off", "live A", "7", "live A 7"),
])  # fmt: skip
async def test_a_new_reply_says_where_it_came_from_and_for_which_run(mode, origin, run, expected):
    store, paid = MemoryStore(), {"earlier"}
    settings = {"identity": home, "origin": lambda call: origin, "run_id": run, "paid": paid}
    cache = Cache(store, answers(), mode=mode, **settings)
    reply = await cache(CALL)
    assert reply == Reply("48", call=CALL.address, origin=expected) == await cache(CALL)
    assert paid == {"earlier", CALL.address} and len(store) == (mode != "off")
    if mode != "off":
        paid.clear()
        again = Cache(store, answers("36"), **settings)
        assert (await again(CALL), paid) == (reply, set()), "a stored reply is not paid"


async def test_replies_of_two_endpoints_and_models_are_kept_apart():
    store, gate, place = MemoryStore(), Gate(), ["a"]
    cache = Cache(store, gate, identity=lambda call: place[0])
    other = CALL.changed(model="sim/weak")
    tasks = []
    for place[0], call, count in (("a", CALL, 2), ("b", CALL, 1), ("b", other, 1)):
        tasks += [asyncio.create_task(cache(call)) for _ in range(count)]
        for _ in range(9):
            await asyncio.sleep(0)
    waiting = [cache.held(model) for model in (CALL.model, other.model, "sim/none")]
    assert (waiting, gate.asked, cache.waits) == ([3, 1, 0], 3, True)
    gate.open.set()
    await asyncio.wait(tasks)
    expected = [store_key(call.address, at) for call, at in ((CALL, "a"), (CALL, "b"))]
    assert list(store.keys()) == sorted([*expected, store_key(other.address, "b")])
    assert cache.statistics == CacheStatistics(4, 0, 1, 3) and not cache.held(CALL.model)


async def test_a_reply_that_came_otherwise_is_kept_once_and_a_refresh_replaces_it():
    store = MemoryStore()

    async def kept(mode: str, *texts: str) -> tuple[str, int]:
        cache = Cache(store, answers("asked"), identity=home, mode=mode, run_id="7")
        for text in texts:
            origin = f"batch A {cache.token}"
            await cache.keep(CALL, Reply(text, origin=origin))
        ((key, value),) = store.items()
        assert (await cache(CALL)).text == read_entry(key, value).reply().text
        return read_entry(key, value).reply().text, cache.statistics.new

    assert [await kept("use", "a", "b"), await kept("use", "c")] == [("a", 1), ("a", 0)]
    assert await kept("refresh", "d", "e") == ("d", 1)
    assert await kept("refresh", "f") == ("d", 0), "an earlier session of the refresh stored it"


async def test_the_latest_replies_stay_in_memory_as_callers_get_them(monkeypatch):
    store, tags = Looked(), Tags(("<plan>", "</plan>"))
    monkeypatch.setattr("oversight.cache.cache.REPLIES_IN_MEMORY", 2)
    draws = [Call(CALL.request, (n,)) for n in range(3)]
    await ask_all(Cache(store, answers("<plan>a</plan>b"), identity=home), draws)
    cache = Cache(store, answers(), identity=home, tags={CALL.model: tags}.get)
    store.alone.clear()
    texts = [(await cache(draws[n])).text for n in (0, 1, 2, 1, 2, 0)]
    assert texts == ["b"] * 6
    assert store.alone == [store_key(draws[n].address, "here/v1") for n in (0, 1, 2, 0)]
    cache.forget([store_key(draws[2].address, "here/v1")])
    assert [(await cache(draws[n])).text for n in (0, 2)] == ["b"] * 2 and len(store.alone) == 5


async def test_calls_of_one_turn_are_looked_up_together_while_the_store_lacks_them():
    store, inner = Looked(), answers()
    first, *others = calls(12)
    await ask_all(Cache(store, inner, identity=home), others[:4])
    store.put_many([(store_key(others[4].address, "here/v1"), b"damaged")])
    paid = len(inner.calls)
    store.together.clear()
    async with Cache(store, inner, identity=home) as cache:
        await cache(first)
        ends = await asyncio.gather(*map(cache, others), return_exceptions=True)
        assert store.together == [len(others)] and isinstance(ends[4], DamagedEntry)
        assert [end for n, end in enumerate(ends) if n != 4] == [
            Reply("48", call=call.address) for n, call in enumerate(others) if n != 4
        ]
        assert len(inner.calls) - paid == 1 + 6
        assert cache.statistics == CacheStatistics(asked=12, stored=4, shared=0, new=7)
        assert not cache.waits


async def test_a_fault_in_one_of_the_calls_of_a_turn_keeps_no_other_waiting():
    def tags(model: str) -> None:
        if next(count) == 1:
            raise RuntimeError("no tags")

    store, turn, count = MemoryStore(), calls(4), itertools.count()
    await ask_all(Cache(store, answers(), identity=home), turn[1:])
    async with Cache(store, answers(), identity=home, tags=tags) as cache:
        await cache(turn[0])
        ends = await asyncio.gather(*map(cache, turn[1:]), return_exceptions=True)
    assert [str(end) if isinstance(end, Exception) else end.text for end in ends] == [
        *("no tags", "48", "48")
    ]


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


async def test_a_miss_names_the_nearest_recorded_call_and_the_field_that_differs():
    store, inner = MemoryStore(), answers()
    await ask_all(Cache(store, inner, identity=home), [CALL, replace(CALL, draw=(1, 2))])
    replay = Cache(store, inner, identity=home, mode="replay")
    assert (await replay(CALL)).text == "48"
    with pytest.raises(ReplayMiss, match=r"temperature 0\.4 -> 0\.7$") as miss:
        await replay(CALL.changed(temperature=0.7))
    assert CALL.address[:12] in miss.value.nearest
    assert len(inner.calls) == 2, "a replay never asks"


async def test_only_the_first_misses_are_searched_for_their_nearest():
    class Counting(MemoryStore):
        surveys = 0

        def items(self, prefix=""):
            self.surveys += not prefix
            return super().items(prefix)

    store = Counting()
    replay = Cache(store, answers(), identity=home, mode="replay")
    misses = await asyncio.gather(*map(replay, calls(20)), return_exceptions=True)
    assert all(isinstance(miss, ReplayMiss) for miss in misses) and store.surveys == 3


async def test_a_replay_leaves_the_folder_as_it_found_it(tmp_path):
    store = DiskStore(tmp_path)
    cache = Cache(store, answers(), identity=home)
    await ask_all(cache, calls(50))
    await cache.close()
    store.close()
    before = contents(tmp_path)
    read_only = ReadOnlyStore(tmp_path)
    replay = Cache(read_only, answers("36"), identity=home, mode="replay")
    replies = await ask_all(replay, calls(50))
    with pytest.raises(ReplayMiss):
        await replay(CALL.changed(max_tokens=7))
    await replay.close()
    read_only.close()
    assert [reply.text for reply in replies] == ["48"] * 50 and contents(tmp_path) == before
