"""What can be had of a run again: its report, its worlds, its replay."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oversight.cache.disk import ReadOnlyStore
from oversight.engine.analysis.reports.formats import FORMATS
from tests.command_line import ROOT, Command
from tests.disks import read_only
from tests.engine.conftest import Finished
from tests.run_folders import (
    SWAPPED,
    cut,
    edited,
    everything,
    only_run,
    outcomes,
    with_failures,
)

Spoil = Callable[[bytes], bytes]

# Reading a run.


@pytest.mark.parametrize("format", list(FORMATS))
def test_a_report_can_be_had_again_in_every_format(
    command: Command, finished: Finished, format: str
) -> None:
    words = ("--json",) if format == "json" else ("--format", format)
    ran, folder = command("run", "small.yaml", *words), finished.folder
    assert command("report", folder, *words) == (0, ran.out, "")
    ending = {"text": "txt", "markdown": "md", "latex": "tex"}.get(format, format)
    assert (folder / "report" / f"report.{ending}").read_text() == ran.out
    assert "\x1b" not in ran.out


def test_a_report_of_an_unfinished_run_says_so(command: Command, finished: Finished) -> None:
    folder = finished.folder
    cut(folder, 25)
    ran = command("report", folder)
    assert ran.code == 0
    assert "15 cells have not been run yet: these figures will change." in ran.out
    assert command("report", folder, "--beta", "0.5", "--beta", "inf").out.count("β=") == 4
    assert command("report", folder, "--beta", "nan").code == 2
    assert json.loads(command("report", folder, "--json", "--score", "log").out)["score"] == "log"


@pytest.mark.parametrize("words", [("report",), ("replay",)])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("problem = problem + 900", "IndexError"),
        ("probs = x'0000000000001c4000000000000018c0'", "[7.0, -6.0] are no probabilities"),
        ("place = place + 900", "is none of th"),
    ],
    ids=["no problem", "impossible", "beyond the sweep"],
)
def test_outcomes_that_cannot_be_are_told_and_never_scored(
    command: Command, finished: Finished, words: tuple[str, ...], change: str, told: str
) -> None:
    folder = finished.folder
    edited(folder, f"UPDATE cells SET {change} WHERE place = 1")
    ran = command(*words, folder)
    assert (ran.code, ran.out) == (2, "")
    assert f"{folder / 'run.db'} is damaged" in ran.err and told in ran.err


def test_what_was_measured_is_told_where_it_is_asked_for(place: Path, command: Command) -> None:
    small = (place / "small.yaml").read_text()
    (place / "steps.yaml").write_text(f"{small}  doubly_efficient_debate:\n")
    ran = command("run", "steps.yaml", "--limit", "1")
    folder = only_run(place)
    asked = command("report", folder, "--measures").out
    table = asked.partition("measures: means by what the agent argued for")[2]
    rows = [line for line in table.splitlines() if " accepted " in line]
    assert len(rows) == 2, "one an agent"
    assert "accepted" not in ran.out
    assert asked.startswith(ran.out.strip())
    told = json.loads(command("report", folder, "--json").out)["rows"]
    assert [sorted(row["measures"]) for row in told if row["measures"]] == [
        ["accepted", "asked_again", "challenged", "queries", "steps"]
    ] * 2


def test_status_tells_how_far_a_run_is(place: Path, command: Command, finished: Finished) -> None:
    folder = finished.folder
    assert command("status", folder) == (
        0,
        "small: 40/40 cells (100%), 0 failed\nno process is running it\n",
        "",
    )
    cut(folder, 39)
    told = json.loads(command("status", folder, "--json").out)
    assert (told["name"], told["cells"], told["finished"], told["failed"], told["running"]) == (
        "small",
        40,
        39,
        0,
        None,
    )
    assert Path(told["store"]) == place / "store"


def test_both_worlds_of_a_problem_are_shown_side_by_side(
    command: Command, finished: Finished
) -> None:
    folder = finished.folder
    ran = command("show", folder, "apples-and-crates", "--protocol", "debate", "--agent", "strong")
    assert ran.code == 0
    assert "apples-and-crates · debate simultaneous 1 · agent sim/strong · judge" in ran.out
    assert "world A: the agent argues (A)" in ran.out
    assert "world B: the agent argues (B)" in ran.out
    assert ran.out.count("agent score (brier) ") == 2
    assert re.search(r"ASD for the truth \(brier\): [+-]\d\.\d\d", ran.out)
    assert ran.err == ""
    wide = command("show", folder)
    assert "4 more rows fit: " in wide.err


def test_what_is_shown_is_what_the_outcomes_rest_on(place: Path, command: Command) -> None:
    command("run", "small.yaml", "--set", "draws=2", "--limit", "2")
    folder = only_run(place)
    addresses = set()
    with_store = ReadOnlyStore(place / "store")
    for record in outcomes(folder):
        if record.protocol != "debate simultaneous 1" or record.agent != "sim/weak":
            continue
        told = json.loads(command("show", folder, record.cell, "--json").out)
        assert (told["problem"], told["protocol"]) == (record.problem, record.protocol)
        world = list(told["worlds"].values())[record.side]
        assert tuple(world["probs"]) == record.probs
        assert [turn["speaker"] for turn in world["turns"]] == ["Debater A", "Debater B"]
        addresses |= {turn["call"] for turn in world["turns"]}
    assert all(list(with_store.keys(address)) for address in addresses)
    assert len(addresses) == 2 * 2 * 2, "each problem and each draw has speeches of its own"
    with_store.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "'nonsense' is neither a problem nor a cell of"),
        (("--protocol", "dabate"), "no row of"),
        (("--draw", "1"), "--draw 1: "),
    ],
)
def test_what_cannot_be_shown_is_told(
    command: Command, finished: Finished, words: tuple[str, ...], message: str
) -> None:
    ran = command("show", finished.folder, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.wire
def test_a_report_that_nobody_reads_to_its_end_is_no_error(place: Path, command: Command) -> None:
    command("run", "small.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "oversight.engine", "report", str(only_run(place))],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


# Replays.


@pytest.mark.wire
def test_a_replay_is_equal_to_the_byte_also_where_nothing_can_be_written(
    place: Path, command: Command, finished: Finished
) -> None:
    ran, folder = finished.told, finished.folder
    before = everything(place)
    with read_only(folder), read_only(place / "store"):
        replay = command("replay", folder)
        shown = command("show", folder)
        report = command("report", folder)
    assert (replay.code, replay.out) == (0, ran.out)
    assert "40 of 40 outcomes are equal to the byte" in replay.err
    assert (shown.code, report.code) == (0, 0)
    assert everything(place) == before


def test_a_run_is_exported_the_same_each_time_and_replayed_from_the_file_alone(
    place: Path, command: Command, finished: Finished
) -> None:
    ran, folder = finished.told, finished.folder
    command("run", "small.yaml", "--set", "agents.words=20", "--run-folder", "other")
    command("cache", "export", folder)
    command("cache", "export", folder, "-o", "second.bundle")
    bundle = folder / "replies.bundle"
    assert bundle.read_bytes() == Path("second.bundle").read_bytes()
    elsewhere = place / "elsewhere"
    shutil.move(folder, elsewhere)
    shutil.rmtree(place / "store")
    replay = command("replay", elsewhere, "--store", elsewhere / "replies.bundle")
    assert (replay.code, replay.out) == (0, ran.out)
    assert "40 of 40 outcomes are equal to the byte" in replay.err
    assert command("replay", elsewhere).out == ran.out
    bundle = elsewhere / "replies.bundle"
    bundle.unlink()
    without = command("replay", elsewhere)
    assert without.code == 2
    assert "name the one that has the replies of" in without.err
    assert not (place / "store").exists()


def test_a_replay_finds_the_store_of_the_run_from_any_folder(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("run", "small.yaml", "--store", "mine")
    folder = only_run(place)
    (place / "deep").mkdir()
    monkeypatch.chdir(place / "deep")
    assert command("replay", folder).code == 0


def test_a_replay_that_meets_a_call_never_recorded_names_the_setting(
    place: Path, command: Command, finished: Finished
) -> None:
    before = everything(place)
    ran = command("replay", finished.folder, "--set", "agents.temperature=0.7")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("replay miss: sim/")
    assert "differs in: temperature 0.4 -> 0.7" in ran.err
    assert "nothing was sent" in ran.err
    assert everything(place) == before


def test_a_replay_with_settings_that_leave_all_calls_as_they_were_succeeds(
    command: Command, finished: Finished
) -> None:
    words = ("--set", "protocols={naive_judge: }", "--set", "name=less", "--json")
    replay, whole = (
        command("replay", finished.folder, *words),
        command("report", finished.folder, "--json"),
    )
    assert replay.code == 0
    of_one, of_all = (json.loads(told.out)["rows"][0] for told in (replay, whole))
    # Which models a report is of is said of all its rows together.
    assert of_one | {"origins": ""} == of_all | {"origins": ""}


def test_a_replay_tells_outcomes_that_are_not_what_the_replies_say(
    command: Command, finished: Finished
) -> None:
    folder = finished.folder
    edited(folder, f"UPDATE cells SET {SWAPPED} WHERE place = 7")
    ran = command("replay", folder)
    assert ran.code == 1
    assert f"first difference: cell {outcomes(folder)[7].cell}" in ran.err
    assert "39 of 40 outcomes are equal to the byte" in ran.err


def test_a_replay_keeps_what_failed_at_a_provider_since_there_is_no_reply_to_it(
    command: Command, finished: Finished
) -> None:
    folder = finished.folder
    with_failures(folder, "Overloaded", {3, 7})
    ran = command("replay", folder)
    assert ran.code == 0
    assert "38 of 38 outcomes are equal to the byte" in ran.err
    assert "2 failed at their provider: there is no reply to replay" in ran.err
    assert "failed cells: 2 failed by the server" in ran.out
