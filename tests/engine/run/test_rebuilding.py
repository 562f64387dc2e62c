"""A run whose record names the wrong model: every reader says so, and a rebuild repairs it."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import EARLIER, sealed
from tests.run_folders import everything, written

pytestmark = pytest.mark.wire

READERS = (
    "report RUN",
    "show RUN",
    "status RUN",
    "compare RUN",
    "replay RUN",
    "measure frontier RUN",
    "measure calibration RUN",
    "view RUN --write pages",
    "export tables RUN -o tables",
    "export pack RUN -o run.oversight",
    "export plot RUN --kind asd -o asd.pdf",
    "cache export RUN",
    "run small.yaml",
    "run small.yaml --run-folder RUN",
)


def renumbered(folder: Path) -> None:
    """Name the model of one endpoint for the calls of another, as an earlier version did."""
    with closing(RunDatabase(folder)) as database:
        first, *others = database.table("endpoints")
        model = next(row[1] for row in others if row[1] != first[1])
        row = sealed((first[0], model, *first[2:]))
        marks = ",".join("?" * len(row))
        database.db.execute(f"REPLACE INTO endpoints VALUES({marks})", row)


def of_the_format_before(folder: Path) -> None:
    with closing(RunDatabase(folder)) as database:
        database.db.execute(f"PRAGMA user_version={EARLIER}")


def recorded(folder: Path) -> list[Any]:
    """The record of each cell without the times and origins of replies."""
    with RunReader(folder) as run:
        return [
            structs.replace(
                cell,
                calls=tuple(
                    structs.replace(call, cost=structs.replace(call.cost, at=None, origin="new"))
                    for call in cell.calls
                ),
            )
            for cell in run.tables.cells()
        ]


@pytest.mark.known_truth
@pytest.mark.parametrize("damaged", [True, False])
def test_run_of_the_earlier_format_is_named_and_rebuilt(damaged, place, command, finished):
    run = finished.folder
    before, lines = recorded(run), written(run)
    if damaged:
        renumbered(run)
    of_the_format_before(run)
    files = everything(run)
    for words in READERS:
        ran = command(*words.replace("RUN", str(run)).split())
        assert ran.code == 2, (words, ran.err)
        assert "was written by an earlier version, which may name the wrong model" in ran.err
        assert f"oversight cache rebuild {run.relative_to(place)} --sweep FILE" in ran.err.replace(
            f"{place}/", ""
        )
    assert "was written by an earlier version" in command("status").err
    assert everything(run) == files
    rebuilt = command("cache", "rebuild", run, "--sweep", "small.yaml")
    assert rebuilt.code == 0, rebuilt.err
    assert "run.db was written by an earlier version" in rebuilt.err
    assert (" calls that differ from their replies: cell " in rebuilt.err) == damaged
    assert (", model: 'sim/strong' recorded, 'sim/judge' in its reply" in rebuilt.err) == damaged
    assert recorded(run) == before and written(run) == lines
    assert command("replay", run).code == command("report", run).code == 0
    assert (run / "damaged-run.db").exists()


def test_record_that_differs_from_its_replies_is_rebuilt(place, command, finished):
    run = finished.folder
    intact = command("cache", "rebuild", run)
    assert (
        intact.code == 2
        and "needs no rebuild: it is intact" in intact.err
        and "not in the store" not in intact.err
    )
    before = recorded(run)
    renumbered(run)
    assert command("report", run).code == 0 and command("replay", run).code == 1
    rebuilt = command("cache", "rebuild", run)
    assert rebuilt.code == 0 and "calls that differ from their replies: cell " in rebuilt.err
    assert recorded(run) == before
    assert command("cache", "rebuild", run).code == 2
