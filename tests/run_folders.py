"""Run folders and stores that a test looks into, or does something to."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from oversight.cache.disk import ReadOnlyStore
from oversight.engine.errors import RunFolderError
from oversight.engine.models.accounting.ledger import UsageTotals
from oversight.engine.models.accounting.ledger_file import LedgerFile
from oversight.engine.run.folders import Manifest, encoded, read_manifest, remember_run
from oversight.engine.run.outcome import OutcomeRecord, outcome_of
from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import CHILDREN, sealed
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import CallCost, CellEnd, RecordedCall, RecordedCell
from oversight.engine.run.run_folder import RunFolder
from oversight.engine.stop import StopToken
from oversight.engine.sweep.sweep import Cell, Sweep
from oversight.protocols.transcript import Failure, Transcript, Verdict
from tests.world import sweep

TEXT = b"# the sweep file, as written\n"
GRID = sweep(problems=4)
CELLS = list(GRID.cells())
FORMS = (*(("--format", name) for name in ("text", "markdown", "latex", "csv")), ("--json",))
"""Flags of `report`, for each form that it has."""


def folder(path: Path, grid: Sweep = GRID, text: bytes = TEXT, replace_lost: bool = False):
    manifest = Manifest(grid.identity, grid.name, len(grid), (), "0.1.0", "/store")
    return RunFolder(path, manifest, text, grid, replace_lost=replace_lost)


def end_of(cell: Cell, failed: bool = False) -> Verdict | Failure:
    if failed:
        return Failure("unreadable", f"cell {cell.place}")
    p = 1 / (cell.place + 2)
    return Verdict((p, 1 - p), Transcript(cell.problem.question))


def outcome(cell: Cell, failed: bool = False) -> bytes:
    """The line of a cell that `land` has landed."""
    return outcome_of(cell, end_of(cell, failed)).line


def ended(cell: Cell, end: CellEnd, row: int = 0) -> RecordedCell:
    """A cell with its end, and nothing that was asked in it."""
    number = next(n for n, problem in enumerate(GRID.problems) if problem.id == cell.problem.id)
    return RecordedCell(cell.place, cell.id, row, number, cell.side, cell.draw, end)


def land(into: RunFolder, cells: Sequence[Cell], failed: Sequence[int] = ()) -> None:
    for cell in cells:
        into.add([ended(cell, end_of(cell, cell.place in failed))])


def recorded(folder: Path) -> list[bytes]:
    """The recorded lines of a run, in the order of the sweep."""
    return [outcome.line for outcome in outcomes(folder)]


def recorded_so_far(folder: Path) -> list[bytes]:
    """As `recorded`; empty if a process was killed before it created the run."""
    try:
        return recorded(folder)
    except RunFolderError:
        return []


def outcomes(folder: Path) -> list[OutcomeRecord]:
    with RunReader(folder) as run:
        return list(run.outcomes())


def spoken(run: Path) -> list[bytes]:
    """The texts in each cell of a run, without usage, which may differ between equal runs."""

    def free(call: RecordedCall) -> RecordedCall:
        return structs.replace(call, cost=CallCost(call.cost.identity))

    with RunTables.open(run) as tables:
        cells = list(tables.cells())
    spoken_cells = [structs.replace(cell, calls=(*map(free, cell.calls),)) for cell in cells]
    return [msgspec.json.encode(cell, enc_hook=str) for cell in spoken_cells]


def refused(path: Path, grid: Sweep = GRID) -> str:
    with pytest.raises(RunFolderError) as fault, folder(path, grid):
        pass
    return str(fault.value)


def moved(run: Path, before: Path, place: Path) -> None:
    """Have a run that was copied from one working folder to another find its store there."""
    manifest = read_manifest(run)
    with closing(RunDatabase(run)) as database:
        renamed = structs.replace(manifest, store=manifest.store.replace(str(before), str(place)))
        database.tell("manifest", encoded(renamed))
    # Its store has another name now.
    remember_run(run, manifest.id, str(place / "store"))


def only_run(place: Path) -> Path:
    """The run folder of a working folder that has one."""
    (folder,) = (place / "runs").iterdir()
    return folder


def written(folder: Path) -> bytes:
    """The outcomes of a run."""
    return (folder / "outcomes.jsonl").read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def noted(folder: Path, **changed: object) -> None:
    """Change what the manifest of a run says."""
    with closing(RunDatabase(folder)) as database:
        manifest = structs.replace(read_manifest(folder), **changed)  # type: ignore[arg-type]
        database.tell("manifest", encoded(manifest))


def edited(folder: Path, statement: str) -> None:
    """Change cells behind the back of their run, with their checksums; its lines are gone."""
    with closing(RunDatabase(folder)) as database:
        database.db.execute(statement)
        reseal(database, "cells")
    (folder / "outcomes.jsonl").unlink(missing_ok=True)


def reseal(database: RunDatabase, table: str) -> None:
    """Give the rows of a table their checksums again."""
    for row in sealed(row[:-1] for row in database.fetched(f"SELECT * FROM {table}")):
        database.db.execute(f"REPLACE INTO {table} VALUES({','.join('?' * len(row))})", row)


def overwrite(folder: Path, cells: Sequence[RecordedCell]) -> None:
    """Record other cells at places that have one. Only tests do so."""
    with closing(RunDatabase(folder)) as database:
        places = [(cell.place,) for cell in cells]
        for table in ("cells", *CHILDREN):
            database.db.executemany(f"DELETE FROM {table} WHERE place = ?", places)
        database.write(cells)


SWAPPED = "probs = '[' || (probs -> 1) || ',' || (probs -> 0) || ']'"
"""For `UPDATE cells SET`: the other verdict on two answers."""


def cut(folder: Path, cells: int) -> None:
    """Keep the first cells, as if the run had been stopped after them."""
    edited(folder, f"DELETE FROM cells WHERE place >= {cells}")


def with_failures(folder: Path, kind: str, places: set[int]) -> bytes:
    """Replace outcomes by failures, as if a provider had been down; returns the lines before."""
    before = b"".join(recorded(folder))
    with RunTables.open(folder) as tables:
        cells = list(tables.cells(places))
    failure = Failure(kind, "for a while")
    overwrite(folder, [structs.replace(cell, outcome=failure) for cell in cells])
    (folder / "outcomes.jsonl").unlink(missing_ok=True)
    return before


def note_paid(folder: Path, accounts: Mapping[str, UsageTotals]) -> None:
    """Write a ledger into a folder, as the end of a sitting does."""

    async def written() -> None:
        async with LedgerFile(folder, lambda: accounts).kept(StopToken()):
            pass

    asyncio.run(written())


def len_of(store: Path) -> int:
    """How many replies a store holds."""
    with closing(ReadOnlyStore(store)) as reading:
        return len(reading)
