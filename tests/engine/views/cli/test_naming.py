"""What a RUN on the command line may be, and the list of runs."""

import json
import os
from pathlib import Path

import pytest

from oversight.engine.run.listing import summarize
from oversight.engine.run.lock import take_lock
from tests.engine.conftest import Command
from tests.run_folders import cut, only_run, outcomes


def other(made: Path) -> Path:
    """The second of two run folders."""
    (folder,) = (each for each in made.parent.iterdir() if each != made)
    return folder


def age(folder: Path, seconds: int) -> None:
    for file in folder.iterdir():
        if file.is_file():
            os.utime(file, (seconds, seconds))


# A RUN.


def test_a_run_may_be_named_by_its_folder_by_a_beginning_or_by_its_sweep_file(
    made: Path, command: Command
) -> None:
    words = (f"runs/{made.name}", made, made.name, "small", "runs/sm", "small.yaml")
    (told,) = {command("status", word) for word in words}
    assert told.code == 0
    assert told.err == ""
    assert told.out.startswith("small: 40/40 cells")


@pytest.mark.parametrize(
    "words",
    [
        ("report", "sma"),
        ("show", "sma"),
        ("replay", "sma"),
        ("export", "replies", "sma", "-o", "small.bundle"),
    ],
)
def test_every_command_on_runs_takes_the_beginning_of_a_name(
    made: Path, command: Command, words: tuple[str, ...]
) -> None:
    assert command(*words).code == 0


def test_a_sweep_file_means_the_run_of_its_settings_else_the_newest_which_is_told(
    place: Path, made: Path, command: Command
) -> None:
    never = (place / "small.yaml").read_text().replace("small", "other")
    (place / "other.yaml").write_text(never)
    none = command("status", "other.yaml")
    assert (none.code, none.out) == (2, "")
    assert "there is no run of 'other' in runs; start it: oversight run other.yaml" in none.err

    assert command("run", "small.yaml", "--limit", "2").code == 0
    shorter = other(made)
    whole = command("status", "small.yaml")
    assert (whole.err, "40/40 cells" in whole.out) == ("", True)

    text = (place / "small.yaml").read_text()
    (place / "small.yaml").write_text(text.replace("rounds: 1", "rounds: 3"))
    age(made, 1_000_000)
    edited = command("status", "small.yaml")
    assert "20/20 cells" in edited.out
    assert edited.err == (
        f"· runs/{shorter.name}: the newest of 2 runs of 'small'; "
        "its settings, or its --limit, differ from those that small.yaml has now\n"
    )


def test_a_replay_of_a_sweep_file_with_flags_is_of_the_run_with_these_flags(
    place: Path, made: Path, command: Command
) -> None:
    flags = ("--set", "protocols.debate.rounds=2", "--set", "problems.bundled.limit=1")
    assert command("run", "small.yaml", *flags).code == 0
    replayed = command("replay", "small.yaml", *flags)
    assert replayed.code == 0
    assert "10 of 10 outcomes are equal to the byte" in replayed.err
    assert replayed.out == command("report", other(made)).out
    # Of these settings there is no run: they change the one of the file as it stands.
    missed = command("replay", "small.yaml", "--set", "protocols.debate.rounds=4")
    assert missed.code == 5


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("plot", "small.yaml", "-o"), "picture.svg"),
        (("plot", "small.yaml", "--data"), "picture.csv"),
        (("export", "replies", "small.yaml", "-o"), "replies.bundle"),
        (("cache", "export", "--all", "-o"), "store.bundle"),
    ],
)
def test_a_folder_to_write_into_is_made_where_it_is_missing(
    place: Path, made: Path, command: Command, words: tuple[str, ...], file: str
) -> None:
    to = place / "new" / "folder" / file
    assert command(*words, str(to)).code == 0
    assert to.stat().st_size > 0


# The list.


def test_runs_are_listed_the_newest_first(made: Path, command: Command) -> None:
    age(made, 1_000_000)
    assert command("run", "small.yaml", "--limit", "1").code == 0
    newer = other(made)
    cut(newer, 7)
    listed = command("status")
    assert listed.code == 0
    title, _, head, first, second = listed.out.splitlines()
    assert title == "2 runs in runs"
    assert head.split() == ["run", "folder", "sweep", "last", "outcome", "state", "cells", "failed"]
    assert first.split()[0] == f"runs/{newer.name}"
    assert first.split()[-3:] == ["stopped", "7/10", "0"]
    assert second.split()[0] == f"runs/{made.name}"
    assert second.split()[-3:] == ["finished", "40/40", "0"]

    told = json.loads(command("status", "--json").out)
    assert [each["folder"] for each in told] == [f"runs/{newer.name}", f"runs/{made.name}"]
    assert told[1]["last_outcome"].startswith("1970-01-12T")
    assert (told[0]["finished"], told[0]["cells"], told[0]["running"]) == (7, 10, None)


def test_a_run_whose_lock_is_held_is_running(made: Path, command: Command) -> None:
    lock = take_lock(made)
    try:
        assert " running " in command("status").out
        (told,) = json.loads(command("status", "--json").out)
    finally:
        os.close(lock)
    assert told["running"].startswith(f"pid {os.getpid()}, since ")
    assert " finished " in command("status").out


@pytest.mark.usefixtures("muddled")
def test_outcomes_are_counted_as_they_would_be_read(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 1
    folder = only_run(place)
    records = list(outcomes(folder))
    failures = sum(record.failure is not None for record in records)
    assert 0 < failures < 40
    told = summarize(folder)
    assert (told.finished, told.failed) == (len(records), failures)
