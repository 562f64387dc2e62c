"""The command `oversight`, run as its users run it: in its own process, with its cost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.bench import machine
from tools.bench.client import ROOT


class CommandFailed(Exception):
    """It failed; with the end of its output."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A process, from its start to its end."""

    code: int
    """Negative: the signal that ended it."""
    cpu: float
    """Seconds, all threads, user and system."""
    wall: float
    """Seconds."""
    peak: float
    """Megabytes."""
    out: str
    err: str


class Running:
    """A running command. Its output goes into files, so no pipe ever blocks it."""

    def __init__(self, words: tuple[str | Path, ...], folder: Path, url: str = "") -> None:
        """folder: where it runs, with its home and its store. url: of the server's OpenAI wire."""
        folder.mkdir(parents=True, exist_ok=True)
        number = time.monotonic_ns()
        self._out, self._err = folder / f"{number}.out", folder / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.began = time.perf_counter()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "oversight.engine", *map(str, words)],
                cwd=folder,
                env=_environment(folder, url),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        if url:
            # A core for each of the two; alone, it may have all.
            machine.pin(self._process.pid, machine.CLIENT)

    @property
    def ended(self) -> bool:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def kill(self) -> None:
        """kill -9; nothing happens if it has ended by itself."""
        os.kill(self._process.pid, signal.SIGKILL)

    def end(self) -> Ended:
        """Wait for its end."""
        _, status, used = os.wait4(self._process.pid, 0)
        wall = time.perf_counter() - self.began
        # Popen must not wait for it a second time.
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            self._process.returncode,
            used.ru_utime + used.ru_stime,
            wall,
            used.ru_maxrss / 1024,
            self._out.read_text(),
            self._err.read_text(),
        )


def oversight(*words: str | Path, folder: Path, url: str = "") -> Ended:
    """Run a command to its good end. CommandFailed if it comes to another."""
    ended = Running(words, folder, url).end()
    if ended.code:
        raise CommandFailed(f"oversight {' '.join(map(str, words))}: {ended.err[-600:]}")
    return ended


def _environment(folder: Path, url: str) -> Mapping[str, str]:
    """An environment without the user's settings and keys."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    own = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "OVERSIGHT_STORE": str(folder / "store"),
        "COMPATIBLE_BENCH_BASE_URL": url,
    }
    return kept | own
