"""The command line, in a separate process or in this one."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from oversight.engine.views.cli.group import main
from oversight.engine.views.cli.terminal import STOP_SIGNALS
from tests import starting
from tests.starting import Started

ROOT = Path(__file__).parents[1]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Ran]
"""Runs `oversight` with these words."""


class Calls(NamedTuple):
    """The calls of one sitting, as its last line of progress tells them."""

    asked: int
    stored: int
    shared: int

    @property
    def new(self) -> int:
        """The calls that a model really received."""
        return self.asked - self.stored - self.shared


def calls(err: str) -> Calls:
    count = re.findall(r"cells · ([\d,]+) calls?", err)[-1]
    last = err[err.rindex(f"{count} call") :].partition("failed")[0]

    def told(how: str) -> int:
        match = re.search(rf"([\d,]+) {how}", last)
        return int(match[1].replace(",", "")) if match else 0

    return Calls(int(count.replace(",", "")), told("from cache"), told("reused"))


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Environment of a process that must not read the settings of the person running the tests."""
    variables_kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        if name in os.environ
    }
    return {**variables_kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def oversight(*words: str | Path, cwd: Path, **variables: str) -> Ran:
    """Run a command to its end. The store is in the working folder unless the words say else."""
    settings = {"OVERSIGHT_STORE": str(cwd / "store")} | variables
    line = [sys.executable, "-m", "oversight.engine", *map(str, words)]
    process = starting.run(line, cwd=cwd, env=environment(settings))
    return Ran(process.returncode, process.stdout, process.stderr)


def within(*words: str | Path, cwd: Path, **variables: str) -> Ran:
    """The same in this process, which saves the second that a new one takes to start."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    handlers = [(number, signal.getsignal(number)) for number in STOP_SIGNALS]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as exited,
    ):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["oversight", *map(str, words)])
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            main()
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
    outputs = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Ran(int(exited.value.code or 0), *outputs)


def run_in(place: Path, name: str, sweep: str, *flags: str) -> Ran:
    """Write a sweep file into a folder, and run it there; its store is next to it."""
    (place / name).write_text(sweep)
    return within("run", name, *flags, cwd=place, OVERSIGHT_STORE=str(place / "store"))


class Running:
    """A command under a pseudo-terminal, whose stderr is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]", terminal: int) -> None:
        self.process = process
        self.err = ""
        self._terminal = terminal

    def until(self, pattern: str) -> "re.Match[str]":
        """Read on until the pattern occurs in new output."""
        start = len(self.err)
        while not (match := re.search(pattern, self.err[start:])):
            assert self._read(), f"it ended before it told {pattern!r}:\n{self.err}"
        return match

    def until_cells(self, count: int) -> None:
        """Read on until this many cells are finished."""
        start = len(self.err)
        while all(
            int(number.replace(",", "")) < count
            for number in re.findall(r"([\d,]+) of [\d,]+ cells", self.err[start:])
        ):
            assert self._read(), f"it ended before {count} cells were finished:\n{self.err}"

    def hear(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def end(self) -> Ran:
        """Wait for its end."""
        while self._read():
            pass
        out, _ = self.process.communicate()
        return Ran(self.process.returncode, out, self.err)

    def _read(self) -> bool:
        try:
            data = os.read(self._terminal, 2**16)
        except OSError:
            # The other end of the terminal is closed.
            return False
        self.err += data.decode(errors="replace")
        return bool(data)


@contextmanager
def running(*words: str | Path, cwd: Path, **variables: str) -> Iterator[Running]:
    """A command that is under way; it is killed at the end of the body if it still is."""
    ours, theirs = os.openpty()
    settings = {"OVERSIGHT_STORE": str(cwd / "store"), "TERM": "xterm"} | variables
    process = Started(
        [sys.executable, "-m", "oversight.engine", *map(str, words)], cwd=cwd,
        env=environment(settings), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
        text=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Running(process, ours)
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        os.close(ours)
