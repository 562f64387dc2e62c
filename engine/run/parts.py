"""A sweep in parts: one for each job of an array; and all of them gathered into one run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import msgspec

from ...protocols.question import Problem
from ..errors import RunFolderError, UsageError
from ..sweep.sweep import Sweep
from ..sweep.sweepfile import SweepFile
from .folders import run_folders
from .loaded_sweep import LoadedSweep, load_sweep
from .manifest import Manifest, read_manifest
from .opened import open_run
from .record.tables import RunTables
from .record.values import RecordedCell


@dataclass(frozen=True, slots=True)
class SweepPart:
    """Every `count`th problem of a sweep, from the `number`th on."""

    number: int
    """The first problem of the part, from 1 to `count`."""
    count: int

    @classmethod
    def read(cls, text: str) -> Self:
        """The part that a text such as `3/16` names. UsageError if it names none."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(f"--part {text}: a part is written as 3/16, the third of sixteen")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, file: SweepFile) -> SweepFile:
        """A sweep of this part's problems alone. UsageError if there are none."""
        if self.number > len(file.problems):
            raise UsageError(
                f"--part {self}: the sweep has {len(file.problems):,} problems, so that this part "
                f"has none; take {len(file.problems)} parts at most"
            )
        return replace(file, problems=file.problems[self.number - 1 :: self.count])


@dataclass(frozen=True, slots=True)
class PartRun:
    """The run folder of one part."""

    folder: Path
    part: SweepPart
    manifest: Manifest
    loaded: LoadedSweep


def part_runs(place: Path, own: Path | None = None) -> list[PartRun]:
    """The parts in a folder, in order, and all of them. own: as for `open_run`.

    RunFolderError, naming them, for parts that are missing, unfinished, or of several sweeps.
    """
    found: dict[int, PartRun] = {}
    for folder in run_folders(place):
        manifest = read_manifest(folder)
        if not manifest.part:
            continue
        loaded = open_run(folder, own=own)
        if manifest.code_of(loaded.sweep) is None:
            raise RunFolderError(
                f"{folder} is not of the sweep that lies in it: gather it with the version that "
                f"made it, {manifest.version}"
            )
        run = PartRun(folder, SweepPart.read(manifest.part), manifest, loaded)
        if run.part.number in found:
            raise RunFolderError(
                f"{folder} and {found[run.part.number].folder} are both part {run.part}; move one "
                "of them away"
            )
        found[run.part.number] = run
    if not found:
        raise RunFolderError(
            f"{place} holds no part of a run; they are made by oversight run --part"
        )
    runs = [found[number] for number in sorted(found)]
    for run in runs:
        _refuse_other(run, runs[0])
    missing = [n for n in range(1, runs[0].part.count + 1) if n not in found]
    if missing:
        told = ", ".join(f"{n}/{runs[0].part.count}" for n in missing[:8])
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise RunFolderError(f"{place}: part {told}{more} is not there yet; run it with --part")
    return runs


def whole_sweep(runs: Sequence[PartRun]) -> LoadedSweep:
    """The sweep of which these are the parts."""
    problems: dict[int, Problem] = {}
    for run in runs:
        for n, problem in enumerate(run.loaded.file.problems):
            problems[n * run.part.count + run.part.number - 1] = problem
    if sorted(problems) != list(range(len(problems))):
        raise RunFolderError(
            "the parts are not of one list of problems: run each of them on the same file, with "
            "the same --limit"
        )
    ordered = tuple(problems[n] for n in range(len(problems)))
    return load_sweep(replace(runs[0].loaded.file, problems=ordered))


def cells_of(run: PartRun, sweep: Sweep) -> Iterator[RecordedCell]:
    """The cells of a part, each at its place in the whole sweep. RunFolderError where some of its
    cells have no outcome."""
    part = run.loaded.sweep
    with RunTables.open(run.folder) as tables:
        if (finished := tables.count()[0]) < len(part):
            raise RunFolderError(
                f"{run.folder}: part {run.part} has {finished:,} of {len(part):,} outcomes; finish "
                "it with the command that started it"
            )
        for cell in tables.cells():
            number = cell.problem * run.part.count + run.part.number - 1
            place = sweep.span(number).start + cell.place - part.span(cell.problem).start
            yield msgspec.structs.replace(cell, place=place, problem=number)


def _refuse_other(run: PartRun, first: PartRun) -> None:
    if run.part.count != first.part.count or _settings(run) != _settings(first):
        raise RunFolderError(
            f"{run.folder} is a part of another sweep than {first.folder}: gather them apart"
        )
    if run.manifest.code.rows != first.manifest.code.rows:
        raise RunFolderError(
            f"{run.folder} was run with other code than {first.folder}: run one of them anew"
        )


def _settings(run: PartRun) -> str:
    """Equal for parts of one sweep."""
    return replace(run.loaded.sweep, problems=()).identity
