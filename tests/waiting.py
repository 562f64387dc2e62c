"""Waiting for something to happen, with one bound that only a hang reaches."""

import subprocess
import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a wait for a process counts as a hang: a hundred times what any takes on a
machine that rests. A loaded machine is slow, and no failure."""


def until(
    holds: Callable[[], object], process: "subprocess.Popen[str] | None" = None, every: float = 0.01
) -> None:
    """Check at this interval until it holds. process: a failure if it ends before."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert process is None or process.poll() is None, "the process ended before"
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(every)


def end(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    """Wait for the end of a process; one that never ends is killed."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
