"""A run of an earlier format, or one that names the wrong model: it is named, and rebuilt."""

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from oversight.engine.run.events import add_event
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import RUN_DB, sealed
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import RecordedCell
from tests.run_folders import everything, noted, written

pytestmark = pytest.mark.wire

READERS = """\
report RUN
show RUN
status RUN
compare RUN
replay RUN
measure frontier RUN
measure calibration RUN
view RUN --write pages
export tables RUN -o tables
export pack RUN -o run.oversight
export plot RUN --kind asd -o asd.pdf
cache export RUN
run small.yaml
run small.yaml --run-folder RUN
"""


def spoil(folder: Path) -> None:
    """Give one endpoint the model of another."""
    with closing(RunDatabase(folder)) as database:
        first, *others = database.table("endpoints")
        model = next(row[1] for row in others if row[1] != first[1])
        (row,) = sealed([(first[0], model, *first[2:])])
        database.db.execute(f"REPLACE INTO endpoints VALUES({'?,' * 7}?)", row)


def make_earlier(folder: Path, version: int) -> None:
    """Replace the database of `small.yaml` by one that the code of commit 02c07fda wrote."""
    packed = Path(__file__).with_name("run-of-format-3.db.xz").read_bytes()
    (folder / RUN_DB).write_bytes(lzma.decompress(packed))
    with closing(sqlite3.connect(folder / RUN_DB)) as db, db:
        db.execute(f"PRAGMA user_version={version}")


def recorded(folder: Path) -> list[RecordedCell]:
    """Each cell without the times and origins of its replies."""
    with RunTables.open(folder) as tables:
        cells = list(tables.cells())
    calls = [
        tuple(
            structs.replace(call, cost=structs.replace(call.cost, at=None, origin="new"))
            for call in cell.calls
        )
        for cell in cells
    ]
    return [structs.replace(cell, calls=new) for cell, new in zip(cells, calls, strict=True)]


@pytest.mark.known_truth
@pytest.mark.parametrize("version", [3, 4])
def test_run_of_an_earlier_format_is_named_and_rebuilt(version, place, command, finished):
    run = finished.folder
    before, lines = recorded(run), written(run)
    add_event(run, "probes", 1)
    make_earlier(run, version)
    files = everything(run)
    for words in READERS.splitlines():
        ran = command(*words.replace("RUN", str(run)).split())
        assert ran.code == 2, (words, ran.err)
        assert f"was written by an earlier version (format {version})" in ran.err
        assert f"oversight cache rebuild {run} --sweep FILE" in ran.err.replace(
            " runs/", f" {place}/runs/"
        )
    assert "was written by an earlier version" in command("status").err and everything(run) == files
    refused = command("cache", "rebuild", run, "--sweep", "small.yaml")
    assert refused.code == 2 and "If it is yours: --store ~/.cache/oversight" in refused.err
    rebuilt = command("cache", "rebuild", run, "--sweep", "small.yaml", "--store", "store")
    assert rebuilt.code == 0 and "run.db was written by an earlier version" in rebuilt.err
    assert recorded(run) == before and written(run) == lines
    assert (run / "events.jsonl").read_bytes() == files[str(run / "events.jsonl")]
    assert command("replay", run).code == 0 and (run / "damaged-run.db").exists()


def test_a_store_that_only_a_folder_names_is_not_opened(command, finished):
    spoil(finished.folder)
    noted(finished.folder, store="postgresql://127.0.0.1:9/x")
    refused = command("cache", "rebuild", finished.folder)
    assert refused.code == 2 and "--store postgresql://127.0.0.1:9/x" in refused.err


def test_record_that_differs_from_its_replies_is_rebuilt(command, finished):
    run, before = finished.folder, recorded(finished.folder)
    intact = command("cache", "rebuild", run)
    assert intact.code == 2 and "run.db needs no rebuild: it is intact, and " in intact.err
    assert "not found in the store" not in intact.err
    spoil(run)
    assert (command("report", run).code, command("replay", run).code) == (0, 1)
    rebuilt = command("cache", "rebuild", run)
    assert rebuilt.code == 0 and "calls that differ from their replies: cell " in rebuilt.err
    assert recorded(run) == before
