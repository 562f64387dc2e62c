"""A run folder opened for reading: sweep, outcomes, figures and transcripts.

Opening reads nothing. Models, figures and outcomes are loaded when they are first needed, so that
the first page of a large run does not wait for them.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocols.question import Problem
from ...protocols.scores import applicable
from ..runs.manifest import Manifest, read_manifest
from ..runs.outcome import OutcomeRecord
from ..runs.outcome_index import OutcomeIndex
from ..runs.run_folder import OUTCOMES, read_problems
from ..sweeps.sweep import Sweep

if TYPE_CHECKING:
    from ...cache.cache import Cache
    from ...cache.store import Reader
    from ..accounting.prices import PriceList
    from ..runs.loaded_sweep import LoadedSweep
    from .landed import LandedOutcomes, OutcomeTally

MARKS = ("refused", "conceded", "off_side", "forged", "truncated")
"""Counts that speak against a cell, as outcomes name them; the gravest first."""


@dataclass(frozen=True, slots=True)
class Place:
    """One problem under one row, in one draw: what a reader shows."""

    row: int
    """Number of the row in the sweep, from 0."""
    problem: int
    """Number of the problem in the sweep, from 0."""
    draw: int = 0


@dataclass
class OpenedRun:
    """One run folder. A context manager: it may hold a store open."""

    folder: Path
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

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self.folder)

    @cached_property
    def opened(self) -> "LoadedSweep":
        from ..runs.loaded_sweep import open_run

        return self.loaded or open_run(self.folder)

    @property
    def prices(self) -> "PriceList":
        """The listed prices, also under the names that the sweep gives to public models."""
        from ..accounting.prices import listed

        return self.opened.models.priced(listed())

    @property
    def sweep(self) -> Sweep:
        return self.opened.sweep

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Those of the sweep, without a look at its models."""
        return self.loaded.sweep.problems if self.loaded else read_problems(self.folder)

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """The scores that every problem admits."""
        return tuple(applicable(max(len(problem.values) for problem in self.problems)))

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

    @property
    def stamp(self) -> object:
        """A value that changes whenever an outcome lands."""
        try:
            stat = (self.folder / OUTCOMES).stat()
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_size

    def landed(self, score: str = "brier") -> "LandedOutcomes":
        """What has landed by now, and its figures under one score. RunFolderError."""
        return self._tally.landed(score)

    @cached_property
    def _tally(self) -> "OutcomeTally":
        from .landed import OutcomeTally

        return OutcomeTally(self.folder, self.sweep)

    def recorded(self, places: Iterable[int]) -> dict[int, OutcomeRecord]:
        """The outcomes of a few cells, by place in the sweep, without a look at the others."""
        return self._index.records(places)

    @cached_property
    def _index(self) -> OutcomeIndex:
        return OutcomeIndex(self.folder / OUTCOMES, self.manifest.cells)

    def where(self, at: int) -> tuple[Place, int]:
        """The reading, and the side, of the cell at a place in the sweep."""
        problem = self.sweep.problem_at(at)
        answers = len(self.sweep.problems[problem].values)
        before, side = divmod(at - self.sweep.span(problem).start, answers)
        draw, row = divmod(before, len(self.sweep.rows))
        return Place(row, problem, draw), side

    def worlds(self, place: Place) -> range:
        """The places of all worlds of a reading."""
        answers = len(self.sweep.problems[place.problem].values)
        before = place.draw * len(self.sweep.rows) + place.row
        first = self.sweep.span(place.problem).start + before * answers
        return range(first, first + answers)
