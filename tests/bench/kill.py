"""`kill`: kill -9 when half of the calls are answered, and then the same command again."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.cache import ReadOnlyStore
from oversight.engine.display.table import Table
from oversight.engine.mock import Profile
from tests.bench.clients.asked import TURNS
from tests.bench.command import CommandFailed, Running, oversight
from tests.bench.measured import Measured, at_most, exactly
from tests.bench.options import Options
from tests.bench.server import LATENCY, Server
from tests.bench.sweep import write_debates

WIDTH = 200
PACES = {"50 ms": Profile(latency=LATENCY), "0.3 to 0.8 s": Profile(latency=0.5, spread=0.25)}
"""The first keeps the client busy all the time; the second is how models answer."""
GLANCE = 0.005
"""Seconds between two looks at how far it is."""


@dataclass(frozen=True, slots=True)
class Killed:
    """One round."""

    answered: int
    """Replies that were with the client's system when it was killed."""
    stored: int
    """Of them, those in the store."""
    lost: int
    """Of those, how many were asked again."""
    again: int
    """Calls that were answered twice."""


def measure(options: Options) -> Measured:
    debates = options.sized(WIDTH)
    need = debates * (TURNS + 1)
    found = {
        name: [_killed(debates, profile) for _ in range(options.rounds)]
        for name, profile in PACES.items()
    }
    body = tuple(
        (
            name,
            str(n),
            f"{each.answered:,}",
            f"{each.stored:,}",
            f"{each.lost:,}",
            f"{each.again:,}",
        )
        for name, rounds in found.items()
        for n, each in enumerate(rounds, 1)
    )
    table = Table(
        f"kill: {need:,} calls, {WIDTH} in flight, kill -9 at half, and the same command again",
        ("a reply takes", "round", "answered before", "stored", "stored and lost", "paid again"),
        body,
        1,
    )
    lost = sum(each.lost for rounds in found.values() for each in rounds)
    worst = {name: max(each.again for each in rounds) for name, rounds in found.items()}
    goals = (
        exactly("acknowledged replies lost, all rounds", lost, 0),
        *(
            at_most(
                f"answered calls paid again, worst round, replies of {name}", most, 20, digits=0
            )
            for name, most in worst.items()
        ),
    )
    return Measured("kill", table, goals)


def _killed(debates: int, profile: Profile) -> Killed:
    need = debates * (TURNS + 1)
    with TemporaryDirectory(prefix="bench-") as place, Server(profile) as server:
        folder = Path(place)
        sweep = write_debates(folder, range(debates // 2), lanes=WIDTH)
        again = ("run", sweep, "--run-folder", "run")
        running = Running(again, folder, server.url)
        while server.counts().get("ok", 0) < need // 2 and not running.ended:
            time.sleep(GLANCE)
        running.kill()
        if (ended := running.end()).code >= 0:
            raise CommandFailed(f"it ended by itself, with code {ended.code}: {ended.err[-600:]}")
        while server.counts()["in_flight"]:
            time.sleep(GLANCE)
        first = server.counts()
        store = ReadOnlyStore(folder / "store")
        stored = sum(1 for _ in store.items())
        store.close()
        oversight(*again, folder=folder, url=server.url)
        second = server.counts()
    asked = second["requests"] - first["requests"]
    return Killed(first["ok"], stored, asked - (need - stored), second["ok"] - need)
