"""`team`: a store in PostgreSQL: what a group of replies costs, and two runs of one sweep at one
moment."""

import hashlib
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from oversight.engine.mock import Profile
from oversight.engine.runs.stores import open_store
from tests.bench.clients.asked import TURNS
from tests.bench.command import CommandFailed, Running
from tests.bench.measured import Measured, at_least, exactly
from tests.bench.options import Options
from tests.bench.server import Server
from tests.bench.sweep import write_debates
from tests.databases import serving

ENTRIES, GROUP, SIZE = 50_000, 256, 1_200
"""Replies, replies a group, bytes of one."""
CALLS = 1_000


def measure(options: Options) -> Measured:
    """Where no server can be started, `tests.databases.lacking` says why."""
    with serving(durable=True) as database:
        writes, reads = _groups(database.database(), options.sized(ENTRIES, 2 * GROUP))
        calls, requests, repeats = _two_runs(database.database(), options.sized(CALLS))
    body = (
        (f"writes, {GROUP} a group", f"{writes:,.0f}/s"),
        (f"reads, {GROUP} a group", f"{reads:,.0f}/s"),
        (f"two runs of {calls:,} calls: requests", f"{requests:,}"),
        ("of them, asked twice", f"{repeats:,}"),
    )
    table = Table("team: one store in PostgreSQL, on this machine", ("", ""), body, 1)
    goals = (
        at_least("durable writes in groups", writes, 10_000, "/s"),
        at_least("reads in groups", reads, 50_000, "/s"),
        exactly("calls paid twice", repeats, 0),
    )
    return Measured("team", table, goals)


def _groups(url: str, count: int) -> tuple[float, float]:
    """(writes, reads) a second."""
    value = bytes(range(256)) * (SIZE // 256 + 1)
    entries = [(hashlib.sha256(str(n).encode()).hexdigest(), value[:SIZE]) for n in range(count)]
    groups = [entries[at : at + GROUP] for at in range(0, count, GROUP)]
    with closing(open_store(url)) as store:
        began = time.perf_counter()
        for group in groups:
            store.keep_many(group)
        written = time.perf_counter()
        for group in groups:
            if len(store.get_many([key for key, _ in group])) != len(group):
                raise CommandFailed("what was written was not read")
        read = time.perf_counter()
    return count / (written - began), count / (read - written)


def _two_runs(url: str, calls: int) -> tuple[int, int, int]:
    """(distinct calls, requests, those of them that were asked twice)."""
    with TemporaryDirectory(prefix="bench-") as place, Server(Profile(latency=0.2)) as server:
        folder = Path(place)
        sweep = write_debates(folder, range(max(calls // (2 * (TURNS + 1)), 2)))
        runs = [
            Running(("run", sweep, "--run-folder", name, "--store", url), folder, server.url)
            for name in ("one", "two")
        ]
        for running in runs:
            if (ended := running.end()).code:
                raise CommandFailed(ended.err[-600:])
        seen = server.counts()
    with closing(open_store(url)) as store:
        return len(store), seen["requests"], seen["repeats"]
