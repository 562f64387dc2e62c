"""`oversight export tables` and `Report.frames`: a run as tables."""

import csv
import json
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copytree
from statistics import fmean, pstdev
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
from msgspec import structs

import oversight
from oversight.engine.analysis.reports import frame_files
from oversight.engine.analysis.reports.frame_files import arrow_frames, write_frames
from oversight.engine.analysis.reports.frames import (
    DECLARED,
    TABLES,
    FrameReader,
    FrameSource,
    Kind,
)
from oversight.engine.analysis.reports.side_by_side import as_plain
from oversight.engine.models.accounting.prices import listed
from oversight.engine.run.lookup import worlds_of
from oversight.engine.run.reader import RunReader, recorded
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import RunDamaged
from oversight.engine.views.pages.transcript_view import read
from oversight.protocols import Agent, BestOf, OpenTrust, SideCheck, StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from tests.command_line import Command
from tests.disks import disk
from tests.engine.kept_runs import Kept, muddled
from tests.run_folders import cut
from tests.world import shipments


def source(run: Path) -> FrameSource:
    return FrameSource(RunReader(run), listed(), requests=partial(recorded, run, None))


@pytest.fixture
def run(runs: Kept) -> Path:
    """40 cells, some of which failed."""
    return runs(muddled(0.3))


@pytest.mark.wire
def test_every_format_has_the_same_tables(run: Path, command: Command, place: Path) -> None:
    assert command("show", run, "--note", "so it is").code == 0
    lines: dict[str, list[int]] = {}
    for format in ("parquet", "csv", "jsonl"):
        ran = command("export", "tables", run, "--format", format, "-o", place / format)
        assert ran.code == 0 and "40 cells" in ran.err
        for name, columns in TABLES.items():
            file = place / format / f"{name}.{format}"
            if format == "parquet":
                table = pq.read_table(file)
                texts = [field.metadata[b"about"].decode() for field in table.schema]
                assert texts == [column.sentence for column in columns.values()]
                head, count = table.column_names, table.num_rows
            elif format == "csv":
                with file.open(newline="") as text:
                    head, *rows = csv.reader(text)
                count = len(rows)
            else:
                texts = [json.loads(line) for line in file.read_text().splitlines()]
                head, count = list(texts[0]), len(texts)
            assert head == list(columns), name
            lines.setdefault(name, []).append(count)
    assert all(len(set(counts)) == 1 for counts in lines.values()), lines
    assert lines["rows"] == [5] * 3 and lines["cells"] == [40] * 3


def test_a_failed_world_has_the_same_turns_in_tables_show_and_page(run: Path, command: Command):
    with RunReader(run) as reader:
        lines = FrameReader(FrameSource(reader, listed()), None).problems(range(4))["turns"]
        failed = [at for at, record in reader.records(range(40)).items() if record.failure]
        spoken = 0
        for at in failed:
            place, side = reader.where(at)
            row, problem = reader.sweep.rows[place.row], reader.problems[place.problem]
            label = problem.question.answers[side].label
            texts = [line[7] for line in lines if line[:3] == (place.row, problem.id, label)]
            plain = as_plain(row, problem, worlds_of(reader, place), "brier")["worlds"][label]
            page = read(reader, place).worlds[side]
            assert texts == [turn.text for turn in plain["turns"]]
            assert texts == [line.turn.text for line in page.turns]
            assert plain["failure"] == page.failure
            spoken += len(texts)
        text = command("show", run, reader.records([at])[at].cell).out
    assert failed and spoken > len(failed)
    assert text.index(texts[0].split()[0]) < text.index("failed (unreadable): ")


def test_cells_that_were_not_run_are_there_as_missing(run: Path, command: Command, place: Path):
    part = Path(copytree(run, place / "part"))
    cut(part, 30)
    words = ("--format", "jsonl", "-o", place / "out", "--no-replies")
    assert command("export", "tables", part, *words).code == 0
    cells = [json.loads(line) for line in (place / "out/cells.jsonl").read_text().splitlines()]
    assert len(cells) == 40 and sum(cell["status"] == "missing" for cell in cells) == 10
    assert not (place / "out/turns.jsonl").exists()


@pytest.mark.wire
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_full_disk_leaves_no_new_table_and_keeps_the_old_ones(run, command, place, format):
    words = ("export", "tables", run, "--format", format, "-o", "small/tables")
    with disk(place / "small") as small:
        assert command(*words).code == 0
        before = {file.name: file.read_bytes() for file in (place / "small/tables").iterdir()}
        small.leave(4096)
        full = command(*words)
        assert full.code == 3 and "cannot be written" in full.err, full.err
        after = {file.name: file.read_bytes() for file in (place / "small/tables").iterdir()}
        assert after == before


def test_a_run_that_is_damaged_is_said_to_be(run: Path, place: Path) -> None:
    copy = Path(copytree(run, place / "own"))
    with closing(RunDatabase(copy)) as database:
        database.db.execute("UPDATE turns SET text = 'other'")
    with pytest.raises(RunDamaged, match=r"run\.db is damaged"):
        write_frames(source(copy), place, "jsonl")


def test_python_has_them_as_arrow_tables(tmp_path: Path) -> None:
    judge = StatedJudge("sim/judge")
    agent = SideCheck(BestOf(2, Agent("sim/strong"), judge), judge)
    report = oversight.run(
        [NaiveJudge(judge), Propaganda(judge, agent), OpenTrust(judge, Agent("sim/strong"))],
        shipments(3),
        store=tmp_path / "store",
        folder=tmp_path / "run",
        quiet=True,
    )
    frames = report.frames()
    assert list(frames) == list(TABLES)
    assert frames["cells"].num_rows == 18 and frames["rows"].num_rows == 3
    measures = frames["cells"].column("measures").to_pylist()
    assert {key for one in measures if one for key in json.loads(one)} == {"chose"}
    assert frames["rows"].column("asd").to_pylist() == pytest.approx(
        [row.asd.value for row in report.results.rows if row.asd]
    )
    assert frames["rows"].column("asd_std").to_pylist() == pytest.approx(
        [row.samples.asd.values.std() for row in report.results.rows if row.samples.asd]
    )
    assert frames["rows"].column("best_of").to_pylist() == [None, 2, 1]
    assert frames["turns"].num_rows == 6
    assert frames["cells"].schema.metadata[b"identity"] == report.reader.manifest.identity.encode()


def test_the_size_of_a_part_changes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also if problems of different parts share a call."""
    problems = [*shipments(2), structs.replace(shipments(1)[0], id="copy")]
    folders = {"store": tmp_path / "store", "folder": tmp_path / "run"}
    report = oversight.run([NaiveJudge(StatedJudge("sim/judge"))], problems, quiet=True, **folders)
    whole = {name: table.to_pylist() for name, table in report.frames().items()}
    assert (len(whole["cells"]), len(whole["calls"])) == (6, 2)
    monkeypatch.setattr(frame_files, "CHUNK", 1)
    assert {name: table.to_pylist() for name, table in report.frames().items()} == whole


def test_every_column_has_a_kind_a_sentence_and_one_meaning() -> None:
    meanings: dict[str, object] = {}
    for name, columns in TABLES.items():
        assert DECLARED["about"][name].endswith(".")
        for column, kind in columns.items():
            assert kind.kind in get_args(Kind) and kind.sentence[-1] == ".", (name, column)
            assert meanings.setdefault(column, kind) == kind, f"{column} has two meanings"
    assert not set(meanings) & {*TABLES, "captured", "outcome", "forged"}


def test_rows_follow_from_their_cells(run: Path) -> None:
    """Recomputed with plain arithmetic from the other tables, failed cells included."""
    frames = {n: t.to_pylist() for n, t in arrow_frames(source(run)).items()}
    by_row: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for cell in frames["cells"]:
        by_row.setdefault(cell["row"], {}).setdefault(cell["problem"], []).append(cell)
    for row in frames["rows"]:
        problems = by_row[row["row"]].values()
        cells = [cell for some in problems for cell in some]
        assert row["n_cells"] == len(cells)
        assert row["failed_cells"] == sum(cell["status"] == "failed" for cell in cells)
        assert row["missing_cells"] == sum(cell["status"] == "missing" for cell in cells)
        counted = [some for some in problems if some[0]["judge_right"] is not None]
        assert row["n"] == len(counted)
        assert row["imputed"] == sum(any(c["status"] == "failed" for c in some) for some in counted)
        if row["verdict"] == "not measured":
            assert row["asd"] is row["accuracy"] is row["lift"] is None
            continue
        right = [fmean(cell["judge_right"] for cell in some) for some in counted]
        assert row["accuracy"] == pytest.approx(fmean(right))
        asd = [
            sum((1 if c["best"] else -1) * (-2.0 if c["agent_brier"] is None else c["agent_brier"])
                for c in some)
            for some in counted
        ]  # fmt: skip
        assert row["asd"] == pytest.approx(fmean(asd))
        assert row["asd_std"] == pytest.approx(pstdev(asd))
        # A failed world gives the argued answer probability 0.
        beliefs = [[(c["p_side"] or 0.0, c["best"]) for c in some] for some in counted]
        own = [fmean(-2 * (1 - p) ** 2 for p, _ in worlds) for worlds in beliefs]
        truth = [
            fmean(-2 * (1 - p if best else p) ** 2 for p, best in worlds) for worlds in beliefs
        ]
        assert row["eas_inf"] == pytest.approx(fmean(own))
        assert row["jse_inf"] == pytest.approx(fmean(truth))
        if truths := [c["label_probability"] for c in cells if c["best"] and c["probs"]]:
            assert row["label_probability_truth"] in (None, pytest.approx(fmean(truths)))
    calls = {call["call"]: call for call in frames["calls"]}
    for cell in frames["cells"]:
        if cell["probs"]:
            likeliest = max(cell["probs"])
            share = cell["probs"].count(likeliest)
            assert cell["agent_accuracy"] == (cell["p_side"] == likeliest) / share
            assert cell["judge_right"] == pytest.approx((cell["p_best"] == likeliest) / share)
    spoken = {turn["call"] for turn in frames["turns"]} - {None}
    assert spoken <= set(calls)
    assert {call["reply_outcome"] for call in calls.values()} <= {"ok", "refused"}
