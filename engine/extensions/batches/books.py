"""The books of a run's batches: journal, ledger and budget.

Kept as double entry: a submission whose fate nothing proves is owed until something does.
"""

from collections.abc import Mapping
from pathlib import Path

from ....cache.cache import Cache
from ...errors import UsageError
from ...models.accounting.prices import Price, PriceList
from ...models.router import Models
from ...system.files import unwritable
from .endpoint import BatchEndpoint, Lost
from .journal import BatchJournal, Submission
from .results import BatchResults


class BatchBooks:
    """What is out, owed and paid. Raises StoreFailed and RunFolderError."""

    def __init__(
        self, journal: BatchJournal, models: Models, cache: Cache, prices: PriceList
    ) -> None:
        self.journal = journal
        self.budget = models.budget
        if self.budget is not None and self.budget.tokens:
            raise UsageError("--max-tokens caps live calls alone: cap batches by --max-cost")
        self._models = models
        self._cache = cache
        self._prices = prices
        self.dearest: dict[str, float] = {}
        """By model, dollars of the dearest line above its worst case: the least to reserve for the
        next."""

    def restore(self, counted: Mapping[str, int]) -> None:
        """Enter batches that completed earlier and are missing from the ledger, and reserve dollars
        for those that are out. counted: batches in the ledger, by model."""
        for model, completed in self.journal.completed.items():
            for account in completed[counted.get(model, 0) :]:
                spent = account.dollars + account.doubtful
                self.reserve(spent)
                self.settle(spent, spent)
                self._models.ledger.page(model, self._prices.find(model)).land(account)
        for batch in self.journal.pending:
            self.reserve(batch.worst)

    async def land(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, file: Path, absent: Lost
    ) -> None:
        """Store the results of a batch, and enter it in the books."""
        results, calls = self._results(endpoint, batch), self.journal.file(batch.mark)
        await results.store(calls, file, absent, self._cache)
        self.dearest[batch.model] = max(results.dearest, self.dearest.get(batch.model, 0.0))
        account = results.page.account()
        self.journal.land(id, account, results.faults, results.again)
        self._models.ledger.page(batch.model, self._prices.find(batch.model)).land(account)
        self.discard(batch, account.dollars + account.doubtful)
        if results.halt is not None:
            raise results.halt

    def readable(self, endpoint: BatchEndpoint, batch: Submission, file: Path) -> tuple[int, int]:
        """(ours, others): how many lines of a batch a file of results holds, and how many others
        that can be read."""
        return self._results(endpoint, batch).readable(self.journal.file(batch.mark), file)

    def _results(self, endpoint: BatchEndpoint, batch: Submission) -> BatchResults:
        price = self.price(batch.model)
        origin = f"batch {endpoint.settings.base_url} {self._cache.token}".rstrip()
        quarantine, tries = self._models.quarantine, self.journal.tries
        return BatchResults(batch, endpoint, price, quarantine, origin, tries)

    def drop(self, batch: Submission) -> None:
        """Enter that a batch was never made."""
        self.journal.dropped(batch.mark)
        self.discard(batch, 0.0)

    def discard(self, batch: Submission, spent: float) -> None:
        """Free what was held for a batch that is done with. spent: dollars."""
        self.settle(batch.worst, spent)
        self.journal.delete_files(batch)

    def no_results(self, batch: Submission) -> Path:
        """The file of the results of a batch, with nothing in it. RunFolderError."""
        file = self.journal.file(batch.mark, "results")
        try:
            file.write_bytes(b"")
        except OSError as exc:
            raise unwritable(file, exc) from exc
        return file

    def price(self, model: str) -> Price | None:
        price = self._prices.find(model)
        return None if price is None else price.batched()

    def queued(self, model: str) -> float:
        return sum(batch.tokens for batch in self.journal.out.values() if batch.model == model)

    def room(self, model: str) -> float:
        """Tokens that may join the queue of a model now."""
        room = self.journal.room.get(model, float("inf"))
        queued = self.queued(model)
        # However little room there is, one call goes into an empty queue.
        return max(room, 1.0) if not queued else room - queued

    def reserve(self, dollars: float) -> None:
        if self.budget is not None:
            self.budget.reserve(dollars)

    def settle(self, worst: float, spent: float) -> None:
        if self.budget is not None:
            self.budget.settle(worst, spent)
