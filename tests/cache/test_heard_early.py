"""Replies of a shared store that are heard while they are being saved."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from oversight.cache.cache import Cache
from oversight.cache.errors import StoreFull
from oversight.cache.flight import heard_early
from oversight.cache.store import MemoryStore
from oversight.engine.runs.scheduler import attempt_noted
from oversight.engine.sweeps.rows import report_rows
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.transcript import Verdict
from tests.cache.asking import CALL, answers, home
from tests.fakes import Scripted
from tests.shipments import shipments

NEXT = replace(CALL, draw=(1,))


class FarStore(MemoryStore):
    """Saves when it is told to, as a database far away does some time later."""

    reads_wait = waits_for_disk = True

    def __init__(self, *others: MemoryStore) -> None:
        """others: have stored their replies when the first one comes here."""
        super().__init__()
        self.saves = threading.Event()
        self.full = False
        self._others = others

    def keep_many(
        self, entries: Iterable[tuple[str, bytes]], done: Sequence[str] = ()
    ) -> dict[str, bytes]:
        self.saves.wait()
        if self.full:
            raise StoreFull("no room")
        for other in self._others:
            super().keep_many([(key, other._values[key]) for key in other._values])
        return super().keep_many(entries, done)


async def test_the_next_call_is_looked_up_meanwhile_and_sent_once_the_reply_before_it_is_saved():
    store, inner = FarStore(), answers()
    async with Cache(store, inner, identity=home) as cache:
        with heard_early() as heard:
            assert (await cache(CALL)).text == "48"
            assert (await cache(CALL)).text == "48"
            following = asyncio.create_task(cache(NEXT))
            durable = asyncio.create_task(cache(CALL))
            await asyncio.wait([following, durable], timeout=0.05)
            assert durable.done() and len(inner.calls) == 1 and not len(store)
            store.saves.set()
            await following
            await heard.saved()
            assert len(inner.calls) == len(store) == 2


async def test_who_does_not_ask_for_it_hears_no_reply_before_it_is_durable():
    store = FarStore()
    async with Cache(store, answers(), identity=home) as cache:
        waiting = asyncio.create_task(cache(CALL))
        with heard_early():
            await cache(CALL)
        assert not waiting.done() and not len(store)
        store.saves.set()
        await waiting
        assert len(store) == 1


async def test_nothing_is_sent_after_a_reply_that_cannot_be_saved():
    store, inner = FarStore(), answers()
    store.full = True
    async with Cache(store, inner, identity=home) as cache:
        with heard_early() as heard:
            await cache(CALL)
            store.saves.set()
            for following in (cache(NEXT), heard.saved(), heard.saved()):
                with pytest.raises(StoreFull):
                    await following
        assert len(inner.calls) == 1 and cache.statistics.unsaved == 1


async def test_a_cell_that_heard_a_reply_after_another_was_stored_first_is_run_again_on_that_one():
    grid = Sweep("s", tuple(shipments(1)), report_rows([NaiveJudge(StatedJudge("sim/judge"))]), 1)
    cell = next(iter(grid.cells()))
    theirs, asked = MemoryStore(), Scripted(lambda call: "A: 80%\nB: 20%")
    first = await attempt_noted(
        cell, Cache(theirs, Scripted(lambda call: "A: 30%\nB: 70%"), identity=home)
    )
    store = FarStore(theirs)
    store.saves.set()
    async with Cache(store, asked, identity=home) as cache:
        end = await attempt_noted(cell, cache)
        assert isinstance(end.outcome, Verdict) and end.outcome == first.outcome
        assert len(end.notes) == len(first.notes) and asked.calls
