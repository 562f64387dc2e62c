"""What the core is given: the replies of batches, for runs and for other work."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....cache.cache import Cache
from ...models.accounting.ledger import UsageTotals
from ...models.accounting.prices import PriceList
from ...models.router import Models
from ...run.batch_terms import FOLDER, BatchTerms
from ...run.batching import AnsweredLater, Batching
from ...run.order import Deferred
from .journal import JOURNAL
from .rounds import BatchRounds


class Batches(Batching):
    def deferred(
        self,
        folder: Path,
        models: Models,
        cache: Cache,
        prices: PriceList,
        terms: BatchTerms,
        entered: Mapping[str, UsageTotals],
        *,
        batched: Sequence[str],
        later: AnsweredLater | None = None,
        forgives: bool = False,
    ) -> Deferred | None:
        if not batched and terms.cancels is None and not (folder / FOLDER / JOURNAL).exists():
            return None
        return BatchRounds(folder, models, cache, prices, terms, entered, batched, later, forgives)


BATCHING = Batches()
