"""What has completed of a run that goes on: read once, and never other than what stands there."""

from pathlib import Path

import numpy as np
import pytest

from oversight.engine.errors import RunFolderError
from oversight.engine.pictures.completed import OutcomeTally
from oversight.engine.reports.results import collect
from oversight.engine.runs.run_folder import OUTCOMES, outcomes
from tests.run_folders import CELLS, GRID, folder, land


def same(tally: OutcomeTally, run: Path, score: str = "brier") -> None:
    """Everything that the tally tells is what a new reading of the file tells."""
    told, records = tally.completed(score), list(outcomes(run))
    fresh = collect(GRID, records, score=score, betas=(1.0,))
    assert told.results == fresh
    assert told.finished == len(records)
    assert dict(told.failures) == {each.place: each.failure for each in records if each.failure}
    probs = {each.place: each.probs for each in records if each.probs}
    assert {
        at: tuple(told.probs[at]) for at in np.flatnonzero(~np.isnan(told.probs[:, 0]))
    } == probs


def test_figures_of_a_run_that_goes_on_are_those_of_all_its_outcomes(tmp_path: Path) -> None:
    tally = OutcomeTally(tmp_path, GRID)
    with folder(tmp_path) as run:
        same(tally, tmp_path)
        for until in (1, 4, 5, len(CELLS)):
            land(run, CELLS[tally.completed("brier").finished : until], failed=[4])
            same(tally, tmp_path)
            same(tally, tmp_path, "log")
        run.settle()
        same(tally, tmp_path)
        run.forget_failures()
        same(tally, tmp_path)


def test_a_line_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    tally = OutcomeTally(tmp_path, GRID)
    with folder(tmp_path) as run:
        land(run, CELLS[:3])
        before = tally.completed("brier")
        assert tally.completed("brier") is before
        file = tmp_path / OUTCOMES
        with file.open("r+b") as lines:
            lines.write(b"#" * (file.stat().st_size - 1))
        land(run, CELLS[3:])
        after = tally.completed("brier")
    assert (before.finished, after.finished) == (3, len(CELLS))
    assert np.isnan(before.probs[3, 0]) and not np.isnan(after.probs).any()


def test_a_cell_that_stands_there_twice_is_named_by_its_line_until_it_is_mended(
    tmp_path: Path,
) -> None:
    tally, file = OutcomeTally(tmp_path, GRID), tmp_path / OUTCOMES
    with folder(tmp_path) as run:
        land(run, CELLS)
    tally.completed("brier")
    whole = file.read_bytes()
    with file.open("ab") as lines:
        lines.write(whole.splitlines(keepends=True)[0])
    for _ in range(2):
        with pytest.raises(RunFolderError, match=f"{OUTCOMES}:{len(CELLS) + 1}: cell .* twice"):
            tally.completed("brier")
    file.write_bytes(whole)
    same(tally, tmp_path)
