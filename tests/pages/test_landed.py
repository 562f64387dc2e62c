"""Outcomes of a run under way are read once, as they are stored, and pages keep their order."""

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from oversight.engine.analysis.reports.results import collect
from oversight.engine.analysis.rows import OutcomesRead
from oversight.engine.errors import RunFolderError
from oversight.engine.run.outcome import OutcomeRecord
from oversight.engine.run.reader import Follower, RunReader, origins
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.views.pages.links import PageQuery, ServerLinks, page_of
from oversight.engine.views.pages.strip import snapshot_of
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from tests.run_folders import CELLS, edited, end_of, ended, folder, land, outcomes
from tests.world import sweep


def same(read: OutcomesRead, run: Path, score: str = "brier") -> None:
    """The outcomes read so far equal a new reading of the file."""
    rows, records = read.rows(), list(outcomes(run))
    with RunReader(run) as reader:
        grid = reader.sweep
    results = collect(grid, records, score=score, betas=(1.0,), origins=origins(grid, run))
    assert rows.results(score, (1.0,)) == results and finished(read) == len(records)
    assert rows.table.failed == {line.place: line.failure for line in records if line.failure}
    probs = rows.table.probs
    recorded = {record.place: record.probs for record in records if record.probs}
    assert {at: tuple(probs[at]) for at in np.flatnonzero(~np.isnan(probs[:, 0]))} == recorded


def finished(read: OutcomesRead) -> int:
    return int(read.rows().table.ended.sum())


def test_figures_of_an_active_run_use_all_its_outcomes(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        read = OutcomesRead(RunReader(tmp_path))
        same(read, tmp_path)
        for until in (1, 4, 5, len(CELLS)):
            land(run, CELLS[finished(read) : until], failed=[4])
            same(read, tmp_path)
            same(read, tmp_path, "log")
        run.finalize()
        same(read, tmp_path)
        run.forget_failures()
        same(read, tmp_path)


def test_outcome_is_read_once(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        read = OutcomesRead(RunReader(tmp_path))
        land(run, CELLS[:3])
        before = read.rows()
        assert read.rows() is before
        run.database.db.execute("UPDATE cells SET probs = x'00'")
        land(run, CELLS[3:])
        after = read.rows()
    assert (before.table.ended.sum(), after.table.ended.sum()) == (3, len(CELLS))
    assert np.isnan(before.table.probs[3, 0]) and not np.isnan(after.table.probs).any()


def test_interrupted_reader_misses_no_outcome(tmp_path, monkeypatch):
    with folder(tmp_path) as run:
        land(run, CELLS)
    read, new = OutcomesRead(RunReader(tmp_path)), Follower.new

    def interrupted(self: Follower) -> Iterator[OutcomeRecord]:
        yield from islice(new(self), 3)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Follower, "new", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read.rows()
    same(read, tmp_path)


def test_cell_outside_the_sweep_is_named_until_it_is_fixed(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        land(run, CELLS)
    read = OutcomesRead(RunReader(tmp_path))
    read.rows()
    beyond = ended(structs.replace(CELLS[0], place=99), end_of(CELLS[0]))
    with closing(RunDatabase(tmp_path)) as database:
        database.write([beyond])
    for _ in range(2):
        with pytest.raises(RunFolderError, match=r"run\.db is damaged .*none of the sweep"):
            read.rows()
    edited(tmp_path, "DELETE FROM cells WHERE place = 99")
    same(read, tmp_path)


def test_sorted_outcomes_are_counted_once_and_dropped_failures_are_not(tmp_path: Path) -> None:
    def told() -> tuple[int, str]:
        now = snapshot_of(opened)
        return now["finished"], now["failed"]

    with folder(tmp_path) as run, RunReader(tmp_path) as opened:
        land(run, [CELLS[7], CELLS[0], CELLS[5]], failed=[5, 7])
        assert told() == (3, "2")
        land(run, [cell for cell in CELLS if cell.place not in (0, 5, 7)])
        run.finalize()
        assert told() == (len(CELLS), "2")
        run.forget_failures()
        assert told() == (len(CELLS) - 2, "0")


def test_problem_page_lists_worst_rows_first_and_unfinished_rows_last(tmp_path):
    grid = sweep(*(NaiveJudge(StatedJudge(f"sim/{n}")) for n in range(4)))
    with folder(tmp_path, grid) as run, RunReader(tmp_path) as opened:
        land(run, [cell for cell in grid.cells() if cell.row.judge != "sim/1 stated"])
        page = page_of("problem")(opened, ServerLinks("a"), PageQuery())
    *measured, missing = re.findall(r'<td class="num" data-value="([^"]*)"', page)
    assert len({*measured}) == 3 and measured == sorted(measured, key=float) and missing == ""


def test_neighbours_of_a_transcript_have_the_same_draw(tmp_path: Path) -> None:
    with folder(tmp_path, sweep(problems=3, draws=2)), RunReader(tmp_path) as opened:
        page = page_of("reading")(opened, ServerLinks("a"), PageQuery(problem=1, draw=1))
    steps = re.findall(r'href="([^"]*)" data-key="[jk]"', page)
    assert steps == [f"/run/a/row/0/problem/{n}?draw=1" for n in (0, 2)]
