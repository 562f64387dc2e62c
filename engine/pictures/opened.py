"""A run folder with its figures, and with the replies that its transcripts are replayed from."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..runs.reader import RunReader

if TYPE_CHECKING:
    from ...cache.cache import Cache
    from ...cache.store import Reader
    from ..accounting.prices import PriceList
    from ..runs.loaded_sweep import LoadedSweep
    from .landed import LandedOutcomes, OutcomeTally

MARKS = ("refused", "conceded", "off_side", "forged", "truncated")
"""Counts that speak against a cell, as outcomes name them; the gravest first."""


@dataclass
class OpenedRun(RunReader):
    """A run folder with its figures, and with its store for what is replayed; a context manager,
    since it may hold the store open."""

    store: Path | str | None = None
    """Folder of the store, or a bundle of replies; None for the run's own."""
    loaded: "LoadedSweep | None" = None
    """The sweep, if the caller has it: one that was made in Python cannot always be made again from
    its folder."""
    _held: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> "OpenedRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @cached_property
    def opened(self) -> "LoadedSweep":
        from ..runs.loaded_sweep import open_run

        return self.loaded or open_run(self.folder)

    @property
    def prices(self) -> "PriceList":
        """The listed prices, also under the names that the sweep gives to public models."""
        from ..accounting.prices import listed

        return listed().named(self.sweep.meanings)

    @cached_property
    def cache(self) -> "Cache":
        """Answers from the recorded replies alone. RunFolderError where there is no store."""
        from ..runs.replay import replay_cache

        # A page says that a reply is missing; nobody reads there which other one is like it.
        identity = self.opened.models.identity_in(self.replies)
        return replay_cache(self.replies, identity, explained=0)

    @cached_property
    def replies(self) -> "Reader":
        """Where the recorded replies are. RunFolderError where there is no store."""
        from ..runs.recorded import recorded

        return self._held.enter_context(recorded(self.folder, self.store))

    def landed(self, score: str = "brier") -> "LandedOutcomes":
        """What has landed by now, and its figures under one score. RunFolderError."""
        return self._tally.landed(score)

    @cached_property
    def _tally(self) -> "OutcomeTally":
        from .landed import OutcomeTally

        return OutcomeTally(self.folder, self.sweep)
