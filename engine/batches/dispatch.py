"""Batches of one run: submits calls, polls the vendors, and collects results.

Kept as double entry: a batch has ended only when the lines that can be read are as many as the
vendor counts, and a submission whose fate nothing proves is owed until something does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...cache.cache import Cache
from ...cache.call import Call
from ...cache.errors import StoreError
from ..accounting.prices import Price, PriceList
from ..errors import (
    BatchRefused,
    BudgetReached,
    Halt,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    ProviderDown,
    RateLimited,
    StoreFailed,
    Unreachable,
)
from ..models.router import Models
from ..providers.fault import ErrorAnswer
from ..stop import StopToken
from ..system.files import unwritable
from .collector import Collector, calls_in
from .endpoint import CLOCK_SLACK, BatchEndpoint, BatchState, Lost, Submission
from .endpoints import Endpoints
from .journal import BatchJournal
from .packing import BODY, BatchPacker
from .results import BatchResults
from .retrying import INCONCLUSIVE, Retries, backoff, retried

SETTLE = 180.0
"""Seconds for which a batch is looked for that the vendor said it could not make."""
NOT_FOUND_SECONDS = 120.0
"""Seconds for which a vendor may deny a batch that it has made."""
MAX_DOWNLOADS = 6
"""Downloads of results that lack lines after which the run stops."""
LAST_SECONDS = 3.0
"""Seconds that a stop leaves a vendor to answer a submission."""
UNKNOWN_LINE_BYTES = 2**20
"""Maximum size of a line of results whose calls an older version submitted."""
RESULTS = ".results"
"""Suffix of the file of downloaded results."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""
MAX_SUBMISSIONS = 6
"""Attempts to submit one batch, as long as none is known to have made it."""
RESERVED_FOR = 25 * 3600.0
"""Seconds for which other runs of a database leave a call to the run that has it out. By then its
batch has ended, and if the run has not collected it, nobody will."""
RESERVED_TOGETHER = 1_000
"""Calls reserved in one round trip."""

log = logging.getLogger(__name__)


class _Unreadable(Exception):
    """A download that is too large, or not what it claims to be."""


class Dispatch:
    """All batches of one run. Raises only Halts and RunFolderErrors."""

    def __init__(
        self,
        journal: BatchJournal,
        models: Models,
        cache: Cache,
        prices: PriceList,
        stop_token: StopToken,
        max_lines: int | None,
    ) -> None:
        self.journal = journal
        self.back: dict[str, int] = {}
        """Of each batch that is out, how many lines are done."""
        self._models = models
        self._cache = cache
        self._prices = prices
        self._stop = stop_token
        self._max_lines = max_lines
        self._endpoints = Endpoints(models)
        self._cancelled: set[str] = set()
        self._later = Retries()
        """By id or mark."""
        self._unanswered: set[str] = set()
        """Marks of batches whose submission a stop cut off."""
        self._full = 0
        """How often in a row a queue had no room."""

    def endpoint(self, model: str) -> BatchEndpoint:
        return self._endpoints.of(model)

    async def close(self) -> None:
        await self._endpoints.close()

    def restore_accounting(self, counted: Mapping[str, int]) -> None:
        """Enter batches that completed earlier and are missing from the ledger, and reserve dollars
        for those that are out. counted: batches in the ledger, by model."""
        for model, completed in self.journal.completed.items():
            for account in completed[counted.get(model, 0) :]:
                spent = account.dollars + account.doubtful
                self._reserve(spent)
                self._settle(spent, spent)
                self._models.ledger.page(model, self._prices.find(model)).land(account)
        for batch in (*self.journal.intended.values(), *self.journal.out.values()):
            self._reserve(batch.worst)

    def recover(self) -> None:
        """Free the calls of batches whose request had not left when their process ended."""
        for mark, batch in list(self.journal.intended.items()):
            if mark not in self.journal.sending:
                self.journal.dropped(mark)
                self._settle(batch.worst, 0.0)
                self._delete_files(batch)

    async def submit(self, collector: Collector, model: str) -> int:
        """Submit the noted calls, as far as queue and budget have room; how many were left to other
        runs of the store that have them out.

        BudgetReached where they have room for none, and nothing is out that may leave some.
        """
        endpoint, budget = self.endpoint(model), self._models.budget
        caps = endpoint.caps
        if self._max_lines is not None:
            caps = replace(caps, lines=min(caps.lines, self._max_lines))
        self.journal.begin()
        elsewhere = await self._reserved_elsewhere(collector)
        calls = (call for call in collector.calls() if call.address not in elsewhere)
        packer = BatchPacker(model, endpoint, self.journal, calls, caps, self._price(model), budget)
        try:
            while not packer.empty:
                self._stop.raise_if_stopped()
                batch = packer.pack(self._room(model))
                if batch is None:
                    break
                self._reserve(batch.worst)
                await self._submit(endpoint, batch)
        finally:
            await self._release(packer.rest())
        if packer.lacked and budget is not None and not self.pending:
            raise BudgetReached(budget.reached(packer.lacked))
        return len(elsewhere)

    @property
    def pending(self) -> bool:
        """Whether any batch is out, or may be."""
        return bool(self.journal.out or self.journal.intended)

    async def poll(self) -> bool:
        """Look for batches of unknown fate, check those that are out, and collect what has ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        down = set[BatchEndpoint]()
        steps = [(batch, mark, self._look_for) for mark, batch in self.journal.liabilities.items()]
        for batch, mark, step in steps:
            endpoint = self.endpoint(batch.model)
            if endpoint not in down and self._later.is_due(mark):
                try:
                    news = await step(endpoint, mark, batch) or news
                except Halt as halt:
                    self._stop.raise_if_stopped()
                    stops = stops or halt
                    down.add(endpoint)
        for id, batch in list(self.journal.out.items()):
            endpoint = self.endpoint(batch.model)
            if endpoint in down or not self._later.is_due(id):
                continue
            try:
                news = await self._check(endpoint, id, batch) or news
            except Halt as halt:
                # Other batches that have ended are collected before the run stops.
                self._stop.raise_if_stopped()
                stops = stops or halt
                if isinstance(halt, ProviderDown):
                    down.add(endpoint)
        if stops is not None:
            raise stops
        return news

    async def cancel(self) -> None:
        """Have the vendors stop what is out. Until a batch has ended, its calls stay with it. What
        is not proven to be ours is left alone."""
        for id, batch in list(self.journal.out.items()):
            if id not in self._cancelled:
                # One that has ended meanwhile cannot be cancelled; the next poll says so.
                with suppress(InvalidRequest, ModelNotFound):
                    await retried(self._stop, self.endpoint(batch.model).cancel, id)
                self._cancelled.add(id)

    async def give_up(self, name: str) -> None:
        """Take what can be had of a batch; the rest counts as lost, and as doubtful.

        name: the id of one that is out, or the mark of one of unknown fate.
        """
        self.journal.give_up(name)
        batch = self.journal.out.get(name) or self.journal.liabilities[name]
        endpoint = self.endpoint(batch.model)
        if name not in self.journal.out:
            return await self._land(endpoint, name, batch, self._no_results(batch), "Missing")
        self._later.forget(name)
        await self._check(endpoint, name, batch)

    async def _submit(self, endpoint: BatchEndpoint, batch: Submission) -> None:
        """Submit a batch. While nothing proves whether the vendor made it, it is a liability."""
        body, tries = self._file(batch, BODY), 0
        self.journal.intend(batch)
        try:
            uploaded = await retried(self._stop, endpoint.upload, body)
            while True:
                self.journal.send(batch.mark, endpoint.http.now())
                try:
                    id = await self._created(endpoint, batch, body, uploaded)
                    return self.journal.submitted(batch.mark, id)
                except (RateLimited, Unreachable) as exc:
                    tries += 1
                    if tries > MAX_SUBMISSIONS:
                        message = f"{exc}; a batch could not be handed in"
                        raise ProviderDown(message) from exc
                    await self._stop.sleep(backoff(tries, exc))
        except Overloaded:
            self.journal.deny(batch.mark)
        except (InvalidRequest, ModelNotFound) as exc:
            await self._drop(batch)
            raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
        except INCONCLUSIVE as exc:
            log.warning("a batch may have been made, or not: %r", exc)
        except Halt:
            if batch.mark not in self._unanswered:
                await self._drop(batch)
            raise
        finally:
            body.unlink(missing_ok=True)

    async def _created(
        self, endpoint: BatchEndpoint, batch: Submission, body: Path, uploaded: str
    ) -> str:
        """The id of the batch that is made. A stop gives the vendor a moment to answer."""
        making = asyncio.create_task(endpoint.create(batch, body, uploaded))
        try:
            return await self._stop.until_stopped(_result(making))
        except Halt:
            await asyncio.wait((making,), timeout=LAST_SECONDS)
            if not making.done():
                self._unanswered.add(batch.mark)
                raise
            return making.result()
        finally:
            if making.cancel():
                await asyncio.wait((making,))

    async def _look_for(self, endpoint: BatchEndpoint, mark: str, batch: Submission) -> bool:
        """Look for a batch of unknown fate at the vendor; whether its calls are free again."""
        since, open_ended = self.journal.sending[mark], False
        for each in await retried(self._stop, endpoint.candidates, batch, since):
            if each.id in self.journal.known or (mark, each.id) in self.journal.others:
                continue
            ours = each.mark == mark or await self._is_ours(endpoint, each.id, batch)
            if ours:
                self.journal.submitted(mark, each.id)
                self._later.forget(mark)
                return False
            open_ended = open_ended or ours is None
        denied = mark in self.journal.denied and self._later.seconds_since(mark) >= SETTLE
        passed = endpoint.http.now() > since + endpoint.window + CLOCK_SLACK
        if (denied or passed) and not open_ended:
            await self._drop(batch)
            return True
        self._later.put_off(mark)
        return False

    async def _is_ours(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool | None:
        """Whether a batch of the account is this one, by the custom ids in its results; None as
        long as they cannot be read."""
        state = await retried(self._stop, endpoint.state, id)
        if not state.ended:
            return None
        file = await self._downloaded(endpoint, id, batch, state)
        ours, others = self._results(endpoint, batch).readable(self.journal.calls(batch), file)
        file.unlink()
        if not ours and not others:
            return None
        if others or not ours:
            self.journal.foreign(batch.mark, id)
        return not others

    async def _check(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool:
        """The state of a batch that is out; collects it once it has ended. Whether it has."""
        given_up = id in self.journal.given_up
        try:
            state = await retried(self._stop, endpoint.state, id)
            self.back[id] = state.done
            if not state.ended:
                self._later.forget(id)
                return False
            if state.fault is not None:
                del self.back[id]
                return await self._refused(id, batch, state.fault)
            file = await self._downloaded(endpoint, id, batch, state)
        except (InvalidRequest, ModelNotFound) as exc:
            if not given_up:
                return self._denied(id, batch, exc)
            state, file = BatchState(0, True), self._no_results(batch)
        ours, _ = self._results(endpoint, batch).readable(self.journal.calls(batch), file)
        counted = batch.lines if state.results is None else state.results
        if ours < min(counted, batch.lines) and not given_up:
            return self._short(id, batch, state, ours)
        self._later.forget(id)
        self.back.pop(id, None)
        await self._land(endpoint, id, batch, file, state.absent)
        return True

    async def _downloaded(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, state: BatchState
    ) -> Path:
        """The file of what the vendor says are the results, or as much as it made sense."""
        file = self._no_results(batch)
        cap = batch.most_bytes or batch.lines * UNKNOWN_LINE_BYTES
        for path in state.downloads:
            try:
                await retried(
                    self._stop, _unless_malformed, endpoint.http.download, path, file, cap
                )
            except _Unreadable as exc:
                log.warning("the results of %s cannot be read: %s", id, exc)
        return file

    def _no_results(self, batch: Submission) -> Path:
        """The file of the results of a batch, with nothing in it. RunFolderError."""
        file = self._file(batch)
        try:
            file.write_bytes(b"")
        except OSError as exc:
            raise unwritable(file, exc) from exc
        return file

    def _short(self, id: str, batch: Submission, state: BatchState, found: int) -> bool:
        """Have results that lack lines downloaded again, up to a point; False."""
        tries = self._later.put_off(id)
        if tries < MAX_DOWNLOADS:
            return False
        stated = (
            "no count" if state.results is None else f"{state.results:,} by the vendor's counts"
        )
        raise BatchRefused(
            f"the batch {id} of {batch.model} has ended ({state.status}), and {found:,} of its "
            f"{batch.lines:,} lines can be read ({stated}). {tries} downloads brought no more; "
            f"nothing is asked again. {self._way_on(id, batch)}"
        )

    def _denied(self, id: str, batch: Submission, exc: Exception) -> bool:
        """Wait for a vendor that denies a batch, up to a point; False."""
        self._later.put_off(id)
        if self._later.seconds_since(id) < NOT_FOUND_SECONDS:
            return False
        raise BatchRefused(
            f"{exc}. The vendor has not known the batch {id} for a while: it was handed in with "
            "another key, or another project or address; put that back, and the same command "
            f"collects it. {self._way_on(id, batch)}"
        )

    def _way_on(self, name: str, batch: Submission) -> str:
        run = self.journal.folder.parent
        most = f", ${batch.worst:.2f} at most" if batch.worst else ""
        return (
            f"The same command looks again; oversight batches reconcile {run} compares what the "
            f"vendor says with what is here. Only to count what is lost of it as spent{most}, and "
            f"to ask those calls again: oversight batches reconcile {run} --give-up {name}"
        )

    async def _land(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, file: Path, absent: Lost
    ) -> None:
        """Store the results of a batch, and enter it in the books."""
        results, calls = self._results(endpoint, batch), self.journal.calls(batch)
        await results.store(calls, file, absent, self._cache)
        account = results.page.account()
        self.journal.note_stored(batch, results.stored)
        self.journal.land(id, account, results.faults, results.again)
        self._models.ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        await self._discard(batch, account.dollars + account.doubtful)
        self._full = 0
        if results.halt is not None:
            raise results.halt

    def _results(self, endpoint: BatchEndpoint, batch: Submission) -> BatchResults:
        price = self._price(batch.model)
        origin = f"batch {endpoint.settings.base_url} {self._cache.token}".rstrip()
        return BatchResults(batch, endpoint, price, self._models.quarantine, origin)

    def _file(self, batch: Submission, suffix: str = RESULTS) -> Path:
        return self.journal.folder / f"{batch.mark}{suffix}"

    async def _refused(self, id: str, batch: Submission, fault: ErrorAnswer) -> bool:
        """Handle a batch refused as a whole; whether to go on without waiting for others."""
        queued = self._queued(batch.model)
        self.journal.refused(id, str(fault))
        await self._discard(batch, 0.0)
        if fault.code != QUEUE_FULL:
            error = fault.error()
            if isinstance(error, Halt):
                raise error
            raise BatchRefused(f"{error}; no call of that batch was asked")
        self.journal.learn(batch.model, queued / 2)
        if self._queued(batch.model):
            return False
        # Nothing of ours is in the queue: others fill it, or the batch alone was too large.
        self._full += 1
        await self._stop.sleep(backoff(self._full))
        return True

    async def _reserved_elsewhere(self, collector: Collector) -> set[str]:
        """Reserve the noted calls; the addresses of those that other runs have out, or stored."""
        calls, elsewhere = collector.calls(), set[str]()
        async with _store_faults():
            while part := list(islice(calls, RESERVED_TOGETHER)):
                ours = await self._cache.reserve(part, self.journal.owner, RESERVED_FOR)
                elsewhere.update(call.address for call in part if call.address not in ours)
        return elsewhere

    async def _release(self, calls: Iterator[Call]) -> None:
        async with _store_faults():
            while part := list(islice(calls, RESERVED_TOGETHER)):
                await self._cache.release(part, self.journal.owner)

    async def _drop(self, batch: Submission) -> None:
        """Enter that a batch was never made."""
        self.journal.dropped(batch.mark)
        self._later.forget(batch.mark)
        await self._discard(batch, 0.0)

    async def _discard(self, batch: Submission, spent: float) -> None:
        """Free what was held for a batch that is done with. spent: dollars."""
        self._settle(batch.worst, spent)
        await self._release(calls_in(self.journal.calls(batch)))
        self._delete_files(batch)

    def _delete_files(self, batch: Submission) -> None:
        for file in (self.journal.calls(batch), self._file(batch, BODY), self._file(batch)):
            file.unlink(missing_ok=True)

    def _price(self, model: str) -> Price | None:
        price = self._prices.find(model)
        return None if price is None else price.batched()

    def _queued(self, model: str) -> float:
        return sum(batch.tokens for batch in self.journal.out.values() if batch.model == model)

    def _room(self, model: str) -> float:
        """Tokens that may join the queue of a model now."""
        room = self.journal.room.get(model, float("inf"))
        queued = self._queued(model)
        # However little room there is, one call goes into an empty queue.
        return max(room, 1.0) if not queued else room - queued

    def _reserve(self, dollars: float) -> None:
        if self._models.budget is not None:
            self._models.budget.reserve(dollars)

    def _settle(self, worst: float, spent: float) -> None:
        if self._models.budget is not None:
            self._models.budget.settle(worst, spent)


async def _result(task: "asyncio.Task[str]") -> str:
    return await asyncio.shield(task)


async def _unless_malformed(download: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    try:
        await download(*args)
    except Malformed as exc:
        # Not to be repeated at once, as what the network does is.
        raise _Unreadable(str(exc)) from exc


@asynccontextmanager
async def _store_faults() -> AsyncIterator[None]:
    try:
        yield
    except StoreError as exc:
        raise StoreFailed(str(exc)) from exc
