"""A run that is looked into: the sweep, what has landed, its figures, and its transcripts."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np

from oversight.cache.cache import Cache
from oversight.engine.reports.results import Results, collect
from oversight.engine.runs.loaded_sweep import LoadedSweep, open_run
from oversight.engine.runs.manifest import Manifest, read_manifest
from oversight.engine.runs.outcome import OutcomeRecord, read_outcome
from oversight.engine.runs.recorded import recorded
from oversight.engine.runs.replay import replay_cache
from oversight.engine.runs.run_folder import OUTCOMES, outcomes
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.scores import applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.transcript import Failure

DOUBTS = ("refused", "conceded", "off_side", "forged", "truncated")
"""Counts that speak against a cell, as outcomes name them; the gravest first."""


@dataclass(frozen=True, slots=True)
class Place:
    """One problem under one row, in one draw: what a reader shows."""

    row: int
    """Number of the row in the sweep, from 0."""
    problem: int
    """Number of the problem in the sweep, from 0."""
    draw: int = 0


@dataclass(frozen=True, slots=True)
class LandedOutcomes:
    """The outcomes of a run so far, by place in the sweep."""

    probs: Floats
    """Cells x answers; not a number where there is no verdict."""
    failures: Mapping[int, Failure]
    counts: Mapping[int, Mapping[str, int]]
    """Of cells that counted anything."""
    finished: int
    results: Results


@dataclass
class OpenedRun:
    """One run folder that is looked into. A context manager: it may hold a store open."""

    folder: Path
    store: Path | str | None = None
    """Folder of the store, or a bundle of replies; None for the run's own."""
    loaded: LoadedSweep | None = None
    """Its sweep, where somebody has it: one that was made from Python cannot always be made again
    from its folder."""
    _held: ExitStack = field(default_factory=ExitStack, repr=False)
    _landed: dict[str, tuple[object, LandedOutcomes]] = field(default_factory=dict, repr=False)

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
    def opened(self) -> LoadedSweep:
        return self.loaded or open_run(self.folder)

    @property
    def sweep(self) -> Sweep:
        return self.opened.sweep

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """The scores that every problem admits."""
        most = max(len(problem.values) for problem in self.sweep.problems)
        return tuple(applicable(most))

    @cached_property
    def cache(self) -> Cache:
        """Answers from the recorded replies alone. RunFolderError where there is no store."""
        replies = self._held.enter_context(recorded(self.folder, self.store))
        return replay_cache(replies, self.opened.models.identity_in(replies))

    @property
    def stamp(self) -> object:
        """Equal as long as no outcome has landed in between."""
        try:
            stat = (self.folder / OUTCOMES).stat()
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_size

    def landed(self, score: str = "brier") -> LandedOutcomes:
        """What has landed by now, and its figures under one score. RunFolderError."""
        stamp = self.stamp
        known = self._landed.get(score)
        if known is None or known[0] != stamp:
            known = self._landed[score] = (stamp, self._read(score))
        return known[1]

    def recorded(self, places: Iterable[int]) -> dict[int, OutcomeRecord]:
        """The outcomes of a few cells, by place in the sweep, without a look at the others."""
        file = self.folder / OUTCOMES
        if not file.exists() or not file.stat().st_size:
            return {}
        found = {}
        with file.open("rb") as lines, mmap(lines.fileno(), 0, access=ACCESS_READ) as content:
            for place in places:
                # Every line begins so, and a text within one has no line feed that is not escaped.
                begin = b'{"place":%d,' % place
                at = 0 if content[: len(begin)] == begin else content.find(b"\n" + begin) + 1
                end = content.find(b"\n", at)
                if end >= 0 and content[at : at + len(begin)] == begin:
                    found[place] = read_outcome(content[at : end + 1])
        return found

    def place(self, place: Place, side: int) -> int:
        """Where the cell of one world stands in the sweep."""
        answers = len(self.sweep.problems[place.problem].values)
        before = place.draw * len(self.sweep.rows) + place.row
        return self._starts[place.problem] + before * answers + side

    def where(self, at: int) -> tuple[Place, int]:
        """The reading, and the side, of the cell at a place in the sweep."""
        problem = int(np.searchsorted(self._starts, at, side="right")) - 1
        answers = len(self.sweep.problems[problem].values)
        before, side = divmod(at - self._starts[problem], answers)
        draw, row = divmod(before, len(self.sweep.rows))
        return Place(row, problem, draw), side

    def worlds(self, place: Place) -> range:
        """The places of all worlds of a reading."""
        first = self.place(place, 0)
        return range(first, first + len(self.sweep.problems[place.problem].values))

    @cached_property
    def _starts(self) -> list[int]:
        draws, rows = self.sweep.draws, len(self.sweep.rows)
        sizes = (len(problem.values) * draws * rows for problem in self.sweep.problems)
        return [0, *accumulate(sizes)][:-1]

    def _read(self, score: str) -> LandedOutcomes:
        most = max(len(problem.values) for problem in self.sweep.problems)
        probs: Floats = np.full((len(self.sweep), most), np.nan)
        failures: dict[int, Failure] = {}
        counts: dict[int, Mapping[str, int]] = {}
        finished = 0

        def seen() -> Iterator[OutcomeRecord]:
            nonlocal finished
            for record in outcomes(self.folder):
                finished += 1
                if record.failure is not None:
                    failures[record.place] = record.failure
                if record.counts:
                    counts[record.place] = record.counts
                if record.probs is not None:
                    probs[record.place, : len(record.probs)] = record.probs
                yield record

        results = collect(self.sweep, seen(), score=score, intervals=False)
        return LandedOutcomes(probs, failures, counts, finished, results)
