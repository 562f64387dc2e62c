"""`oversight export --format …` and `Report.frames`: a run as tables."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import oversight
from oversight.engine.reports.frame_tables import TABLES
from oversight.engine.runs.run_folder import outcomes
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from tests.command_line import Command
from tests.run_folders import only_run
from tests.shipments import shipments


@pytest.fixture
def run(place: Path, command: Command, muddled: None) -> Path:
    """40 cells, some of which failed."""
    assert command("run", "small.yaml").code == 1
    return only_run(place)


def test_every_format_has_the_same_tables(run: Path, command: Command, place: Path) -> None:
    lines: dict[str, list[int]] = {}
    for format in ("parquet", "csv", "jsonl"):
        ran = command("export", run, "--format", format, "-o", place / format)
        assert ran.code == 0 and "40 cells" in ran.err
        for name, columns in TABLES.items():
            file = place / format / f"{name}.{format}"
            if format == "parquet":
                table = pq.read_table(file)
                head, count = table.column_names, table.num_rows
            elif format == "csv":
                with file.open(newline="") as text:
                    head, *rows = csv.reader(text)
                count = len(rows)
            else:
                told = [json.loads(line) for line in file.read_text().splitlines()]
                head, count = list(told[0]), len(told)
            assert head == list(columns), name
            lines.setdefault(name, []).append(count)
    assert all(len(set(counts)) == 1 for counts in lines.values()), lines
    assert lines["rows"] == [5] * 3 and lines["cells"] == [40] * 3


def test_cells_are_the_outcomes_with_their_axes(run: Path, command: Command, place: Path) -> None:
    assert command("export", run, "--format", "jsonl", "-o", place / "out").code == 0
    cells = [json.loads(line) for line in (place / "out/cells.jsonl").read_text().splitlines()]
    records = {record.cell: record for record in outcomes(run)}
    assert {cell["cell"] for cell in cells} == set(records)
    failed = 0
    for cell in cells:
        record = records[cell["cell"]]
        if record.failure:
            failed += 1
            assert (cell["status"], cell["failure"]) == ("failed", record.failure.kind)
            assert cell["probs"] is None
        else:
            assert cell["status"] == "ok" and cell["probs"] == list(record.probs or ())
            assert cell["p_side"] == cell["probs"][record.side]
        assert cell["calls"] >= 1 and cell["tokens_in"] > 0
        if cell["protocol"] == "debate simultaneous 1":
            assert (cell["rounds"], cell["simultaneous"], cell["best_of"]) == (1, True, 1)
            assert cell["model"] in ("sim/strong", "sim/weak")
        assert cell["judge_model"] == "sim/judge"
    assert failed > 0
    # Turns and judgements belong to cells, and every call they name is there.
    calls = {
        json.loads(line)["call"] for line in (place / "out/calls.jsonl").read_text().splitlines()
    }
    keys = {(cell["row"], cell["problem"], cell["world"], cell["draw"]) for cell in cells}
    for name in ("turns", "judgements"):
        for line in (place / f"out/{name}.jsonl").read_text().splitlines():
            told = json.loads(line)
            assert (told["row"], told["problem"], told["world"], told["draw"]) in keys
            assert told["call"] in calls


def test_cells_that_were_not_run_are_there_as_missing(
    run: Path, command: Command, place: Path
) -> None:
    kept = (run / "outcomes.jsonl").read_bytes().splitlines(keepends=True)[:30]
    (run / "outcomes.jsonl").write_bytes(b"".join(kept))
    words = ("--format", "jsonl", "-o", place / "out", "--no-replies")
    assert command("export", run, *words).code == 0
    cells = [json.loads(line) for line in (place / "out/cells.jsonl").read_text().splitlines()]
    assert len(cells) == 40
    assert sum(cell["status"] == "missing" for cell in cells) == 10
    assert not (place / "out/turns.jsonl").exists()
    refused = command("export", run, "--no-replies")
    assert (refused.code, "--no-replies is for tables" in refused.err) == (2, True)


def test_python_has_them_as_arrow_tables(tmp_path: Path) -> None:
    judge = StatedJudge("sim/judge")
    report = oversight.run(
        [NaiveJudge(judge), Propaganda(judge, Agent("sim/strong"))],
        shipments(3),
        store=tmp_path / "store",
        folder=tmp_path / "run",
        quiet=True,
    )
    frames = report.frames()
    assert list(frames) == list(TABLES)
    assert frames["cells"].num_rows == 12 and frames["rows"].num_rows == 2
    assert frames["rows"].column("asd").to_pylist() == pytest.approx(
        [row.asd.mean for row in report.results.rows if row.asd]
    )
    assert frames["turns"].num_rows == 6
    about = frames["cells"].schema.metadata
    assert about[b"identity"] == report.opened.sweep.identity.encode()
