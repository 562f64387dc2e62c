"""Batches handed in, asked after and taken home, whatever goes wrong on the way."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from oversight.cache.cache import Cache
from oversight.engine.accounting.prices import Price, PriceList
from oversight.engine.batches.book import Book
from oversight.engine.batches.collector import Collector
from oversight.engine.batches.cutting import BODY, Cutter
from oversight.engine.batches.desk import BatchDesk, BatchState, Submission, desk_of
from oversight.engine.batches.landing import Landing
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
FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""

MOST_SUBMISSIONS = 6
"""Times that one batch is handed in, as long as none of them is known to have made it."""
UNCLEAR = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""What passes, or is the answer of a vendor that we cannot read."""

Told = TypeVar("Told")


class Dispatch:
    """All batches of one run. What is raised is a Halt, or a RunFolderError."""

    def __init__(
        self,
        book: Book,
        models: Models,
        cache: Cache,
        prices: PriceList,
        stop_token: StopToken,
        most_lines: int | None,
    ) -> None:
        self.book = book
        self.back: dict[str, int] = {}
        """By batch that is out, how many of its lines are done."""
        self._models = models
        self._cache = cache
        self._prices = prices
        self._stop = stop_token
        self._most_lines = most_lines
        self._desks: dict[str, BatchDesk] = {}
        self._cancelled: set[str] = set()
        self._full = 0
        """How often in a row a queue had no room."""

    def desk(self, model: str) -> BatchDesk:
        """Where the calls of a model are handed in."""
        settings = self._models.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._desks:
            self._desks[name] = desk_of(settings, batch_wire(settings))
        return self._desks[name]

    async def close(self) -> None:
        for desk in self._desks.values():
            await desk.close()

    def reckon(self, counted: Mapping[str, int]) -> None:
        """Count in what earlier sittings landed and did not live to enter, and hold back dollars
        for what is out. counted: by model, batches that are in the ledger."""
        for model, landed in self.book.landed.items():
            for account in landed[counted.get(model, 0) :]:
                spent = account.dollars + account.doubtful
                self._hold(spent)
                self._release(spent, spent)
                self._models.ledger.page(model, self._prices.find(model)).land(account)
        for batch in (*self.book.intended.values(), *self.book.out.values()):
            self._hold(batch.worst)

    async def adopt(self) -> None:
        """Find out what became of batches whose handing in was cut off."""
        for lost in list(self.book.intended.values()):
            if await self._found(lost):
                continue
            if time.time() - lost.at < GIVE_UP:
                # What a dying process sent may have been on its way still.
                await self._stop.sleep(SETTLE)
            if not await self._found(lost):
                self.book.dropped(lost.mark)
                self._done_with(lost, 0.0)

    async def hand_in(self, collector: Collector, model: str) -> None:
        """Hand in the calls that are noted, as far as queue and budget have room.

        BudgetReached where they have none for one, and nothing is out that may leave some.
        """
        desk, budget = self.desk(model), self._models.budget
        caps = desk.caps
        if self._most_lines is not None:
            caps = replace(caps, lines=min(caps.lines, self._most_lines))
        cutter = Cutter(
            model, desk, self.book.folder, collector.calls(), caps, self._price(model), budget
        )
        while not cutter.empty:
            self._stop.raise_if_stopped()
            batch = cutter.cut(self._room(model), time.time)
            if batch is None:
                break
            self.book.intend(batch)
            self._hold(batch.worst)
            await self._submit(desk, batch)
        if cutter.lacked and budget is not None and not self.book.out:
            raise BudgetReached(budget.reached(cutter.lacked))

    async def look(self) -> bool:
        """Look after every batch that is out, and land those that have ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        for id, batch in list(self.book.out.items()):
            desk = self.desk(batch.model)
            try:
                state = await self._of_batch(id, desk.state, id)
                self.back[id] = state.done
                if not state.ended:
                    continue
                del self.back[id]
                if state.fault is None:
                    await self._land(desk, id, batch, state)
                    news = True
                else:
                    news = await self._turned_down(id, batch, state.fault) or news
            except Halt as halt:
                # What else is back is taken home before the run stops.
                self._stop.raise_if_stopped()
                stops = stops or halt
        if stops is not None:
            raise stops
        return news

    async def cancel(self) -> None:
        """Have the vendors stop what is out. Until a batch has ended, its calls stay with it."""
        for id, batch in list(self.book.out.items()):
            if id not in self._cancelled:
                # One that has ended meanwhile cannot be cancelled; the next look says so.
                with suppress(InvalidRequest, ModelNotFound):
                    await self._steady(self.desk(batch.model).cancel, id)
                self._cancelled.add(id)

    async def _submit(self, desk: BatchDesk, batch: Submission) -> None:
        body = self.book.folder / f"{batch.mark}{BODY}"
        tries = 0
        while True:
            try:
                id = await desk.submit(batch.mark, body)
                break
            except UNCLEAR as exc:
                tries += 1
                if tries > MOST_SUBMISSIONS:
                    raise ProviderDown(f"{exc}; a batch could not be handed in") from exc
                # Only its answer would have said whether a batch was made of it.
                unsent = isinstance(exc, (RateLimited, Unreachable))
                await self._stop.sleep(max(_backoff(tries, exc), 0.0 if unsent else SETTLE))
                if not unsent and await self._found(batch):
                    body.unlink()
                    return
            except (InvalidRequest, ModelNotFound) as exc:
                self.book.dropped(batch.mark)
                self._done_with(batch, 0.0)
                raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
            except Halt:
                self.book.dropped(batch.mark)
                self._done_with(batch, 0.0)
                raise
        self.book.submitted(batch.mark, id)
        body.unlink()

    async def _found(self, lost: Submission) -> bool:
        """Whether the vendor has a batch, which then counts as handed in."""
        desk = self.desk(lost.model)
        id = await self._steady(desk.find, lost, frozenset(self.book.known))
        if id is not None:
            self.book.submitted(lost.mark, id, guessed=not desk.shows_marks)
        return id is not None

    async def _land(self, desk: BatchDesk, id: str, batch: Submission, state: BatchState) -> None:
        results = self.book.folder / f"{batch.mark}.results"
        results.unlink(missing_ok=True)
        for path in state.downloads:
            await self._of_batch(id, desk.errands.download, path, results)
        results.touch()
        landing = Landing(batch, desk, self._price(batch.model), self._models.quarantine)
        await landing.read(self.book.calls(batch), results, state, self._cache)
        if id in self.book.guessed and not landing.met and results.stat().st_size:
            # As old and as large as ours, but of other calls: ours is still to be found.
            self.book.foreign(id)
            return await self.adopt()
        account = landing.page.account()
        self.book.land(id, account, landing.faults, landing.again)
        self._models.ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        self._done_with(batch, account.dollars + account.doubtful)
        results.unlink()
        self._full = 0
        if landing.halt is not None:
            raise landing.halt

    async def _turned_down(self, id: str, batch: Submission, fault: ErrorAnswer) -> bool:
        """A batch of which nothing was asked; whether to go on without waiting for others."""
        queued = self._queued(batch.model)
        self.book.refused(id, str(fault))
        self._done_with(batch, 0.0)
        if fault.code != FULL:
            try:
                fault.reply()
            except Halt:
                raise
            except (InvalidRequest, TransientError) as exc:
                raise BatchRefused(f"{exc}; no call of that batch was asked") from exc
            raise BatchRefused(f"{fault}; no call of that batch was asked")
        self.book.learn(batch.model, queued / 2)
        if self._queued(batch.model):
            return False
        # Nothing of ours is in the queue: others fill it, or the batch alone was too large.
        self._full += 1
        await self._stop.sleep(_backoff(self._full))
        return True

    async def _of_batch(self, id: str, errand: Callable[..., Awaitable[Told]], *args: Any) -> Told:
        try:
            return await self._steady(errand, *args)
        except (InvalidRequest, ModelNotFound) as exc:
            others = len(self.book.out) - 1
            first = (
                f", once the other {others:,} that are out have been taken home" if others else ""
            )
            raise BatchRefused(
                f"{exc}. The batch {id} was handed in with another key, or is there no more: put "
                f"the key back with which it was; or have its calls asked, and paid, again: move "
                f"{self.book.folder} away{first}"
            ) from exc

    async def _steady(self, errand: Callable[..., Awaitable[Told]], *args: Any) -> Told:
        """What comes of an errand that may be done again; ProviderDown once it has failed too long.

        InvalidRequest and any Halt pass.
        """
        waited, tries = 0.0, 0
        while True:
            try:
                return await errand(*args)
            except UNCLEAR as exc:
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
        return sum(batch.tokens for batch in self.book.out.values() if batch.model == model)

    def _room(self, model: str) -> float:
        """Tokens that may join the queue of a model now."""
        room = self.book.room.get(model, float("inf"))
        queued = self._queued(model)
        # However little room there is, one call goes into an empty queue.
        return max(room, 1.0) if not queued else room - queued

    def _hold(self, dollars: float) -> None:
        if self._models.budget is not None:
            self._models.budget.reserve(dollars)

    def _done_with(self, batch: Submission, spent: float) -> None:
        self._release(batch.worst, spent)
        self.book.calls(batch).unlink(missing_ok=True)
        (self.book.folder / f"{batch.mark}{BODY}").unlink(missing_ok=True)

    def _release(self, worst: float, spent: float) -> None:
        if self._models.budget is not None:
            self._models.budget.settle(worst, spent)


def _backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after so many that failed."""
    asked = fault.delay if isinstance(fault, TransientError) else 0.0
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), asked)
