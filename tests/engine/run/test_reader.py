"""A run folder is data: it can be read without its code, store or machine, and no name in it is
executed, connected to or waited for."""

import dataclasses
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from oversight.cache.disk import ReadOnlyStore
from oversight.cache.errors import StoreError
from oversight.cache.sqlite import STEPS, open_untrusted
from oversight.engine.errors import RunFolderError
from oversight.engine.run.reader import (
    Place,
    RunReader,
)
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import RUN_DB
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.scores import applicable
from tests.command_line import Command
from tests.own_protocol import STEEL
from tests.run_folders import noted
from tests.world import THREE, shipment, sweep

SWEEP = """\
name: own
problems: {bundled: {name: arithmetic, limit: 6}}
agents: [sim/strong]
judges: {kind: stated, model: sim/judge}
protocols: [naive_judge, {propaganda: {}}, {"steel.py:Steelman": {strength: 3}}]
draws: 2
"""
READING: tuple[tuple[str, ...], ...] = (
    ("report", "run", "--json", "--measures"), ("compare", "run", "--json"),
    ("export", "plot", "run", "--kind", "lift", "--data", "-"),
    ("export", "plot", "run", "--kind", "frontier", "--data", "-"),
    ("measure", "frontier", "run", "--json"), ("show", "run", "--json"),
    ("show", "run", "--search", "nats weight", "--json"),
    ("export", "tables", "run", "--format", "jsonl", "-o", "frames"),
    ("view", "run", "--write", "site"),
)  # fmt: skip
"""Every command that reads a run."""


@pytest.fixture
def run(place: Path, command: Command) -> Path:
    """The finished run of a sweep with a protocol of the user's own."""
    (place / "steel.py").write_text(STEEL)
    (place / "own.yaml").write_text(SWEEP)
    ran = command("run", "own.yaml", "--run-folder", "run")
    assert ran.code == 0, ran.err
    (place / "executed").unlink()
    return place / "run"


def read_all(command: Command, run: str = "run") -> list[str]:
    outputs = []
    for words in READING:
        result = command(*(run if word == "run" else word for word in words))
        assert result.code == 0, f"{words}: {result.err}"
        outputs.append(result.out)
    return outputs


@pytest.mark.wire
def test_run_reads_the_same_whatever_becomes_of_code_and_machine(run, place, command, monkeypatch):
    before = read_all(command)
    steel = place / "steel.py"
    steel.write_text(STEEL.replace("strength: int = 2", "vigour: int = 2"))
    assert read_all(command) == before
    steel.unlink()
    assert read_all(command) == before
    folder = place / "elsewhere"
    folder.mkdir()
    shutil.move(run, folder)
    shutil.rmtree(place / "store", ignore_errors=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("OVERSIGHT_STORE", str(folder / "none"))
    assert read_all(command, "elsewhere/run") == before and not list(place.rglob("executed"))


def test_links_pipes_and_false_claims_are_refused_by_name(run, place):
    (place / "secret").write_text("secret")
    content = (run / RUN_DB).read_bytes()
    for make in (lambda f: f.symlink_to(place / "secret"), os.mkfifo):
        (run / RUN_DB).unlink()
        make(run / RUN_DB)
        with pytest.raises(RunFolderError, match=RUN_DB):
            _ = RunReader(run).sweep
    (run / RUN_DB).unlink()
    (run / RUN_DB).write_bytes(content)
    with RunReader(run) as reader:
        grid, cells = json.loads(reader.tables.told("grid")), reader.manifest.cells

    def claimed(cells: int, **changed: object) -> None:
        noted(run, cells=cells)
        with closing(RunDatabase(run)) as database:
            database.tell("grid", json.dumps(grid | changed).encode())

    claimed(72 * 10**9, draws=2 * 10**9)
    with pytest.raises(RunFolderError, match="at most 50,000,000"):
        _ = RunReader(run).sweep
    claimed(cells, format=9)
    with pytest.raises(RunFolderError, match="format 9"):
        _ = RunReader(run).sweep


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


@pytest.mark.parametrize("name", ["cells", "calls", "meta", "sqlite_stat1"])
def test_a_view_for_a_table_of_a_run_is_refused(name, finished):
    with closing(sqlite3.connect(finished.folder / RUN_DB)) as db, db:
        db.execute(f"DROP TABLE IF EXISTS {name}")
        if name.startswith("sqlite"):
            db.execute("CREATE TABLE more AS SELECT 1")
        else:
            db.execute(f"CREATE VIEW {name} AS {ENDLESS}")
    with pytest.raises(RunFolderError, match="is not the database of a run"):
        _ = RunReader(finished.folder).tables


def test_a_view_for_the_replies_of_a_store_is_refused(place, finished):
    with closing(sqlite3.connect(place / "store" / "cache.db")) as db, db:
        db.execute("DROP TABLE Cache")
        db.execute(f"CREATE VIEW Cache AS {ENDLESS}")
    with pytest.raises(StoreError, match="is not a store"):
        ReadOnlyStore(place / "store")


@pytest.mark.wire
def test_a_statement_without_end_is_cut_off_and_one_over_a_large_file_is_not(tmp_path):
    with closing(open_untrusted(tmp_path / "db", "mode=rwc")) as db:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            db.execute(f"SELECT count(*) FROM ({ENDLESS})").fetchone()
        db.execute("CREATE TABLE t(x)")
        db.execute(f"INSERT INTO t SELECT zeroblob(500000) FROM ({ENDLESS} LIMIT 4)")
        longer = f"SELECT count(*) FROM ({ENDLESS} LIMIT {STEPS // 5})"
        assert db.execute(longer).fetchone() == (STEPS // 5,)


def test_a_run_that_cannot_be_read_hides_no_other_in_a_report_of_several(finished, command):
    shutil.copytree(finished.folder, "bad")
    (Path("bad") / RUN_DB).write_bytes(b"PK\3\4" * 40)
    ran = command("report", "bad", finished.folder)
    assert ran.code == 1 and ran.err.startswith(f"· bad/{RUN_DB} is not the database of a run")
    alone = command("report", "bad", "bad")
    assert finished.folder.name in ran.out and (alone.code, alone.out) == (2, "")


def test_listing_replies_of_a_run_reports_a_lost_call(finished):
    with RunReader(finished.folder) as run:
        assert run.keys()
    with closing(sqlite3.connect(finished.folder / RUN_DB)) as db, db:
        db.execute("UPDATE calls SET call = 1000 WHERE call = 1")
    with RunReader(finished.folder) as run, pytest.raises(RunFolderError, match="call 1 is miss"):
        run.keys()


def test_place_of_a_cell_and_its_row_problem_draw_and_side_follow_from_each_other():
    """With problems of two and of three answers."""
    grid = sweep(NaiveJudge(StatedJudge("sim/a")), NaiveJudge(StatedJudge("sim/b")), draws=3)
    grid = dataclasses.replace(grid, problems=(shipment(0), THREE, shipment(1)))
    reader = RunReader(Path("none"))
    reader.__dict__ |= {"sweep": grid, "problems": grid.problems}
    for cell in grid.cells():
        at = Place(grid.rows.index(cell.row), grid.problems.index(cell.problem), cell.draw)
        assert reader.where(cell.place) == (at, cell.side)
        assert reader.worlds(at)[cell.side] == cell.place
        assert len(reader.worlds(at)) == len(cell.problem.values)
    assert reader.scores == tuple(applicable(3)) != tuple(applicable(2))
