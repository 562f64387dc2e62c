"""However a run is carried out, its cells say the same, and its lines follow from them."""

import shutil
from pathlib import Path

import pytest

from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.schema import RUN_DB
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import RecordedCell
from oversight.protocols.transcript import Verdict
from tests.command_line import calls, run_in
from tests.run_folders import moved, recorded, spoken, written

pytestmark = pytest.mark.wire

SWEEP = """\
name: said
problems: {bundled: {name: arithmetic, limit: 4}}
agents:
  - {model: sim/strong, best_of: 3}
  - {model: sim/weak, best_of: 2, tools: calculator}
  - {model: sim/unruly, side_check: sim/judge}
judges:
  - {kind: stated, model: sim/judge}
  - {kind: votes, model: sim/judge, n: 3}
protocols: [naive_judge, debate, consultancy, market_making]
"""


def said(run: Path) -> list[bytes]:
    """The record of a run whose outcomes all follow from its cells."""
    assert b"".join(recorded(run)) == written(run)
    return spoken(run)


@pytest.fixture(scope="module")
def run_once(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("said")
    ran = run_in(place, "said.yaml", SWEEP, "--run-folder", "run")
    assert ran.code in (0, 1), ran.err
    return place


@pytest.fixture
def run(place: Path, run_once: Path) -> Path:
    shutil.copytree(run_once, place, dirs_exist_ok=True)
    moved(place / "run", run_once, place)
    return place / "run"


def test_a_run_made_again_records_the_same(run, command):
    expected = said(run)
    shutil.rmtree(run)
    again = command("run", "said.yaml", "--run-folder", "run")
    assert again.code in (0, 1) and calls(again.err).new == 0, again.err
    assert said(run) == expected


def test_lines_that_were_lost_follow_from_the_cells_without_a_call(run, command):
    before = written(run)
    (run / "outcomes.jsonl").unlink()
    ran = command("run", "said.yaml", "--run-folder", "run")
    assert ran.code in (0, 1), ran.err
    assert "already complete" in ran.err and written(run) == before


def test_a_damaged_run_is_refused_in_one_line_and_made_again_from_its_store(run, command):
    before = written(run)
    (run / RUN_DB).write_bytes((run / RUN_DB).read_bytes()[:20_000])
    ran = command("run", "said.yaml", "--run-folder", "run")
    assert ran.code == 2
    assert "run.db is damaged" in ran.err and "oversight cache rebuild run" in ran.err
    result = command("cache", "rebuild", "run")
    assert result.code == 0 and "run/run.db is damaged (" in result.err, result.err
    assert written(run) == before


@pytest.mark.parametrize("flags", [("--limit", "3", "--set", "draws=2"), ("--part", "2/2")])
def test_a_lost_run_is_made_again_without_saying_what_it_was_started_with(place, command, flags):
    (place / "said.yaml").write_text(SWEEP)
    assert command("run", "said.yaml", "--run-folder", "run", *flags).code in (0, 1)
    run = place / "run"
    before, sweep = written(run), (run / "sweep.yaml").read_bytes()
    assert sweep.startswith(SWEEP.encode())
    (run / RUN_DB).unlink()
    (run / "outcomes.jsonl").unlink()
    result = command("cache", "rebuild", "run")
    assert result.code == 0 and "run/run.db is lost\n" in result.err, result.err
    assert (written(run), (run / "sweep.yaml").read_bytes()) == (before, sweep)


def cells_of(run: Path, protocol: str) -> list[RecordedCell]:
    with RunTables.open(run) as tables:
        fetched = tables.fetched("SELECT row FROM rows WHERE protocol LIKE ? || '%'", protocol)
        rows = {row for (row,) in fetched}
        return [cell for cell in tables.cells() if cell.row in rows]


def test_candidates_their_ratings_and_the_choice_are_recorded(run):
    chosen = 0
    for cell in cells_of(run, "consultancy"):
        drafts = [call for call in cell.calls if call.role == "draft"]
        ratings = {part.about: part for part in cell.judgements if part.role == "rate"}
        if len(drafts) != 3 or not isinstance(cell.outcome, Verdict):
            continue
        assert {part.seat for part in drafts} <= {"Consultant A", "Consultant B"}
        assert {part.address for part in drafts} == set(ratings)
        (speech,) = [turn for turn in cell.outcome.transcript.turns if turn.call in ratings]
        best = max(ratings.values(), key=lambda part: part.probs[cell.side])
        assert ratings[speech.call].probs[cell.side] == best.probs[cell.side]
        chosen += 1
    assert chosen


def test_drafts_checks_and_beliefs_on_the_way_are_recorded(run):
    debates = [call for cell in cells_of(run, "debate") for call in cell.calls]
    assert {"draft", "rate", "side", "judge"} <= {call.role for call in debates}
    assert all(call.role and call.seat for call in debates)


def test_record_has_cost_and_tokens_of_each_call(run):
    with RunTables.open(run) as tables:
        cells = list(tables.cells())
    took = [call.cost for cell in cells for call in cell.calls]
    assert all(cost.origin == "new" and cost.at for cost in took)
    assert sum(cost.output_tokens for cost in took) > 0


def test_retried_failures_replace_their_record(run, command):
    failed = [record.place for record in RunReader(run).outcomes() if record.failure is not None]
    assert failed, "the unruly model fails some cells"
    expected = said(run)
    ran = command("run", "said.yaml", "--run-folder", "run", "--retry-failed")
    assert ran.code in (0, 1), ran.err
    assert said(run) == expected
