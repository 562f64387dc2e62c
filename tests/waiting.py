"""Waiting for something to happen, with one bound that only a hang reaches."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import Self

PATIENCE = 240.0
"""Seconds after which a wait counts as a hang: a loaded machine is slow, and no failure."""


def until(
    holds: Callable[[], object], process: "subprocess.Popen[str] | None" = None, every: float = 0.01
) -> None:
    """Look every so many seconds until it holds. process: a failure if it ends before."""
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


def last_rise(count: Callable[[], int], still: float) -> float:
    """A time (`time.monotonic`) that is no later than the last rise of a count, which has not
    risen for `still` seconds since: late looks never make a rise look later than it was."""
    looked = time.monotonic()
    highest, last, since = count(), looked, looked
    while time.monotonic() < since + still:
        before, looked = looked, time.monotonic()
        if (now := count()) > highest:
            highest, last, since = now, before, time.monotonic()
    return last


class Lag:
    """How late this machine wakes a thread just now: what it adds to any bound on time."""

    def __init__(self) -> None:
        self.most = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            start = time.monotonic()
            self._over.wait(0.005)
            self.most = max(self.most, time.monotonic() - start - 0.005)
