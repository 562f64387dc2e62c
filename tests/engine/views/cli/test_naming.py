"""Which run is running, and how many outcomes it has."""

import json
import os
from pathlib import Path

import pytest

from oversight.engine.run.folders import take_lock
from oversight.engine.run.listing import summarize
from tests.engine.conftest import Command
from tests.run_folders import only_run, outcomes


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
