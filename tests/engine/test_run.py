import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from cache.disk import ReadOnlyStore
from engine.reports.report import FORMATS
from engine.runs.outcome import line, read
from engine.runs.runfolder import outcomes
from engine.sweeps.sweepfile import read_sweep_file
from protocols.transcript import Failure
from tests.command_line import ROOT, Ran, calls, oversight, running
from tests.disks import read_only

Command = Callable[..., Ran]

ALL_SAVED = r"all that landed is saved\. ([\d,]+) of 540 cells done\."

SLOW = """\
name: slow
problems: {bundled: {name: arithmetic, limit: 30}}
agents: {model: [sim/strong, sim/weak]}
judges: sim/slow
lanes: 4
models:
  sim/slow: {latency: 0.005}
protocols:
  naive_judge:
  debate: {rounds: 1}
  consultancy: {turns: 2, first: [client, consultant]}
  propaganda:
"""
FAST = ("--set", "models.sim/slow.latency=0", "--set", "lanes=64")
"""How long models take is no part of what they say: this goes on with the slow run, quickly."""


def only_run(place: Path) -> Path:
    (folder,) = (place / "runs").iterdir()
    return folder


def written(folder: Path) -> bytes:
    return (folder / "outcomes.jsonl").read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


# Start to end.


def test_a_sweep_runs_from_its_file_to_its_report_and_again_without_asking(place: Path) -> None:
    ran = oversight("run", "small.yaml", cwd=place)
    assert ran.code == 0
    assert ran.out.startswith("small: agent score difference (Brier), higher is better")
    head, *_, look, again = ran.err.splitlines()
    assert head == (
        "· sweep small · 4 problems × 3 protocols × 2 agents × 1 judge · 40 cells · "
        "models are simulated: no key, no cost"
    )
    folder = only_run(place)
    assert look == f"· look closer oversight show {folder.relative_to(place)} apples-and-crates"
    assert again == "· again       oversight run small.yaml   (all from the store)"
    assert len(list(outcomes(folder))) == 40
    assert calls(ran.err).new > 0

    before = everything(folder)
    once_more = oversight("run", "small.yaml", cwd=place)
    assert (once_more.code, once_more.out) == (0, ran.out)
    assert "complete already: 40 cells have their outcome" in once_more.err
    assert "calls" not in once_more.err, "nothing was asked, of the store or of a model"
    assert everything(folder).keys() == before.keys()
    assert {name for name, content in everything(folder).items() if content != before[name]} <= {
        str(folder / "lock")
    }


def test_another_run_of_the_sweep_is_answered_by_the_store_alone(
    place: Path, command: Command
) -> None:
    first = command("run", "small.yaml", "--run-folder", "one")
    second = command("run", "small.yaml", "--run-folder", "two")
    assert (first.code, second.code) == (0, 0)
    assert second.out == first.out
    assert 0 < calls(first.err).new < calls(first.err).asked
    assert calls(second.err).new == 0
    assert calls(second.err).stored > 0
    assert written(place / "one") == written(place / "two")


def test_a_larger_grid_pays_only_for_what_is_new(place: Path, command: Command) -> None:
    first = command("run", "small.yaml")
    more = ("--set", "protocols.debate.rounds=[1, 2]")
    second = command("run", "small.yaml", *more)
    assert (first.code, second.code) == (0, 0)
    third = command("run", "small.yaml", *more, "--store", "other", "--run-folder", "apart")
    assert calls(second.err).new == calls(third.err).new - calls(first.err).new > 0


def test_more_problems_pay_only_for_what_is_new(place: Path, command: Command) -> None:
    first = command("run", "small.yaml", "--limit", "1")
    second = command("run", "small.yaml")
    third = command("run", "small.yaml", "--store", "other", "--run-folder", "apart")
    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert calls(second.err).new == calls(third.err).new - calls(first.err).new > 0


def test_flags_change_the_sweep_and_its_folder(place: Path, command: Command) -> None:
    for words, cells in [
        ((), 40),
        (("--limit", "1"), 10),
        (("--set", "agents.model=sim/weak"), 24),
        (("--set", "draws=2", "--limit", "1"), 20),
        (("--set", "protocols={naive_judge: }", "--set", "problems.bundled.limit=3"), 6),
    ]:
        ran = command("run", "small.yaml", *words)
        assert ran.code == 0
        assert f" · {cells} cells" in ran.err
    assert len(list((place / "runs").iterdir())) == 5


def test_what_does_not_change_outcomes_goes_on_in_the_same_folder(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml")
    command("run", "small.yaml", "--set", "lanes=2")
    command("run", "small.yaml", "--score", "log", "--json")
    assert len(list((place / "runs").iterdir())) == 1


def test_a_dry_run_leaves_nothing(place: Path, command: Command) -> None:
    before = everything(place)
    ran = command("run", "small.yaml", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "small.yaml: fine. 40 cells; models: sim/judge, sim/strong, sim/weak\n"
    assert everything(place) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "no.yaml"), "no.yaml: no such file; start one with: oversight init no.yaml"),
        (
            ("run", "small.yaml", "--set", "protocols.debate.round=3"),
            "--set protocols.debate.round=3: protocols.debate.round: no such setting; "
            "did you mean 'rounds'?\n  settings of debate: opponent, rounds, simultaneous",
        ),
        (("run", "."), ". is a folder; name the sweep file"),
        (("run", "small.yaml", "--limit", "0"), "Invalid value for '--limit'"),
        (("run", "small.yaml", "--cahce", "off"), "No such option"),
        (("run",), "Missing argument 'SWEEP'"),
        (("rum", "small.yaml"), "No such command 'rum'"),
        (("report", "."), ". is no run folder: it has no manifest.json"),
        (("replay", "nowhere"), "no run folder in runs has a name that begins with 'nowhere'"),
        (("run", "small.yaml", "--run-folder", "."), ". is no run folder, and holds small.yaml"),
        (("run", "small.yaml", "--store", "small.yaml"), "small.yaml cannot be a store: "),
    ],
)
def test_what_the_user_got_wrong_ends_with_code_2_and_is_told_in_plain_words(
    place: Path, command: Command, words: tuple[str, ...], message: str
) -> None:
    ran = command(*words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not (place / "runs").exists()


# Failures.


@pytest.fixture
def muddled(place: Path) -> None:
    text = (place / "small.yaml").read_text()
    models = "models: {sim/judge: {muddle: 0.3}}\n"
    (place / "small.yaml").write_text(text + models)


@pytest.mark.usefixtures("muddled")
def test_failed_cells_end_with_code_1_and_are_counted(place: Path, command: Command) -> None:
    ran = command("run", "small.yaml", "--json")
    assert ran.code == 1
    told = json.loads(ran.out)
    failed = [record for record in outcomes(only_run(place)) if record.failure]
    assert 0 < len(failed) < 40
    assert told["failed"] == len(failed) == sum(row["failed"] for row in told["rows"])
    assert sum(row["failures"].get("unreadable", 0) for row in told["rows"]) == len(failed)
    again = command("run", "small.yaml", "--json", "--retry-failed")
    assert (again.code, again.out) == (1, ran.out), "the same replies are as unreadable as before"
    assert f"{len(failed)} failed cells are run again" in again.err
    assert calls(again.err).new == 0
    text = command("run", "small.yaml").out
    assert f"failed cells: {len(failed)} unreadable" in text


def with_failures(folder: Path, kind: str, places: set[int]) -> bytes:
    """Put failures in place of outcomes, as if a provider had been down; the bytes before."""
    before = written(folder)
    file = read_sweep_file(folder / "sweep.yaml")
    cells = {cell.place: cell for cell in file.sweep({}).cells()}
    lines = [
        line(cells[record.place], Failure(kind, "for a while"))
        if (record := read(each)).place in places
        else each
        for each in before.splitlines(keepends=True)
    ]
    (folder / "outcomes.jsonl").write_bytes(b"".join(lines))
    return before


def test_failed_cells_are_run_again_when_asked_for_and_not_otherwise(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
    before = with_failures(folder, "Overloaded", {3, 7, 30})
    assert command("run", "small.yaml").code == 1
    ran = command("run", "small.yaml", "--retry-failed")
    assert ran.code == 0
    assert "3 failed cells are run again" in ran.err
    assert written(folder) == before


# Modes of the store.


def test_refresh_asks_for_everything_once_more(place: Path, command: Command) -> None:
    first = command("run", "small.yaml")
    again = command("run", "small.yaml", "--cache", "refresh", "--run-folder", "fresh")
    assert calls(again.err).new == calls(first.err).new
    assert written(place / "fresh") == written(only_run(place))
    done = command("run", "small.yaml", "--cache", "refresh")
    assert "to ask for all of it again, name a new folder with --run-folder" in done.err


def test_without_a_store_nothing_is_kept_and_the_outcomes_are_the_same(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml", "--cache", "off", "--run-folder", "off")
    with_it = command("run", "small.yaml", "--run-folder", "on")
    # A cell may find what an earlier one of the same run has stored; none finds more.
    assert calls(with_it.err).new == len_of(place / "store") > 0
    assert written(place / "off") == written(place / "on")


def test_a_run_in_replay_asks_nobody(place: Path, command: Command) -> None:
    miss = command("run", "small.yaml", "--cache", "replay")
    assert (miss.code, miss.out) == (5, "")
    assert "replay miss: sim/" in miss.err
    assert "no call to that model was ever recorded" in miss.err
    assert len(list(outcomes(only_run(place)))) == 0
    command("run", "small.yaml", "--run-folder", "paid")
    assert command("run", "small.yaml", "--cache", "replay").code == 0
    assert written(only_run(place)) == written(place / "paid")


def test_a_store_that_lost_replies_is_told_and_not_paid_again_in_silence(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml", "--set", "draws=2")
    folder = only_run(place)
    (folder / "outcomes.jsonl").write_bytes(b"")
    shutil.rmtree(place / "store")
    words = ("run", "small.yaml", "--set", "draws=2")
    refused = command(*words)
    assert refused.code == 2
    assert f"{place / 'store'} holds 0 replies, and " in refused.err
    assert len(list(outcomes(folder))) == 0
    accepted = command(*words, "--accept-empty")
    assert accepted.code == 0
    assert calls(accepted.err).new > 0
    assert command(*words).code == 0


# Reading a run.


@pytest.mark.parametrize("format", list(FORMATS))
def test_a_report_can_be_had_again_in_every_format(
    place: Path, command: Command, format: str
) -> None:
    ran = command("run", "small.yaml", "--format", format)
    folder = only_run(place)
    assert command("report", folder, "--format", format) == (0, ran.out, "")
    ending = {"text": "txt", "markdown": "md", "latex": "tex"}.get(format, format)
    assert (folder / "report" / f"report.{ending}").read_text() == ran.out
    assert "\x1b" not in ran.out


def test_a_report_of_an_unfinished_run_says_so(place: Path, command: Command) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
    lines = written(folder).splitlines(keepends=True)
    (folder / "outcomes.jsonl").write_bytes(b"".join(lines[:25]))
    ran = command("report", folder)
    assert ran.code == 0
    assert "15 cells have not been run yet: these figures will change." in ran.out
    assert command("report", folder, "--beta", "0.5", "--beta", "inf").out.count("β=") == 4
    assert command("report", folder, "--beta", "nan").code == 2
    assert json.loads(command("report", folder, "--json", "--score", "log").out)["score"] == "log"


def test_what_was_measured_is_told_where_it_is_asked_for(place: Path, command: Command) -> None:
    small = (place / "small.yaml").read_text()
    (place / "steps.yaml").write_text(f"{small}  doubly_efficient_debate:\n")
    ran = command("run", "steps.yaml")
    folder = only_run(place)
    asked = command("report", folder, "--measures").out
    table = asked.partition("measures: means by what the agent argued for")[2]
    rows = [line for line in table.splitlines() if " accepted " in line]
    assert len(rows) == 2, "one an agent"
    assert "accepted" not in ran.out
    assert asked.startswith(ran.out.strip())
    told = json.loads(command("report", folder, "--json").out)["rows"]
    assert [sorted(row["measures"]) for row in told if row["measures"]] == [
        ["accepted", "challenged", "queries", "steps"]
    ] * 2


def test_status_tells_how_far_a_run_is(place: Path, command: Command) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
    assert command("status", folder) == (
        0,
        "small: 40/40 cells (100%), 0 failed\nno process is running it\n",
        "",
    )
    (folder / "outcomes.jsonl").write_bytes(written(folder)[:-1])
    told = json.loads(command("status", folder, "--json").out)
    assert (told["name"], told["cells"], told["finished"], told["failed"], told["running"]) == (
        "small",
        40,
        39,
        0,
        None,
    )
    assert Path(told["store"]) == place / "store"


def test_both_worlds_of_a_problem_are_shown_side_by_side(place: Path, command: Command) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
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
    command("run", "small.yaml", "--set", "draws=2")
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
    assert all(list(with_store.walk(address)) for address in addresses)
    assert len(addresses) == 4 * 2 * 2, "each problem and each draw has speeches of its own"
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
    place: Path, command: Command, words: tuple[str, ...], message: str
) -> None:
    command("run", "small.yaml")
    ran = command("show", only_run(place), *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_report_that_nobody_reads_to_its_end_is_no_error(place: Path, command: Command) -> None:
    command("run", "small.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "report", str(only_run(place))],
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


def test_a_replay_is_equal_to_the_byte_also_where_nothing_can_be_written(
    place: Path, command: Command
) -> None:
    ran = command("run", "small.yaml")
    folder = only_run(place)
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
    place: Path, command: Command
) -> None:
    ran = command("run", "small.yaml")
    folder = only_run(place)
    command("run", "small.yaml", "--set", "agents.words=20", "--run-folder", "other")
    command("export", folder)
    command("export", folder, "-o", "second.bundle")
    bundle = folder / "replies.bundle"
    assert bundle.read_bytes() == Path("second.bundle").read_bytes()
    elsewhere = place / "elsewhere"
    shutil.move(folder, elsewhere)
    shutil.rmtree(place / "store")
    replay = command("replay", elsewhere, "--store", elsewhere / "replies.bundle")
    assert (replay.code, replay.out) == (0, ran.out)
    assert "40 of 40 outcomes are equal to the byte" in replay.err
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
    place: Path, command: Command
) -> None:
    command("run", "small.yaml")
    before = everything(place)
    ran = command("replay", only_run(place), "--set", "agents.temperature=0.7")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("replay miss: sim/")
    assert "differs in: temperature 0.4 -> 0.7" in ran.err
    assert "nothing was sent" in ran.err
    assert everything(place) == before


def test_a_replay_with_settings_that_leave_all_calls_as_they_were_succeeds(
    place: Path, command: Command
) -> None:
    ran = command("run", "small.yaml", "--json")
    words = ("--set", "protocols={naive_judge: }", "--set", "name=less", "--json")
    replay = command("replay", only_run(place), *words)
    assert replay.code == 0
    assert json.loads(replay.out)["rows"] == json.loads(ran.out)["rows"][:1]


def test_a_replay_tells_outcomes_that_are_not_what_the_replies_say(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
    changed = [orjson.loads(each) for each in written(folder).splitlines()]
    changed[7]["probs"] = changed[7]["probs"][::-1]
    (folder / "outcomes.jsonl").write_bytes(b"\n".join(map(orjson.dumps, changed)) + b"\n")
    ran = command("replay", folder)
    assert ran.code == 1
    assert f"different: {changed[7]['cell']}" in ran.err
    assert "39 of 40 outcomes are equal to the byte" in ran.err


def test_a_replay_keeps_what_failed_at_a_provider_since_there_is_no_reply_to_it(
    place: Path, command: Command
) -> None:
    command("run", "small.yaml")
    folder = only_run(place)
    with_failures(folder, "Overloaded", {3, 7})
    ran = command("replay", folder)
    assert ran.code == 0
    assert "38 of 38 outcomes are equal to the byte" in ran.err
    assert "2 failed at their provider: there is no reply to replay" in ran.err
    assert "failed cells: 2 Overloaded" in ran.out


@pytest.mark.usefixtures("muddled")
def test_unreadable_replies_are_replayed_too(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 1
    ran = command("replay", only_run(place))
    assert ran.code == 0
    assert "40 of 40 outcomes are equal to the byte" in ran.err


# First steps.


def test_the_file_that_init_writes_runs_as_it_is(place: Path, command: Command) -> None:
    first = command("init", "deep/mine.yaml")
    assert (first.code, first.out) == (0, "")
    assert "oversight run deep/mine.yaml" in first.err
    assert command("init", "deep/mine.yaml").code == 2
    ran = command("run", "deep/mine.yaml", "--limit", "2")
    assert ran.code == 0
    assert "lift" in ran.out


def test_the_demo_needs_nothing_and_leaves_a_run_to_look_into(place: Path) -> None:
    ran = oversight("demo", cwd=place)
    assert ran.code == 0
    assert ran.out.startswith("demo: agent score difference")
    told = re.search(r"look closer oversight (.*)", ran.err)
    assert told
    assert oversight(*told[1].split(), cwd=place).code == 0


# Signals, with a real process.


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The outcomes of the slow sweep when nothing disturbs it."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "slow.yaml").write_text(SLOW)
    ran = oversight("run", "slow.yaml", *FAST, cwd=place)
    assert ran.code == 0
    return written(only_run(place))


@pytest.mark.parametrize(
    ("number", "cells"), [(signal.SIGINT, 0), (signal.SIGINT, 40), (signal.SIGTERM, 20)]
)
def test_a_signal_stops_a_run_and_the_same_command_goes_on_with_it(
    place: Path, undisturbed: bytes, number: signal.Signals, cells: int
) -> None:
    (place / "slow.yaml").write_text(SLOW)
    with running("run", "slow.yaml", cwd=place) as process:
        process.until_cells(cells)
        process.hear(number)
        stopped = process.end()
    assert (stopped.code, stopped.out) == (128 + number, "")
    assert "calls in flight; Ctrl-C again to abandon them" in stopped.err
    assert "go on with: oversight run slow.yaml" in stopped.err
    done = int(re.findall(ALL_SAVED, stopped.err)[0])
    folder = only_run(place)
    assert cells <= done == len(list(outcomes(folder))) < 540
    paid = len_of(place / "store")
    refused = calls(stopped.err).new - paid
    assert 0 <= refused <= 8, "what was in flight has landed; each lane may have asked in vain"
    ran = oversight("run", "slow.yaml", *FAST, cwd=place)
    assert ran.code == 0
    assert calls(ran.err).new == len_of(place / "store") - paid
    assert written(folder) == undisturbed


def len_of(store: Path) -> int:
    reading = ReadOnlyStore(store)
    count = len(reading)
    reading.close()
    return count


@pytest.fixture
def stuck(place: Path) -> Path:
    """A sweep whose judge takes an hour."""
    (place / "stuck.yaml").write_text(SLOW.replace("0.005", "3600"))
    return place


def test_a_second_signal_abandons_what_is_in_flight(stuck: Path) -> None:
    with running("run", "stuck.yaml", cwd=stuck) as process:
        process.until(r"0/540 cells  [1-9]")
        process.hear(signal.SIGINT)
        process.until("Ctrl-C again to abandon them")
        process.hear(signal.SIGINT)
        stopped = process.end()
    assert stopped.code == 130
    assert "calls in flight were abandoned; what had landed is saved" in stopped.err
    assert "go on with: oversight run stuck.yaml" in stopped.err
    assert "Traceback" not in stopped.err


def test_a_run_can_be_watched_and_not_run_twice_while_it_goes_on(
    stuck: Path, command: Command
) -> None:
    with running("run", "stuck.yaml", cwd=stuck) as process:
        process.until(r"0/540 cells  [1-9]")
        folder = only_run(stuck)
        pid = process.process.pid
        watched = command("status", folder)
        assert watched.code == 0
        assert re.search(rf"running: pid {pid}, since \d\d:\d\d", watched.out)
        assert command("report", folder).code == 0
        second = command("run", "stuck.yaml")
        assert second.code == 2
        assert f"another process (pid {pid}, since " in second.err
        assert f"Watch it: oversight status runs/{folder.name}" in second.err
    assert "no process is running it" in command("status", folder).out


def test_an_interrupt_before_anything_runs_is_no_failure_of_cells(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.cli.run.open_sweep", interrupted)
    assert command("run", "small.yaml").code == 130
