"""Batches handed in, asked after and taken home, whatever goes wrong on the way."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from oversight.cache.cache import Cache
from oversight.engine.accounting.prices import Price, PriceList
from oversight.engine.batches.collector import Collector
from oversight.engine.batches.endpoint import BatchEndpoint, BatchState, Submission, batch_endpoint
from oversight.engine.batches.journal import BatchJournal
from oversight.engine.batches.packing import BODY, BatchPacker
from oversight.engine.batches.results import BatchResults
from oversight.engine.errors import (
    BatchRefused,
    BudgetReached,
    Halt,
    InvalidRequest,
    ModelNotFound,
    ProviderDown,
    RateLimited,
    TransientError,
    Unreachable,
)
from oversight.engine.models.router import Models
from oversight.engine.providers.catalogue import batch_wire
from oversight.engine.providers.fault import ErrorAnswer
from oversight.engine.stop import StopToken

SETTLE = 60.0
"""Seconds after which a vendor lists a batch that was handed in just before an answer was lost."""
GIVE_UP = 1800.0
"""Seconds without an answer after which a vendor counts as down."""
MAX_WAIT = 60.0
"""Seconds between two tries at most."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""

MAX_SUBMISSIONS = 6
"""Times that one batch is handed in, as long as none of them is known to have made it."""
INCONCLUSIVE = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""What passes, or is the answer of a vendor that we cannot read."""

Told = TypeVar("Told")


class Dispatch:
    """All batches of one run. What is raised is a Halt, or a RunFolderError."""

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
        """By batch that is out, how many of its lines are done."""
        self._models = models
        self._cache = cache
        self._prices = prices
        self._stop = stop_token
        self._max_lines = max_lines
        self._endpoints: dict[str, BatchEndpoint] = {}
        self._cancelled: set[str] = set()
        self._full = 0
        """How often in a row a queue had no room."""

    def endpoint(self, model: str) -> BatchEndpoint:
        """Where the calls of a model are handed in."""
        settings = self._models.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._endpoints:
            self._endpoints[name] = batch_endpoint(settings, batch_wire(settings))
        return self._endpoints[name]

    async def close(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.close()

    def restore_accounting(self, counted: Mapping[str, int]) -> None:
        """Count in what earlier sittings landed and did not live to enter, and hold back dollars
        for what is out. counted: by model, batches that are in the ledger."""
        for model, landed in self.journal.landed.items():
            for account in landed[counted.get(model, 0) :]:
                spent = account.dollars + account.doubtful
                self._reserve(spent)
                self._settle(spent, spent)
                self._models.ledger.page(model, self._prices.find(model)).land(account)
        for batch in (*self.journal.intended.values(), *self.journal.out.values()):
            self._reserve(batch.worst)

    async def recover(self) -> None:
        """Find out what became of batches whose handing in was cut off."""
        for lost in list(self.journal.intended.values()):
            if await self._recovered(lost):
                continue
            if time.time() - lost.at < GIVE_UP:
                # What a dying process sent may have been on its way still.
                await self._stop.sleep(SETTLE)
            if not await self._recovered(lost):
                self.journal.dropped(lost.mark)
                self._discard(lost, 0.0)

    async def submit(self, collector: Collector, model: str) -> None:
        """Hand in the calls that are noted, as far as queue and budget have room.

        BudgetReached where they have none for one, and nothing is out that may leave some.
        """
        endpoint, budget = self.endpoint(model), self._models.budget
        caps = endpoint.caps
        if self._max_lines is not None:
            caps = replace(caps, lines=min(caps.lines, self._max_lines))
        packer = BatchPacker(
            model,
            endpoint,
            self.journal.folder,
            collector.calls(),
            caps,
            self._price(model),
            budget,
        )
        while not packer.empty:
            self._stop.raise_if_stopped()
            batch = packer.cut(self._room(model), time.time)
            if batch is None:
                break
            self.journal.intend(batch)
            self._reserve(batch.worst)
            await self._submit(endpoint, batch)
        if packer.lacked and budget is not None and not self.journal.out:
            raise BudgetReached(budget.reached(packer.lacked))

    async def poll(self) -> bool:
        """Look after every batch that is out, and land those that have ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        for id, batch in list(self.journal.out.items()):
            endpoint = self.endpoint(batch.model)
            try:
                state = await self._of_batch(id, endpoint.state, id)
                self.back[id] = state.done
                if not state.ended:
                    continue
                del self.back[id]
                if state.fault is None:
                    await self._land(endpoint, id, batch, state)
                    news = True
                else:
                    news = await self._refused(id, batch, state.fault) or news
            except Halt as halt:
                # What else is back is taken home before the run stops.
                self._stop.raise_if_stopped()
                stops = stops or halt
        if stops is not None:
            raise stops
        return news

    async def cancel(self) -> None:
        """Have the vendors stop what is out. Until a batch has ended, its calls stay with it."""
        for id, batch in list(self.journal.out.items()):
            if id not in self._cancelled:
                # One that has ended meanwhile cannot be cancelled; the next look says so.
                with suppress(InvalidRequest, ModelNotFound):
                    await self._retried(self.endpoint(batch.model).cancel, id)
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
                # Only its answer would have said whether a batch was made of it.
                unsent = isinstance(exc, (RateLimited, Unreachable))
                await self._stop.sleep(max(_backoff(tries, exc), 0.0 if unsent else SETTLE))
                if not unsent and await self._recovered(batch):
                    body.unlink()
                    return
            except (InvalidRequest, ModelNotFound) as exc:
                self.journal.dropped(batch.mark)
                self._discard(batch, 0.0)
                raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
            except Halt:
                self.journal.dropped(batch.mark)
                self._discard(batch, 0.0)
                raise
        self.journal.submitted(batch.mark, id)
        body.unlink()

    async def _recovered(self, lost: Submission) -> bool:
        """Whether the vendor has a batch, which then counts as handed in."""
        endpoint = self.endpoint(lost.model)
        id = await self._retried(endpoint.find, lost, frozenset(self.journal.known))
        if id is not None:
            self.journal.submitted(lost.mark, id, guessed=not endpoint.shows_marks)
        return id is not None

    async def _land(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, state: BatchState
    ) -> None:
        file = self.journal.folder / f"{batch.mark}.results"
        file.unlink(missing_ok=True)
        for path in state.downloads:
            await self._of_batch(id, endpoint.http.download, path, file)
        file.touch()
        results = BatchResults(batch, endpoint, self._price(batch.model), self._models.quarantine)
        await results.read(self.journal.calls(batch), file, state, self._cache)
        if id in self.journal.guessed and not results.met and file.stat().st_size:
            # As old and as large as ours, but of other calls: ours is still to be found.
            self.journal.foreign(id)
            return await self.recover()
        account = results.page.account()
        self.journal.land(id, account, results.faults, results.again)
        self._models.ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        self._discard(batch, account.dollars + account.doubtful)
        file.unlink()
        self._full = 0
        if results.halt is not None:
            raise results.halt

    async def _refused(self, id: str, batch: Submission, fault: ErrorAnswer) -> bool:
        """A batch of which nothing was asked; whether to go on without waiting for others."""
        queued = self._queued(batch.model)
        self.journal.refused(id, str(fault))
        self._discard(batch, 0.0)
        if fault.code != QUEUE_FULL:
            try:
                fault.reply()
            except Halt:
                raise
            except (InvalidRequest, TransientError) as exc:
                raise BatchRefused(f"{exc}; no call of that batch was asked") from exc
            raise BatchRefused(f"{fault}; no call of that batch was asked")
        self.journal.learn(batch.model, queued / 2)
        if self._queued(batch.model):
            return False
        # Nothing of ours is in the queue: others fill it, or the batch alone was too large.
        self._full += 1
        await self._stop.sleep(_backoff(self._full))
        return True

    async def _of_batch(self, id: str, errand: Callable[..., Awaitable[Told]], *args: Any) -> Told:
        try:
            return await self._retried(errand, *args)
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

    async def _retried(self, errand: Callable[..., Awaitable[Told]], *args: Any) -> Told:
        """What comes of an errand that may be done again; ProviderDown once it has failed too long.

        InvalidRequest and any Halt pass.
        """
        waited, tries = 0.0, 0
        while True:
            try:
                return await errand(*args)
            except INCONCLUSIVE as exc:
                fault = exc
            tries += 1
            wait = _backoff(tries, fault)
            waited += wait
            if waited > GIVE_UP:
                raise ProviderDown(f"no answer for {GIVE_UP / 60:.0f} minutes; last: {fault!r}")
            await self._stop.sleep(wait)

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

    def _discard(self, batch: Submission, spent: float) -> None:
        self._settle(batch.worst, spent)
        self.journal.calls(batch).unlink(missing_ok=True)
        (self.journal.folder / f"{batch.mark}{BODY}").unlink(missing_ok=True)

    def _settle(self, worst: float, spent: float) -> None:
        if self._models.budget is not None:
            self._models.budget.settle(worst, spent)


def _backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after so many that failed."""
    asked = fault.delay if isinstance(fault, TransientError) else 0.0
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), asked)
