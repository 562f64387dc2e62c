"""Report, worlds and replay of a finished run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

from oversight.cache.disk import ReadOnlyStore
from oversight.engine.analysis.reports.formats import FORMATS
from oversight.engine.run.events import MIXED, MixedReplies, add_event, pending
from oversight.engine.run.reader import RunReader
from oversight.engine.views.cli import terminal
from tests.command_line import ROOT
from tests.disks import read_only
from tests.run_folders import everything, only_run, outcomes

# Reading a run.


@pytest.mark.parametrize("format", list(FORMATS))
def test_a_report_can_be_had_again_in_every_format(command, finished, format):
    words = ("--json",) if format == "json" else ("--format", format)
    ran, folder = command("run", "small.yaml", *words), finished.folder
    assert command("report", folder, *words) == (0, ran.out, "")
    ending = {"text": "txt", "markdown": "md", "latex": "tex"}.get(format, format)
    assert (folder / "report" / f"report.{ending}").read_text() == ran.out and "\x1b" not in ran.out


def test_report_of_a_run_is_scored_again_only_if_something_changed(command, finished, monkeypatch):
    scored, score = [], terminal._scored
    monkeypatch.setattr(
        terminal, "_scored", lambda *words, **more: scored.append(1) or score(*words, **more)
    )

    def scores(*words: str) -> tuple[int, str]:
        scored.clear()
        ran = command("run", "small.yaml", *words)
        return len(scored), ran.out

    _, report = scores()
    assert scores() == (0, report) and scores("--score", "log") == (1, ANY)
    assert scores() == (1, report)
    os.utime(finished.folder / "run.db")
    assert scores() == (1, report) and scores() == (0, report)
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    assert scores() == (1, report)


def test_measures_are_printed_only_with_the_option(place, command):
    small = (place / "small.yaml").read_text()
    (place / "steps.yaml").write_text(f"{small}  doubly_efficient_debate:\n")
    ran = command("run", "steps.yaml", "--limit", "1")
    folder = only_run(place)
    output = command("report", folder, "--measures").out
    table = output.partition("measures: means by what the agent argued for")[2]
    assert len([line for line in table.splitlines() if " accepted " in line]) == 2, "one an agent"
    assert "accepted" not in ran.out
    assert output.startswith(ran.out.partition("no interval")[0].strip())
    results = json.loads(command("report", folder, "--json").out)["rows"]
    assert [sorted(row["measures"]) for row in results if row["measures"]] == [
        ["accepted", "asked_again", "challenged", "queries", "steps"]
    ] * 2


def test_shown_verdicts_agree_with_the_outcomes(place, command):
    command("run", "small.yaml", "--set", "draws=2", "--limit", "2")
    folder = only_run(place)
    addresses, with_store = set(), ReadOnlyStore(place / "store")
    for record in outcomes(folder):
        if record.protocol != "debate simultaneous 1 round" or record.agent != "sim/weak":
            continue
        parsed = json.loads(command("show", folder, record.cell, "--json").out)
        # The only debate of this sweep: its label is the name of its kind.
        assert (parsed["problem"], parsed["protocol"]) == (record.problem, "debate")
        world = list(parsed["worlds"].values())[record.side]
        assert tuple(world["probs"]) == record.probs
        assert [turn["speaker"] for turn in world["turns"]] == ["Debater A", "Debater B"]
        addresses |= {turn["call"] for turn in world["turns"]}
    assert all(list(with_store.keys(address)) for address in addresses)
    assert len(addresses) == 2 * 2 * 2, "each problem and each draw has speeches of its own"
    with_store.close()


@pytest.mark.wire
def test_closed_pipe_of_a_report_is_not_an_error(finished):
    process = subprocess.Popen(
        [sys.executable, "-m", "oversight.engine", "report", str(finished.folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


# Replays.


@pytest.mark.wire
def test_a_replay_is_equal_to_the_byte_also_where_nothing_can_be_written(place, command, finished):
    ran, folder = finished.ran, finished.folder
    before = everything(place)
    with read_only(folder), read_only(place / "store"):
        replay = command("replay", folder)
        result = command("show", folder)
        report = command("report", folder)
    assert (replay.code, replay.out) == (0, ran.out)
    assert "40 of 40 outcomes are equal to the byte" in replay.err
    assert (result.code, report.code) == (0, 0) and everything(place) == before


def test_a_run_is_exported_the_same_each_time_and_replayed_once_imported(place, command, finished):
    ran, folder = finished.ran, finished.folder
    command("run", "small.yaml", "--set", "agents.words=20", "--run-folder", "other")
    command("cache", "export", folder)
    command("cache", "export", folder, "-o", "second.oversight")
    exported = folder / "replies.oversight"
    assert exported.read_bytes() == Path("second.oversight").read_bytes()
    elsewhere = place / "elsewhere"
    shutil.move(folder, elsewhere)
    shutil.rmtree(place / "store")
    without = command("replay", elsewhere)
    assert without.code == 2 and "name the store that has the replies of" in without.err
    file = command("replay", elsewhere, "--store", elsewhere / "replies.oversight")
    assert file.code == 2 and "is a file, and a store is a folder" in file.err
    assert not (place / "store").exists()
    into = ("--store", "new")
    assert command("cache", "import", elsewhere / "replies.oversight", *into).code == 0
    replay = command("replay", elsewhere, *into)
    assert (replay.code, replay.out) == (0, ran.out)
    assert "40 of 40 outcomes are equal to the byte" in replay.err


def test_replies_that_may_be_mixed_up_are_reported_everywhere_and_repeated(finished, command):
    folder, mixed = finished.folder, "2 replies may be those to other calls"
    before = (folder / "outcomes.jsonl").read_bytes()
    with RunReader(folder) as run:
        calls = tuple(sorted({key[:64] for key in run.keys()}))[:2]  # noqa: SIM118
    add_event(folder, MIXED, MixedReplies("lab", calls))
    pack = finished.folder.parents[1] / "p.oversight"
    assert command("export", "pack", folder, "--output", pack).code == 0
    for words in (("status", folder), ("report", folder), ("cache", "verify"), ("report", pack)):
        assert f"{mixed}; the next oversight run asks" in "".join(command(*words)[1:])
    again = command("run", "small.yaml")
    assert "calls (2 sent" in again.err and f"{mixed}; they were asked for again" in again.err
    assert (folder / "outcomes.jsonl").read_bytes() == before
    assert pending(folder) == () and "already complete" in command("run", "small.yaml").err
