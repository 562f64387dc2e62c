"""A run folder with its figures, and with requests where a store is at hand."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ...cache.address import store_key
from ...cache.call import Call
from ...cache.record import read_record
from ...cache.reply import Reply
from ..record.values import RecordedCall
from ..runs.reader import RunReader

if TYPE_CHECKING:
    from ...cache.store import Reader
    from ..accounting.prices import PriceList
    from .landed import LandedOutcomes, OutcomeTally

MARKS = ("refused", "conceded", "off_side", "forged", "truncated")
"""Counts that speak against a cell, as outcomes name them; the gravest first."""


@dataclass
class OpenedRun(RunReader):
    """A run folder with its figures; a context manager, since it may hold a store open."""

    store: Path | str | None = None
    """A store or a bundle of replies, for requests, which are in no record; None for the user's
    own folder. What the run itself names is not opened."""
    _held: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> "OpenedRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def prices(self) -> "PriceList":
        """The listed prices, also under the names that the sweep gives to public models."""
        from ..accounting.prices import listed

        return listed().named(self.sweep.meanings)

    def stored(self, call: RecordedCall) -> tuple[Call, Reply] | None:
        """A call and its reply as the store has them; None where no store is at hand, or it lacks
        that call."""
        if self._store is None:
            return None
        key = store_key(call.address, call.cost.identity)
        value = self._store.get(key)
        if value is None:
            return None
        stored = read_record(key, value)
        return stored.call(), stored.reply()

    @cached_property
    def _store(self) -> "Reader | None":
        from ..runs.recorded import at_hand

        return self._held.enter_context(at_hand(self.store))

    def landed(self, score: str = "brier") -> "LandedOutcomes":
        """What has landed by now, and its figures under one score. RunFolderError."""
        return self._tally.landed(score)

    @cached_property
    def _tally(self) -> "OutcomeTally":
        from .landed import OutcomeTally

        return OutcomeTally(self.folder, self.sweep)
