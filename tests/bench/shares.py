"""`shares`: one limit of 6,000 a minute under one process and under several workers: how much of it
is used, and is it ever broken?"""

import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from oversight.engine.rehearsal import Profile
from tests.bench.clients.asked import MAX_TOKENS, TURNS
from tests.bench.command import CommandFailed, Running
from tests.bench.measured import Measured, at_least, at_most
from tests.bench.options import Options
from tests.bench.server import Server
from tests.bench.sweep import MODELS, write_sweep

CALLS = 4_000
PER_MINUTE = 6_000
LATENCY = Profile(latency=0.5, spread=0.5)
WORKERS = (1, 2, 4)
GLANCE = 0.02
"""Seconds between two looks at how many requests the server has seen."""

Seen = list[tuple[float, int]]
"""(seconds, requests so far), look by look."""


def measure(options: Options) -> Measured:
    body, goals = [], []
    for workers in WORKERS:
        seen, peak = _run(options.sized(CALLS), workers)
        used = _middle(seen) * 60 / PER_MINUTE
        second, ten = busiest(seen, 1.0), busiest(seen, 10.0)
        body.append((f"{workers}", f"{used:.1%}", f"{second:,}", f"{ten:,}", f"{peak:,}"))
        goals += [
            at_least(f"used by {workers}, of the limit", 100 * used, 97, " %", 1),
            at_most(f"busiest 10 s of {workers}", ten * 6 / PER_MINUTE * 100, 101, " %", 1),
            at_most(f"busiest second of {workers}", second, 112, " requests", 0),
        ]
    table = Table(
        f"shares: {PER_MINUTE:,} requests a minute, replies after about {LATENCY.latency} s",
        ("workers", "used in the middle", "busiest second", "busiest 10 s", "most at once"),
        tuple(body),
        1,
        (f"as the server counted its requests, looked at every {GLANCE * 1000:.0f} ms.",),
    )
    return Measured("shares", table, tuple(goals))


def _run(calls: int, workers: int) -> tuple[Seen, int]:
    """What the server saw, and the most that it had in flight."""
    model = MODELS["plain"]
    with TemporaryDirectory(prefix="bench-") as place, Server(LATENCY) as server:
        folder = Path(place)
        sweep = write_sweep(
            folder,
            range(max(calls // (2 * (TURNS + 1)), 2 * workers)),
            lanes=256,
            agents={"model": model, "max_tokens": MAX_TOKENS},
            judges=[{"kind": "stated", "model": model}],
            protocols={"debate": {"simultaneous": False, "rounds": TURNS // 2}},
            models={model: {"requests": PER_MINUTE}},
        )
        words = ("run", sweep, "--run-folder", "run", "--workers", str(workers))
        running = Running(words, folder, server.url)
        seen: Seen = []
        while not running.ended:
            seen.append((time.monotonic(), server.counts().get("requests", 0)))
            time.sleep(GLANCE)
        ended = running.end()
        if ended.code:
            raise CommandFailed(ended.err[-600:])
        return [each for each in seen if each[1]], server.counts()["peak"]


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
