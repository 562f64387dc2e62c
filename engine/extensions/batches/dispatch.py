"""Following the batches of one run: looks for those of unknown fate, polls those that are out, and
collects results.

A batch has ended only when the lines that can be read are as many as the vendor counts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from ....cache.cache import Cache
from ...errors import BatchRefused, Halt, InvalidRequest, ModelNotFound, ProviderDown, UsageError
from ...models.accounting.prices import Price
from ...models.router import Router
from ...providers.connecting import wire_of
from ...providers.fault import ErrorAnswer
from ...system.files import unwritable
from .endpoint import CLOCK_SLACK, INCONCLUSIVE, BatchEndpoint, BatchState, backoff
from .journal import BatchJournal, Submission
from .results import BatchResults
from .vendors import ENDPOINTS

Step: TypeAlias = Callable[[BatchEndpoint, str, Submission], Awaitable[bool]]

SETTLE = 180.0
"""Seconds for which a batch is looked for that the vendor said it could not make."""
NOT_FOUND_SECONDS = 120.0
"""Seconds for which a vendor may deny a batch that it has made, or lack lines of its results."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""

log = logging.getLogger(__name__)


class Dispatch:
    """All batches of one run that may be out, and what is owed and paid for them: a submission
    whose fate nothing proves is owed until something does. Raises only Halts and RunFolderErrors.
    """

    def __init__(self, journal: BatchJournal, models: Router, cache: Cache) -> None:
        accounting = models.accounting
        self.journal, self.budget = journal, accounting.budget
        if self.budget is not None and self.budget.tokens:
            raise UsageError("--max-tokens caps live calls alone: cap batches by --max-cost")
        self.back: dict[str, int] = {}
        """By batch that is out, how many of its lines the vendor has done."""
        self.dearest: dict[str, float] = {}
        """By model, dollars of the dearest line above its worst case: the least to reserve for the
        next."""
        self._models, self._cache, self._prices = models, cache, accounting.prices
        self._ledger, self._quarantine = accounting.ledger, accounting.quarantine
        self._stop = models.stop_token
        self._endpoints: dict[str, BatchEndpoint] = {}
        """By provider and API, made when they are first asked for."""
        self._cancelled: set[str] = set()
        self._since: dict[str, float] = {}
        """Loop time (s) of the first look of this session at what is not as it should be, by id or
        mark."""
        self._others: set[tuple[str, str]] = set()
        """(mark, id) of batches that could have been one of ours, and are not."""
        self._most_out: dict[str, int] = {}
        """By model whose queue had no room once, how many lines may be out together."""
        self._full = 0
        """How often in a row a queue had no room."""

    def endpoint(self, model: str) -> BatchEndpoint:
        settings = self._models.directory.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._endpoints:
            made = ENDPOINTS[settings.provider](settings, wire_of(settings), self._stop)
            self._endpoints[name] = made
        return self._endpoints[name]

    async def close(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.close()

    def recover(self) -> None:
        """Free the calls of batches whose request had not left when their process ended."""
        for mark, batch in list(self.journal.intended.items()):
            if mark not in self.journal.sending:
                self.drop(batch)

    async def poll(self) -> bool:
        """Look for batches of unknown fate, check those that are out, and collect what has ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        down = set[BatchEndpoint]()
        steps: list[tuple[str, Submission, Step]] = [
            *((mark, batch, self._look_for) for mark, batch in self.journal.liabilities.items()),
            *((id, batch, self._check) for id, batch in self.journal.out.items()),
        ]
        for name, batch, step in steps:
            endpoint = self.endpoint(batch.model)
            if endpoint in down:
                continue
            try:
                news = await step(endpoint, name, batch) or news
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
                # One that has ended cannot be cancelled, as the vendor may say by a 409: so this is
                # tried once, and again after the next poll, which collects what has ended.
                with suppress(InvalidRequest, ModelNotFound, *INCONCLUSIVE):
                    endpoint = self.endpoint(batch.model)
                    await self._stop.until_stopped(endpoint.asked(endpoint.cancel, id))
                    self._cancelled.add(id)

    async def _look_for(self, endpoint: BatchEndpoint, mark: str, batch: Submission) -> bool:
        """Look for a batch of unknown fate at the vendor; whether its calls are free again."""
        since, open_ended = self.journal.sending[mark], False
        for each in await endpoint.retried(endpoint.candidates, batch, since):
            if each.id in self.journal.known or (mark, each.id) in self._others:
                continue
            ours = each.mark == mark or await self._is_ours(endpoint, each.id, batch)
            if ours:
                self.journal.note(submitted=mark, id=each.id)
                self._since.pop(mark, None)
                return False
            open_ended = open_ended or ours is None
        denied = mark in self.journal.denied and self._waited(mark) >= SETTLE
        passed = endpoint.now() > since + endpoint.window + CLOCK_SLACK
        if (denied or passed) and not open_ended:
            self.drop(batch)
            self._since.pop(mark, None)
            return True
        return False

    async def _is_ours(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool | None:
        """Whether a batch of the account is this one, by the custom ids in its results; None as
        long as they cannot be read."""
        state = await endpoint.retried(endpoint.state, id)
        if not state.ended:
            return None
        file = await self._downloaded(endpoint, id, batch, state)
        ours, others = self._results(endpoint, batch).readable(file)
        file.unlink()
        if not ours and not others:
            return None
        if others or not ours:
            self._others.add((batch.mark, id))
        return not others

    async def _check(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool:
        """The state of a batch that is out; collects it once it has ended. Whether it has."""
        try:
            state = await endpoint.retried(endpoint.state, id)
            self.back[id] = state.done
            if not state.ended:
                self._since.pop(id, None)
                return False
            if state.fault is not None:
                del self.back[id]
                return await self._refused(id, batch, state.fault)
            file = await self._downloaded(endpoint, id, batch, state)
        except (InvalidRequest, ModelNotFound) as exc:
            return self._wrong(
                id,
                batch,
                f"{exc}. The vendor has not known the batch {id} for a while: it was handed in "
                "with another key, or another project or address; put that back, and the same "
                "command collects it",
            )
        results = self._results(endpoint, batch)
        ours, _ = results.readable(file)
        counted = batch.lines if state.results is None else state.results
        if ours < min(counted, batch.lines):
            stated = "no count" if state.results is None else f"{counted:,} by the vendor's counts"
            return self._wrong(
                id,
                batch,
                f"the batch {id} of {batch.model} has ended ({state.status}), and {ours:,} of its "
                f"{batch.lines:,} lines can be read ({stated}). Downloading again brought no more; "
                "nothing is asked again. The same command looks again",
            )
        self._since.pop(id, None)
        self.back.pop(id, None)
        await results.store(file, state.absent, self._cache)
        self._land(id, results)
        return True

    async def _downloaded(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, state: BatchState
    ) -> Path:
        """The file of what the vendor says are the results, or as much as it made sense."""
        file = self.journal.file(batch.mark, "results")
        try:
            file.write_bytes(b"")
        except OSError as exc:
            raise unwritable(file, exc) from exc
        for name in state.files:
            if not await endpoint.retried(endpoint.download, name, file, batch.most_bytes):
                log.warning("the results of %s are larger than its calls allow", id)
        return file

    def _wrong(self, id: str, batch: Submission, why: str) -> bool:
        """Look again at a batch that is not as it should be, up to a point; False."""
        if self._waited(id) < NOT_FOUND_SECONDS:
            return False
        most = f", ${batch.worst:.2f} at most" if batch.worst else ""
        raise BatchRefused(
            f"{why}. Another folder on the same store knows nothing of the batch: there its calls "
            f"are asked again, and may be paid twice{most}"
        )

    def _waited(self, name: str) -> float:
        """Seconds since the first look of this session at what is not as it should be."""
        now = asyncio.get_running_loop().time()
        return now - self._since.setdefault(name, now)

    async def _refused(self, id: str, batch: Submission, fault: ErrorAnswer) -> bool:
        """Handle a batch refused as a whole; whether to go on without waiting for others."""
        queued = self.lines_out(batch.model)
        self.journal.note(refused=id, why=str(fault))
        self.discard(batch, 0.0)
        if fault.code != QUEUE_FULL:
            error = fault.error()
            if isinstance(error, Halt):
                raise error
            raise BatchRefused(f"{error}; no call of that batch was asked")
        self._most_out[batch.model] = queued // 2
        if self.lines_out(batch.model):
            return False
        # Nothing of ours is in the queue: others fill it, or the batch alone was too large.
        self._full += 1
        await self._stop.sleep(backoff(self._full))
        return True

    def restore(self, counted: Mapping[str, int]) -> None:
        """Enter batches that completed earlier and are missing from the ledger, and reserve dollars
        for those that are out. counted: batches in the ledger, by model."""
        for model, completed in self.journal.completed.items():
            for account in completed[counted.get(model, 0) :]:
                self.settle(0.0, account.dollars + account.doubtful)
                self._ledger.page(model, self._prices.find(model)).land(account)
        for batch in self.journal.pending:
            self.reserve(batch.worst)

    def _land(self, id: str, results: BatchResults) -> None:
        """Enter a batch in the books, whose replies are stored."""
        batch = results.batch
        self.dearest[batch.model] = max(results.dearest, self.dearest.get(batch.model, 0.0))
        account = results.page.account()
        self.journal.land(id, account, results.faults, results.again)
        self._ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        self._full = 0
        self.discard(batch, account.dollars + account.doubtful)
        if results.halt is not None:
            raise results.halt

    def _results(self, endpoint: BatchEndpoint, batch: Submission) -> BatchResults:
        return BatchResults(
            batch,
            self.journal.file(batch.mark),
            endpoint,
            self.price(batch.model),
            self._quarantine,
            f"batch {endpoint.settings.base_url} {self._cache.token}".rstrip(),
            self.journal.tries,
        )

    def drop(self, batch: Submission) -> None:
        """Enter that a batch was never made."""
        self.journal.note(dropped=batch.mark)
        self.discard(batch, 0.0)

    def discard(self, batch: Submission, spent: float) -> None:
        """Free what was held for a batch that is done with. spent: dollars."""
        self.settle(batch.worst, spent)
        self.journal.delete_files(batch)

    def price(self, model: str) -> Price | None:
        return (price := self._prices.find(model)) and price.batched()

    def lines_out(self, model: str) -> int:
        return sum(batch.lines for batch in self.journal.out.values() if batch.model == model)

    def room(self, model: str) -> int:
        """Lines that the next batch of a model may have; 0 or less while its queue is full."""
        most = self.endpoint(model).most_lines
        if (known := self._most_out.get(model)) is None:
            return most
        # However little room there is, one call goes into an empty queue.
        return min(most, max(known, 1) - self.lines_out(model))

    def reserve(self, dollars: float) -> None:
        if self.budget is not None:
            self.budget.held += dollars

    def settle(self, worst: float, spent: float) -> None:
        if self.budget is not None:
            # Reset, since calls would wait for a rounding error to be settled.
            self.budget.held = self.budget.held - worst if self.journal.pending else 0.0
            self.budget.spent += spent
