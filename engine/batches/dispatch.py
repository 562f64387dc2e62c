"""Batches of one run: submits calls, polls the vendors, and collects results."""

import socket
import time
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
    ModelNotFound,
    ProviderDown,
    RateLimited,
    StoreFailed,
    Unreachable,
)
from ..limits.breaker import GIVE_UP
from ..models.router import Models
from ..providers.catalogue import batch_wire
from ..providers.fault import ErrorAnswer
from ..stop import StopToken
from .anthropic_endpoint import AnthropicEndpoint
from .collector import Collector, calls_in
from .endpoint import BatchEndpoint, BatchState, Submission
from .journal import BatchJournal
from .openai_endpoint import OpenAIEndpoint
from .packing import BODY, BatchPacker
from .results import BatchResults
from .retrying import INCONCLUSIVE, T, backoff, retried

ENDPOINTS: dict[str, type[BatchEndpoint]] = {
    "openai": OpenAIEndpoint,
    "anthropic": AnthropicEndpoint,
}
"""By provider."""
SETTLE = 60.0
"""Seconds after which a vendor lists a batch whose submission was not answered."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""
MAX_SUBMISSIONS = 6
"""Attempts to submit one batch, as long as none is known to have made it."""
RESERVED_FOR = 25 * 3600.0
"""Seconds for which other runs of a database leave a call to the run that has it out. By then its
batch has ended, and if the run has not collected it, nobody will."""
RESERVED_TOGETHER = 1_000
"""Calls reserved in one round trip."""


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
        self._owner = f"{socket.gethostname()}:{journal.folder.resolve()}"
        self._endpoints: dict[str, BatchEndpoint] = {}
        self._cancelled: set[str] = set()
        self._full = 0
        """How often in a row a queue had no room."""

    def endpoint(self, model: str) -> BatchEndpoint:
        settings = self._models.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._endpoints:
            endpoint = ENDPOINTS[settings.provider](settings, batch_wire(settings))
            self._endpoints[name] = endpoint
        return self._endpoints[name]

    async def close(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.http.close()

    def restore_accounting(self, counted: Mapping[str, int]) -> None:
        """Enter batches that landed earlier and are missing from the ledger, and reserve dollars
        for those that are out. counted: batches in the ledger, by model."""
        for model, landed in self.journal.landed.items():
            for account in landed[counted.get(model, 0) :]:
                spent = account.dollars + account.doubtful
                self._reserve(spent)
                self._settle(spent, spent)
                self._models.ledger.page(model, self._prices.find(model)).land(account)
        for batch in (*self.journal.intended.values(), *self.journal.out.values()):
            self._reserve(batch.worst)

    async def recover(self) -> None:
        """Find out what became of batches whose submission was cut off."""
        for lost in list(self.journal.intended.values()):
            if await self._found(lost):
                continue
            if time.time() - lost.at < GIVE_UP:
                # The request of a process that died may still have been on its way.
                await self._stop.sleep(SETTLE)
            if not await self._found(lost):
                self.journal.dropped(lost.mark)
                await self._discard(lost, 0.0)

    async def submit(self, collector: Collector, model: str) -> int:
        """Submit the noted calls, as far as queue and budget have room; how many were left to other
        runs of the store that have them out.

        BudgetReached where they have room for none, and nothing is out that may leave some.
        """
        endpoint, budget = self.endpoint(model), self._models.budget
        caps = endpoint.caps
        if self._max_lines is not None:
            caps = replace(caps, lines=min(caps.lines, self._max_lines))
        elsewhere = await self._reserved_elsewhere(collector)
        calls = (call for call in collector.calls() if call.address not in elsewhere)
        packer = BatchPacker(
            model, endpoint, self.journal.folder, calls, caps, self._price(model), budget
        )
        try:
            while not packer.empty:
                self._stop.raise_if_stopped()
                batch = packer.pack(self._room(model))
                if batch is None:
                    break
                self.journal.intend(batch)
                self._reserve(batch.worst)
                await self._submit(endpoint, batch)
        finally:
            await self._release(packer.rest())
        if packer.lacked and budget is not None and not self.journal.out:
            raise BudgetReached(budget.reached(packer.lacked))
        return len(elsewhere)

    async def poll(self) -> bool:
        """Check every batch that is out, and collect those that have ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        down = set[BatchEndpoint]()
        for id, batch in list(self.journal.out.items()):
            endpoint = self.endpoint(batch.model)
            if endpoint in down:
                continue
            try:
                state = await self._about(id, endpoint.state, id)
                self.back[id] = state.done
                if not state.ended:
                    continue
                del self.back[id]
                if state.fault is None:
                    await self._collect(endpoint, id, batch, state)
                    news = True
                else:
                    news = await self._refused(id, batch, state.fault) or news
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
        """Have the vendors stop what is out. Until a batch has ended, its calls stay with it."""
        for id, batch in list(self.journal.out.items()):
            if id not in self._cancelled:
                # One that has ended meanwhile cannot be cancelled; the next poll says so.
                with suppress(InvalidRequest, ModelNotFound):
                    await retried(self._stop, self.endpoint(batch.model).cancel, id)
                self._cancelled.add(id)

    async def _submit(self, endpoint: BatchEndpoint, batch: Submission) -> None:
        body = self.journal.folder / f"{batch.mark}{BODY}"
        tries = 0
        while True:
            try:
                id = await endpoint.submit(batch.mark, body)
                break
            except INCONCLUSIVE as exc:
                tries += 1
                if tries > MAX_SUBMISSIONS:
                    raise ProviderDown(f"{exc}; a batch could not be handed in") from exc
                # A lost answer would have said whether a batch was made.
                unsent = isinstance(exc, (RateLimited, Unreachable))
                await self._stop.sleep(max(backoff(tries, exc), 0.0 if unsent else SETTLE))
                if not unsent and await self._found(batch):
                    body.unlink()
                    return
            except (InvalidRequest, Halt) as exc:
                self.journal.dropped(batch.mark)
                await self._discard(batch, 0.0)
                if isinstance(exc, (InvalidRequest, ModelNotFound)):
                    raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
                raise
        self.journal.submitted(batch.mark, id)
        body.unlink()

    async def _found(self, lost: Submission) -> bool:
        """Whether the vendor has a batch, which then counts as submitted."""
        endpoint = self.endpoint(lost.model)
        id = await retried(self._stop, endpoint.find, lost, frozenset(self.journal.known))
        if id is not None:
            self.journal.submitted(lost.mark, id, guessed=not endpoint.shows_marks)
        return id is not None

    async def _collect(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, state: BatchState
    ) -> None:
        file, calls = self.journal.folder / f"{batch.mark}.results", self.journal.calls(batch)
        file.unlink(missing_ok=True)
        for path in state.downloads:
            await self._about(id, endpoint.http.download, path, file)
        file.touch()
        results = BatchResults(batch, endpoint, self._price(batch.model), self._models.quarantine)
        if id in self.journal.guessed and not results.are_of(calls, file):
            # As old and as large as ours, but of other calls: ours is still to be found.
            self.journal.foreign(id)
            return await self.recover()
        await results.store(calls, file, state, self._cache)
        account = results.page.account()
        self.journal.land(id, account, results.faults, results.again)
        self._models.ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        await self._discard(batch, account.dollars + account.doubtful)
        file.unlink()
        self._full = 0
        if results.halt is not None:
            raise results.halt

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

    async def _about(
        self, id: str, request: Callable[..., Coroutine[Any, Any, T]], *args: Any
    ) -> T:
        """A request about a batch that is out; BatchRefused if the vendor denies it."""
        try:
            return await retried(self._stop, request, *args)
        except (InvalidRequest, ModelNotFound) as exc:
            others = len(self.journal.out) - 1
            first = (
                f", once the other {others:,} that are out have been taken home" if others else ""
            )
            raise BatchRefused(
                f"{exc}. The batch {id} was handed in with another key, or is there no more: put "
                f"the key back with which it was; or have its calls asked, and paid, again: move "
                f"{self.journal.folder} away{first}"
            ) from exc

    async def _reserved_elsewhere(self, collector: Collector) -> set[str]:
        """Reserve the noted calls; the addresses of those that other runs have out, or stored."""
        calls, elsewhere = collector.calls(), set[str]()
        async with _store_faults():
            while part := list(islice(calls, RESERVED_TOGETHER)):
                ours = await self._cache.reserve(part, self._owner, RESERVED_FOR)
                elsewhere.update(call.address for call in part if call.address not in ours)
        return elsewhere

    async def _release(self, calls: Iterator[Call]) -> None:
        async with _store_faults():
            while part := list(islice(calls, RESERVED_TOGETHER)):
                await self._cache.release(part, self._owner)

    async def _discard(self, batch: Submission, spent: float) -> None:
        """Free what was held for a batch that is done with. spent: dollars."""
        self._settle(batch.worst, spent)
        calls = self.journal.calls(batch)
        await self._release(calls_in(calls))
        for file in (calls, Path(self.journal.folder, f"{batch.mark}{BODY}")):
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


@asynccontextmanager
async def _store_faults() -> AsyncIterator[None]:
    try:
        yield
    except StoreError as exc:
        raise StoreFailed(str(exc)) from exc
