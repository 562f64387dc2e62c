"""`counts`: Python calls and bytes per call, hit and cell. Other load on the machine moves these
figures by a few per cent at most.

Each workload is run at two sizes, in fresh processes: the difference is what one more costs, and
what is left is what a run costs once."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from tempfile import NamedTemporaryFile, TemporaryDirectory

from oversight.engine.display.table import Table
from tools.bench.client import BARE, CLIENTS, PLAIN, SDK, Client, ClientFailed, environment
from tools.bench.clients.asked import Job
from tools.bench.measured import Measured, at_most
from tools.bench.options import Options
from tools.bench.server import Server

COUNT, LEAST = 200, 64
"""Calls, debates or hits of the smaller run, and the fewest that it may have: fewer hits are one
problem's. The larger run has twice as many."""

MOST = {
    "a call, plain transport": (198, 53_000),
    "a call, SDK transport": (1_250, 70_000),
    "a call in a debate": (197, 62_000),
    "a cell from the store": (248, 300_000),
}
"""Maximum of Python calls for one more, and once per run: the reached values plus a few per cent.
The SDK has a fifth, since its own calls depend on its open connections, and under load on the
number of waiting calls (1,138 seen, 1,026 alone). That moves some 15,000 between the two figures;
the bound of the plain transport covers the rest of a run's fixed cost."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one more, or of a whole run."""

    python: float
    """Calls of functions written in Python; a resumed coroutine counts as one."""
    builtin: float
    """Calls of functions written in C."""
    kept: float
    """Blocks of memory that stay allocated."""
    system: float | None = None
    """System calls; None where `strace` is not installed."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A workload: of one more of it, and of a run without any."""

    more: Counts
    once: Counts
    places: Mapping[str, float]
    """Python calls of one more, by file and function."""


def measure(options: Options) -> Measured:
    small = options.size < 1
    count = options.sized(COUNT, LEAST)
    with Server() as server:
        found = {
            what: counted(client, workload, Job(server.url, count, 50, ""), strace=not small)
            for what, (client, workload) in WORKLOADS.items()
        }
    body = tuple(
        (
            what,
            *(_figure(value) for value in _figures(each.more)),
            *(_figure(value, 0) for value in _figures(each.once)[:2]),
        )
        for what, each in found.items()
    )
    head = ("one more", "Python calls", "C calls", "blocks kept", "system calls")
    table = Table(
        "counts: one more of each, and what a run takes once",
        (*head, "once: Python calls", "once: C calls"),
        body,
        1,
        ("where they are: python bench.py counts --json",),
    )
    goals = tuple(
        at_most(f"{what}: Python calls {when}", count, most, digits=0)
        for what, (more, once) in MOST.items()
        for when, count, most in (
            ("for one more", found[what].more.python, more),
            ("once a run", found[what].once.python, once),
        )
    )
    return Measured("counts", table, goals)


WORKLOADS: dict[str, tuple[Client, str]] = {
    "a call of the bare loop": (BARE, "calls"),
    "a call, plain transport": (PLAIN, "calls"),
    "a call, SDK transport": (SDK, "calls"),
    "a call in a debate": (PLAIN, "debates"),
    "a cell from the store": (PLAIN, "hits"),
}


def counted(client: Client, workload: str, job: Job, *, strace: bool = False) -> Counted:
    """ClientFailed if the workload cannot be run."""
    less, more = (_run(client, workload, job, times) for times in (1, 2))
    answered = more["answered"] - less["answered"]
    system: list[float | None] = [None, None]
    if strace and shutil.which("strace"):
        traced = [_system_calls(client, workload, job, times) for times in (1, 2)]
        one = (traced[1] - traced[0]) / answered
        system = [one, traced[0] - one * less["answered"]]

    def each(name: str) -> tuple[float, float]:
        one = (more[name] - less[name]) / answered
        return one, less[name] - one * less["answered"]

    figures = [each(name) for name in ("python", "builtin", "kept")]
    places: Counter[str] = Counter(more["places"])
    places.subtract(less["places"])
    return Counted(
        Counts(*(one for one, _ in figures), system=system[0]),
        Counts(*(once for _, once in figures), system=system[1]),
        {place: count / answered for place, count in places.most_common() if count},
    )


def _run(client: Client, workload: str, job: Job, times: int) -> dict[str, dict[str, int] | int]:
    with TemporaryDirectory(prefix="bench-") as folder:
        ended = _process(client, workload, _sized(client, job, times, folder), folder)
    counts: dict[str, dict[str, int] | int] = json.loads(ended.stdout.splitlines()[-1])
    return counts


def _system_calls(client: Client, workload: str, job: Job, times: int) -> int:
    with TemporaryDirectory(prefix="bench-") as folder, NamedTemporaryFile("r") as told:
        sized = replace(_sized(client, job, times, folder), counted=False)
        _process(client, workload, sized, folder, "strace", "-f", "-c", "-o", told.name)
        found = re.search(r"^100\.00 +\S+ +\S+ +(\d+)", told.read(), re.MULTILINE)
    return int(found[1]) if found else 0


def _sized(client: Client, job: Job, times: int, folder: str) -> Job:
    return replace(
        job,
        count=times * job.count,
        folder=folder,
        transport=client.transport,
        counted=True,
    )


def _process(
    client: Client, workload: str, job: Job, folder: str, *before: str
) -> "subprocess.CompletedProcess[str]":
    words = [*before, client.python, str(CLIENTS / client.script), workload]
    ended = subprocess.run(
        [*words, json.dumps(asdict(job))],
        capture_output=True,
        text=True,
        check=False,
        # Sets of strings are gone through in one order.
        env=environment(client, job) | {"PYTHONHASHSEED": "0"},
    )
    if ended.returncode:
        raise ClientFailed(client, ended.stderr[-600:])
    return ended


def _figures(counts: Counts) -> tuple[float | None, ...]:
    return counts.python, counts.builtin, counts.kept, counts.system


def _figure(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
