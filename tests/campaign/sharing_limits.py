"""One limit of 6,000 a minute under Ray actors, or two runs with a quota: how much of it is used,
and is it ever broken?"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.mock import Profile
from tests import databases
from tests.bench.clients.asked import TURNS
from tests.bench.command import CommandFailed, Running
from tests.bench.server import Server
from tests.bench.sweep import write_debates

CALLS = 4_000
PER_MINUTE = 6_000
LATENCY = Profile(latency=0.5, spread=0.5)
GLANCE = 0.02
"""Seconds between two looks at how many requests the server has seen."""

Seen = list[tuple[float, int]]
"""(seconds, requests so far), look by look."""


@dataclass(frozen=True, slots=True)
class Sharers:
    """Processes that keep one limit together."""

    name: str
    flags: tuple[str, ...]
    runs: int = 1
    min_used: float = 97.0
    """Goal: the part of the limit that they use (%)."""


ACTORS = Sharers("2 Ray actors", ("--workers", "2", "--ray", "auto"))
TEAM = Sharers("2 runs, one quota", ("--quota",), 2, 93.0)


@dataclass(frozen=True, slots=True)
class Kept:
    """How well a limit was used and kept."""

    used: float
    """Of the limit, in the middle three fifths of the requests (%)."""
    second: int
    """Requests in the busiest second."""
    ten: float
    """Of the limit, in the busiest 10 s (%)."""
    peak: int
    """Most requests in flight."""


def keeping(sharers: Sharers, calls: int) -> Kept:
    """Let them ask so many calls, all together."""
    with (
        TemporaryDirectory(prefix="bench-") as place,
        _store(sharers) as store,
        Server(LATENCY) as server,
    ):
        running = []
        for n in range(sharers.runs):
            # Runs share nothing but the limit: no two ask about one problem.
            problems = max(calls // (2 * (TURNS + 1)) // sharers.runs, 4)
            folder = Path(place) / str(n)
            asked = range(n * problems, (n + 1) * problems)
            sweep = write_debates(folder, asked, limits={"requests": PER_MINUTE}, lanes=256)
            words = ("run", sweep, "--run-folder", "run", *store, *sharers.flags)
            running.append(Running(words, folder, server.url))
        seen: Seen = []
        while not all(each.ended for each in running):
            seen.append((time.monotonic(), server.counts().get("requests", 0)))
            time.sleep(GLANCE)
        for ended in [each.end() for each in running]:
            if ended.code:
                raise CommandFailed(ended.err[-600:])
        seen = [each for each in seen if each[1]]
        return Kept(
            _middle(seen) * 6_000 / PER_MINUTE,
            busiest(seen, 1.0),
            busiest(seen, 10.0) * 600 / PER_MINUTE,
            server.counts()["peak"],
        )


@contextmanager
def _store(sharers: Sharers) -> Iterator[tuple[str, ...]]:
    if "--quota" not in sharers.flags:
        yield ()
        return
    with databases.serving() as database:
        yield "--store", database.database()


def busiest(seen: Seen, span: float) -> int:
    """The most requests between two looks that are at most so many seconds apart."""
    most = first = 0
    for last, (at, count) in enumerate(seen):
        while seen[first][0] < at - span:
            first += 1
        most = max(most, count - seen[first][1] if last > first else 0)
    return most


def _middle(seen: Seen) -> float:
    """Requests a second, without the first fifth and the last one."""
    total = seen[-1][1]
    part = [each for each in seen if 0.2 * total <= each[1] <= 0.8 * total]
    (began, first), (ended, last) = part[0], part[-1]
    assert all(a <= b for (_, a), (_, b) in pairwise(part)), "a count never falls"
    return (last - first) / max(ended - began, GLANCE)
