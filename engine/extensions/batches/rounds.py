"""A run in batches, wave by wave: work runs as far as stored replies go, and the calls that are
missing are handed in.
"""

import asyncio
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ....cache.cache import CacheStatistics
from ...display.quantity import counted
from ...errors import BatchesOut, Halt, RunFolderError, StoreFailed
from ...run.batching import BatchedWork, Deferred
from ...run.settings import FOLDER
from .dispatch import Dispatch
from .journal import BatchJournal, Submission
from .outbox import Outbox

MIN_POLL, MAX_POLL = 0.5, 60.0
"""Seconds between two polls of batches."""
POLL_FRACTION = 0.05
"""The next poll comes after this part of the time waited so far: it is late by no more."""


class BatchRounds(Deferred):
    """Asks some models in batches, and the others live."""

    def __init__(self, work: BatchedWork) -> None:
        """Batches that are out are collected in any case."""
        models, batched = work.models, work.batched
        self.journal = BatchJournal(work.folder)
        self.waves = 0
        """Rounds of this session in which some call was missing."""
        self._work, self._stop = work, models.stop_token
        self._begun = False
        self._dispatch = Dispatch(self.journal, models, work.cache)
        self._outboxes: list[Outbox] = []
        for model in dict.fromkeys((*batched, *(batch.model for batch in self.journal.pending))):
            live = None if model in batched else models.live
            outbox = models.diverted[model] = Outbox(self._dispatch, model, self._stop, live)
            self._outboxes.append(outbox)
        if work.forgives and self.journal.faults:
            self.journal.note(forgiven=len(self.journal.faults))
        self._dispatch.restore({m: a.batches for m, a in work.entered.items()})

    async def close(self) -> None:
        for outbox in self._outboxes:
            outbox.close()
        await self._dispatch.close()

    def counted(self, calls: CacheStatistics) -> CacheStatistics:
        """New replies alone: each wave asks again for what those before it stored."""
        return replace(calls, asked=calls.new, stored=0, shared=0)

    @property
    def awaited(self) -> str:
        out, owed = self.journal.out, self.journal.liabilities
        parts = []
        if out:
            parts.append(f"{counted(len(out), 'batch', 'batches')} of {_calls(out.values())}")
        if owed:
            many = counted(len(owed), "submission")
            parts.append(f"{many} of {_calls(owed.values())} without an answer")
        return " and ".join(parts)

    def lines(self, live: Sequence[str]) -> Sequence[str]:
        back = sum(self._dispatch.back.values())
        told = f"wave {self.waves}: {self.awaited}; {back:,} done there" if self.awaited else ""
        return [told, *live] if told else live

    async def next_wave(self) -> bool:
        with self._halting():
            if not self._begun:
                self._begun = True
                self._dispatch.recover()
                if self._work.cancels:
                    await self.finish()
                    return False
                if self.journal.pending:
                    await self._dispatch.poll()
            else:
                # Attempts that ended as Pending leave their conversations in cycles of frames.
                gc.collect()
                self._stop.raise_if_stopped()
                noted = [each for each in self._outboxes if each.noted]
                self.waves += bool(noted)
                for outbox in noted:
                    await outbox.submit()
                await self._wait()
            for outbox in self._outboxes:
                outbox.reset()
        return self._stop.halt is None

    async def finish(self) -> None:
        """Cancel what is out, and collect what is paid for."""
        with self._halting():
            while self.journal.out:
                await self._dispatch.cancel()
                if not await self._dispatch.poll():
                    await self._stop.sleep(MIN_POLL)

    @contextmanager
    def _halting(self) -> Iterator[None]:
        """Stop the run for what ends the work on its batches."""
        try:
            yield
        except RunFolderError as fault:
            self._stop.stop(StoreFailed(str(fault)))
        except Halt as halt:
            self._stop.stop(halt)

    async def _wait(self) -> None:
        """Until something is new, or nothing is waited for any more."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.journal.pending:
            if await self._dispatch.poll():
                return
            if self._work.settings.no_wait:
                raise BatchesOut(f"{self.awaited} are out")
            pause = min(max(POLL_FRACTION * (loop.time() - began), MIN_POLL), MAX_POLL)
            await self._stop.sleep(pause)


def _calls(batches: Iterable[Submission]) -> str:
    return counted(sum(batch.lines for batch in batches), "call")


def deferred(work: BatchedWork) -> Deferred | None:
    """The replies of batches, for runs and for other work."""
    needed = work.batched or work.cancels or (work.folder / FOLDER).exists()
    return BatchRounds(work) if needed else None
