"""The grid of a run folder without `grid.json`, as version 0.1 made them. No code is imported."""

from pathlib import Path

from ...protocols.question import Problem
from ..errors import RunFolderError, UsageError
from ..sweeps.document import Document
from ..sweeps.grid import MAX_CELLS, NAIVE_JUDGE, Grid, GridRow
from ..sweeps.in_python import PYTHON_MARK, read_python_sweep
from ..sweeps.sweepfile import SweepFile, checked_sweep
from .manifest import Manifest
from .outcome import OutcomeRecord
from .run_folder import SWEEP, outcomes


def older_grid(folder: Path, problems: tuple[Problem, ...], manifest: Manifest) -> Grid:
    """The grid of a run folder that has none: from its sweep file if all that this names is built
    in, else from the names in its outcomes. RunFolderError where these do not tell the rows."""
    try:
        grid = _inert_sweep(folder, problems, manifest).sweep({})
        if grid.size == manifest.cells:
            return grid
    except (UsageError, RunFolderError, ValueError):
        pass
    return _named_in_outcomes(folder, problems, manifest)


def _inert_sweep(folder: Path, problems: tuple[Problem, ...], manifest: Manifest) -> SweepFile:
    """The sweep of a run folder from its file, made of built-in parts alone: UsageError or
    RunFolderError where it names code of the user's, or reads a file."""
    document = Document.read(folder / SWEEP)
    if document.text.startswith(PYTHON_MARK):
        return read_python_sweep(document.text, problems)
    document.inert = "a run is read as data"
    for assignment in manifest.overrides:
        document.set(assignment)
    document.value.setdefault("name", manifest.name)
    return checked_sweep(document, folder / SWEEP, problems, manifest.prompt_sets)


def _named_in_outcomes(folder: Path, problems: tuple[Problem, ...], manifest: Manifest) -> Grid:
    """The grid as far as outcomes tell it: names of rows, and the number of draws."""
    draws = 1 + max((record.draw for record in outcomes(folder)), default=0)
    cells = sum(len(problem.values) for problem in problems) * draws
    count, rest = divmod(manifest.cells, cells) if cells else (0, 1)
    if rest or not 0 < count <= MAX_CELLS:
        raise RunFolderError(
            f"{folder} was made by version {manifest.version} with code of the user's own, "
            "and too little of it has been run to tell its rows: finish it with that version"
        )
    rows = [GridRow(f"row {n + 1}", "", "", "", {}) for n in range(count)]
    grid = Grid(manifest.name, problems, rows, draws)
    for record in outcomes(folder):
        if 0 <= record.place < grid.size:
            rows[grid.row_at(record.place)] = _named(record)
    return Grid(manifest.name, problems, tuple(rows), draws)


def _named(record: OutcomeRecord) -> GridRow:
    naive = (NAIVE_JUDGE,) if record.protocol.startswith("naive judge") else ()
    return GridRow(record.protocol, record.agent, record.judge, record.protocol, {}, lineage=naive)
