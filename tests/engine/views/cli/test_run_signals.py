"""A run under signals, as a real process."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from oversight.engine.run.observer import read_progress
from tests.command_line import environment, oversight, running
from tests.run_folders import len_of, only_run, outcomes, written
from tests.waiting import until

pytestmark = pytest.mark.wire
ALL_SAVED = r"all completed cells are saved\. ([\d,]+) of 540 cells done\."

SLOW = """\
name: slow
problems: {bundled: {name: arithmetic, limit: 30}}
agents: {model: [sim/strong, sim/weak]}
judges: sim/slow
max_cells: 4
models:
  sim/slow: {latency: 0.005}
protocols:
  naive_judge:
  debate: {rounds: 1}
  consultancy: {turns: 2, first: [client, consultant]}
  propaganda:
"""
FAST = ("--set", "models.sim/slow.latency=0", "--set", "max_cells=64")
"""Latency does not change replies: this resumes the slow run, quickly."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The outcomes of the slow sweep when nothing disturbs it."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "slow.yaml").write_text(SLOW)
    assert oversight("run", "slow.yaml", *FAST, cwd=place).code == 0
    return written(only_run(place))


@pytest.fixture
def sweeps(place: Path) -> Path:
    """A working folder with the slow sweep, and one whose judge takes an hour."""
    (place / "slow.yaml").write_text(SLOW)
    (place / "stuck.yaml").write_text(SLOW.replace("0.005", "3600"))
    return place


def under_way(place: Path) -> None:
    """Wait until a call is in flight: one that was counted may still be on its way there."""
    until(lambda: read_progress(only_run(place)).in_flight)


def test_calls_in_flight_are_abandoned_after_the_grace_period(sweeps: Path) -> None:
    # The judge alone: an agent's answer is there at once.
    words = ("--grace", "0.5", "--set", "protocols=[naive_judge]")
    with running("run", "stuck.yaml", *words, cwd=sweeps) as process:
        process.until(r"0 of \d+ cells · [1-9]")
        under_way(sweeps)
        process.hear(signal.SIGUSR1)
        stopped = process.end()
    assert stopped.code == 128 + signal.SIGUSR1 and "given up after 0.5 s" in stopped.err
    assert re.search(r"0\.5 s elapsed: gave up \d+ calls in flight", stopped.err)
    assert "resume with: oversight run stuck.yaml" in stopped.err


def test_repeated_hangups_do_not_abandon_calls_in_flight(sweeps: Path) -> None:
    latency = ("--set", "models.sim/slow.latency=1")
    with running("run", "stuck.yaml", *latency, cwd=sweeps) as process:
        process.until(r"0 of 540 cells · [1-9]")
        under_way(sweeps)
        for _ in range(3):
            process.hear(signal.SIGHUP)
        stopped = process.end()
    assert stopped.code == 128 + signal.SIGHUP and "abandoned" not in stopped.err
    assert len_of(sweeps / "store") > 0


def test_closed_terminal_stops_a_run_as_a_signal_does(sweeps: Path) -> None:
    ours, theirs = os.openpty()
    words = ("run", "stuck.yaml", "--set", "models.sim/slow.latency=1")
    process = subprocess.Popen(
        [sys.executable, "-m", "oversight.engine", *words], cwd=sweeps,
        env=environment({"OVERSIGHT_STORE": str(sweeps / "store"), "TERM": "xterm"}), stdin=theirs,
        stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    output = ""
    while not re.search(r"0 of 540 cells · [1-9]", output):
        output += os.read(ours, 2**16).decode(errors="replace")
    under_way(sweeps)
    os.close(ours)
    assert process.wait() == 128 + signal.SIGHUP
    assert len_of(sweeps / "store") > 0, "calls in flight have completed"


def test_stopped_terminal_delays_neither_run_nor_signal(sweeps: Path, undisturbed: bytes) -> None:
    with running("run", "slow.yaml", cwd=sweeps) as process:
        process.until(r"0 of 540 cells · [1-9]")
        process.type(b"\x13")  # Ctrl-S
        folder = only_run(sweeps)
        until(lambda: len(list(outcomes(folder))) >= 100)
        process.hear(signal.SIGTERM)
        until(lambda: read_progress(folder).note)
        process.type(b"\x11")  # Ctrl-Q
        stopped = process.end()
    assert stopped.code == 128 + signal.SIGTERM
    assert " in flight; Ctrl-C again to abandon them" in stopped.err
    assert re.findall(ALL_SAVED, stopped.err)
    assert oversight("run", "slow.yaml", *FAST, cwd=sweeps).code == 0
    assert written(folder) == undisturbed


def test_repeated_interrupts_do_not_change_the_exit_code(sweeps: Path) -> None:
    with running("run", "stuck.yaml", cwd=sweeps) as process:
        process.until(r"0 of 540 cells · [1-9]")
        while process.process.poll() is None:
            process.hear(signal.SIGINT)
            time.sleep(0.002)
        stopped = process.end()
    assert stopped.code == 130 and "Traceback" not in stopped.err


def test_an_interrupt_while_the_program_loads_is_quiet() -> None:
    loading = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "oversight.engine.views.cli.group":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from oversight.engine.__main__ import main
main()
"""
    process = subprocess.run(
        [sys.executable, "-c", loading], env=environment({}), capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (130, "")


def test_interrupt_before_the_start_fails_no_cell(command, monkeypatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oversight.engine.views.cli.commands.run.read_sweep_file", interrupted)
    assert command("run", "small.yaml").code == 130
