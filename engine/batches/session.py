"""A run in waves: each open cell runs as far as stored replies go; missing calls go in batches.

A wave is a walk over all open cells. No cell is suspended while a batch is out, so memory does not
grow with the cells that wait, and a process that is killed loses nothing but a walk.
"""

import asyncio
import gc
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...cache.cache import CacheStatistics
from ...cache.call import Call
from ...cache.reply import Reply
from ..display.quantity import counted
from ..errors import BatchesOut, Halt, Pending, RunFolderError, StoreFailed, UsageError
from ..runs.executor import AnsweredLater, Assignment
from ..runs.session import RunSession
from ..sweeps.sweep import Cell
from ..throughput import clipped
from .collector import Collector
from .dispatch import Dispatch
from .journal import JOURNAL, BatchJournal
from .terms import FOLDER, LIVE, MAX_TRIES, BatchTerms

MIN_POLL, MAX_POLL = 0.5, 60.0
"""Seconds between two polls of batches."""
POLL_FRACTION = 0.05
"""The next poll comes after this part of the time waited so far: it is late by no more."""


class BatchSession(RunSession):
    """A session of a run that asks some models in batches, and the others live."""

    young = 5_000
    """Few: most attempts of a walk leave garbage, and no calls in flight make a collection slow."""

    has_canaries = False

    def __init__(
        self, assignment: Assignment, *, batched: tuple[str, ...], terms: BatchTerms
    ) -> None:
        """batched: models to ask in batches; batches that are out are collected in any case."""
        if assignment.mode not in ("use", "refresh"):
            raise UsageError(
                f"what comes of a batch goes into the store, which --cache {assignment.mode} does "
                "not write: leave one of them out"
            )
        self.batched = batched
        super().__init__(assignment)
        loaded, policy = assignment.loaded, assignment.policy
        self.journal = BatchJournal(assignment.folder.path)
        self.waves = 0
        """Walks of this session in which some call was missing."""
        self._terms = terms
        self._stop = loaded.stop_token
        self._patience_over = False
        """Whether batches are no longer waited for."""
        self._idle_waits = 0
        """Waits in a row for other runs alone."""
        self._dispatch = Dispatch(
            self.journal,
            self.models,
            self.cache,
            self.models.priced(policy.prices),
            self._stop,
            terms.max_lines,
        )
        out = (*self.journal.intended.values(), *self.journal.out.values())
        self._collectors: dict[str, Collector] = {}
        for model in dict.fromkeys((*batched, *(batch.model for batch in out))):
            wire = self._dispatch.endpoint(model).wire
            goes_live = self._goes_live if model in batched else lambda address: True
            collector = Collector(self.journal, model, wire, self.models.live, goes_live)
            self._collectors[model] = self.models.diverted[model] = collector
        self._later = assignment.later
        self._answers = 0
        """Of those who answer later, before this walk."""
        if self._later is not None:
            for model in self._later.models:
                self.models.diverted[model] = partial(self._ask_later, self._later)
        if assignment.run_again:
            self.journal.forgive()
        self._dispatch.restore_accounting(
            {m: account.batches for m, account in assignment.before.items()}
        )

    async def _ask_later(self, later: AnsweredLater, call: Call) -> Reply:
        if later.has_answered(call):
            return await self.models.live(call)
        raise Pending(call.address)

    async def close(self) -> None:
        for collector in self._collectors.values():
            collector.close()
        await self._dispatch.close()
        await super().close()

    @property
    def statistics(self) -> CacheStatistics:
        """Counts new replies alone: each walk asks again for what the walks before it stored."""
        counts = super().statistics
        return replace(counts, asked=counts.new, stored=0, shared=0)

    @property
    def awaited(self) -> str:
        owed = self.journal.liabilities
        parts = []
        for kind, batches in (("batch", self.journal.out), ("submission", owed)):
            if batches:
                calls = sum(batch.lines for batch in batches.values())
                plural = "batches" if kind == "batch" else "submissions"
                parts.append(f"{counted(len(batches), kind, plural)} of {counted(calls, 'call')}")
        return f"{' and '.join(parts)}{' without an answer' if owed else ''}"

    def lines(self) -> tuple[str, ...]:
        told, batched = [], set()
        for model in self._collectors:
            if not self.models.limiter(model).statistics().in_flight:
                batched.add(clipped(model))
            out = {id: batch for id, batch in self.journal.out.items() if batch.model == model}
            owed = [b for b in self.journal.liabilities.values() if b.model == model]
            if owed:
                calls = sum(batch.lines for batch in owed)
                told.append(
                    f"{clipped(model)}  no answer to {counted(len(owed), 'submission')} of "
                    f"{counted(calls, 'call')}: looked for at the vendor"
                )
            if out:
                back = sum(self._dispatch.back.get(id, 0) for id in out)
                calls = sum(batch.lines for batch in out.values())
                many = counted(len(out), "batch", "batches")
                told.append(
                    f"{clipped(model)}  wave {self.waves}: {many} out, {back:,} of {calls:,} calls "
                    "done there"
                )
        live = [line for line in super().lines() if line.split()[0] not in batched]
        return (*told, *live)

    async def _attempt_all(self, cells: Iterable[Cell]) -> None:
        group = None if self._assignment.batches is None else tuple(cells)
        with self._halting():
            self._dispatch.recover()
            if self._dispatch.pending:
                await self._dispatch.poll()
            while True:
                self._begin_walk()
                await super()._attempt_all(self._missing(group))
                await self._assignment.flush()
                # Attempts that ended as Pending leave their conversations in cycles of frames.
                gc.collect()
                if self._stop.halt is not None:
                    return
                if next(self._missing(group), None) is None:
                    if next(self._missing(None), None) is None:
                        await self._cancel_rest()
                    return
                noted = {model: each for model, each in self._collectors.items() if each.noted}
                self.waves += bool(noted)
                elsewhere = 0
                for model, collector in noted.items():
                    elsewhere += await self._dispatch.submit(collector, model)
                await self._wait(elsewhere)

    @contextmanager
    def _halting(self) -> Iterator[None]:
        """Stop the run for what ends the work on its batches."""
        try:
            yield
        except RunFolderError as fault:
            self._stop.stop(StoreFailed(str(fault)))
        except Halt as halt:
            self._stop.stop(halt)

    def _missing(self, group: tuple[Cell, ...] | None) -> Iterator[Cell]:
        cells = self._assignment.loaded.sweep.cells() if group is None else group
        return (cell for cell in cells if not self._assignment.folder.has(cell.place))

    def _begin_walk(self) -> None:
        self._patience_over = self._patience_over or self._left() <= 0
        self._answers = self._later.answers if self._later else 0
        for collector in self._collectors.values():
            collector.reset()

    async def _wait(self, elsewhere: int) -> None:
        """Until something is new, or nothing is waited for any more.

        elsewhere: calls that other runs of the store have out. No poll shows their replies: the
        next walk finds them there.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not elsewhere:
            self._idle_waits = 0
        later = self._later
        while self._dispatch.pending or elsewhere or (later and later.open):
            if later and later.answers > self._answers:
                return
            if await self._dispatch.poll():
                return
            left = self._left()
            if left <= 0:
                await self._dispatch.cancel()
                left = MAX_POLL
            if not self._terms.waits and not later:
                theirs = (
                    f"{counted(elsewhere, 'call')} of another run's batches" if elsewhere else ""
                )
                raise BatchesOut(f"{' and '.join(filter(None, (self.awaited, theirs)))} are out")
            if elsewhere and not self._dispatch.pending:
                self._idle_waits += 1
                pause = min(MIN_POLL * 2**self._idle_waits, MAX_POLL, max(left, MIN_POLL))
                return await self._stop.sleep(pause)
            pause = min(max(POLL_FRACTION * (loop.time() - began), MIN_POLL), MAX_POLL, left)
            if later is None:
                await self._stop.sleep(pause)
            else:
                await self._stop.until_stopped(later.news(pause))

    async def _cancel_rest(self) -> None:
        """Cancel what is out, and collect what is paid for."""
        if self.journal.out:
            await self._dispatch.cancel()
        while self.journal.out:
            if not await self._dispatch.poll():
                await self._stop.sleep(MIN_POLL)

    def _left(self) -> float:
        """Seconds of patience left. By wall-clock time, since they count from the first batch of
        the run, whichever process submitted it."""
        if self._terms.patience is None:
            return float("inf")
        if self.journal.began is None:
            return self._terms.patience
        return self.journal.began + self._terms.patience - time.time()

    def _goes_live(self, address: str) -> bool:
        tries = self.journal.tries.get(address, 0)
        return self._patience_over or (self._terms.then == "live" and tries >= MAX_TRIES)


class _BatchVisit(BatchSession):
    """Base of the sessions that see to batches alone, and run no cell."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment, batched=(), terms=LIVE)

    async def run(self) -> Halt | None:
        async with self.cache:
            with self._halting():
                self._dispatch.recover()
                await self._see_to_batches()
        return self._stop.halt

    @abstractmethod
    async def _see_to_batches(self) -> None: ...


class BatchCancellation(_BatchVisit):
    """Cancels the batches that a run has out, and collects what they were paid for."""

    async def _see_to_batches(self) -> None:
        await self._cancel_rest()


class BatchRenunciation(_BatchVisit):
    """Takes what can be had of batches; what is lost of them counts as maybe spent."""

    def __init__(self, assignment: Assignment, names: Sequence[str]) -> None:
        """names: ids, or marks where the vendor never named one."""
        super().__init__(assignment)
        self._names = names

    async def _see_to_batches(self) -> None:
        for name in self._names:
            await self._dispatch.give_up(name)


def has_batches(run: Path) -> bool:
    """Whether a run has ever submitted a batch."""
    return (run / FOLDER / JOURNAL).exists()
