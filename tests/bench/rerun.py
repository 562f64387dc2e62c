"""`rerun`: a sweep whose calls are all stored, in a fresh process into a new run folder; and a
finished run, asked again."""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from tests.bench.client import interleaved
from tests.bench.clients.asked import Job
from tests.bench.command import CommandFailed, Ended, oversight
from tests.bench.measured import Measured, at_least, at_most, wall
from tests.bench.options import Options
from tests.bench.server import Server
from tests.bench.sweep import write_simulated
from tests.command_line import calls

CELLS = 58_000
PEERS_CALLS = 1000
"""What peers are asked again: most would take minutes for as many as a sweep has."""


def measure(options: Options) -> Measured:
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        cells, sweep = write_simulated(folder, options.sized(CELLS))
        first = oversight("run", sweep, "--run-folder", "run-0", folder=folder)
        hits, again = [], []
        for n in range(1, options.rounds + 1):
            hits.append(oversight("run", sweep, "--run-folder", f"run-{n}", folder=folder))
            again.append(oversight("run", sweep, "--run-folder", "run-0", folder=folder))
    asked = calls(first.err).asked
    for ended in hits:
        if calls(ended.err).stored != asked:
            raise CommandFailed(f"not all of {asked:,} calls were stored: {ended.err[-300:]}")
    a_second = asked / _wall(hits)
    body = (
        ("first run, models simulated", *_figures([first]), ""),
        ("into a new run folder, all stored", *_figures(hits), f"{a_second:,.0f}"),
        ("the finished run, asked again", *_figures(again), ""),
    )
    beside, notes = _peers(options)
    table = Table(
        f"rerun: {cells:,} cells, {asked:,} calls, {calls(first.err).new:,} of them distinct",
        ("a fresh process each", "wall s", "CPU s", "peak memory", "hits/s"),
        (*body, *beside),
        1,
        (
            "hits/s: calls that the store answered, read, decoded and judged, over the whole wall.",
            *notes,
        ),
    )
    goals = (
        at_least("hits, judged again, over the whole wall", a_second, 22_000, "/s"),
        at_most(f"a finished run of {cells:,} cells asked again", _wall(again), 2, " s"),
    )
    return Measured("rerun", table, goals)


def _peers(options: Options) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """A row for each, and notes; nothing without peers."""
    clients = options.peers_for("rerun")
    if not clients:
        return (), ()
    count = options.sized(PEERS_CALLS)
    with Server() as server:
        found = interleaved(clients, "rerun", Job(server.url, count, 200, ""), options.rounds)
    rows = tuple(
        (
            client.name,
            f"{wall(readings):.2f}",
            f"{median(reading.cpu for reading in readings):.2f}",
            f"{max(reading.peak for reading in readings):.0f} MB",
            f"{count / wall(readings):,.0f}",
        )
        for client, readings in found.readings.items()
    )
    told = f"peers: {count:,} calls, asked again in one process, whose start is not counted."
    return rows, (told, *found.notes)


def _figures(ended: list[Ended]) -> tuple[str, str, str]:
    """Medians of wall and CPU, and the largest peak."""
    cpu = median(each.cpu for each in ended)
    return f"{_wall(ended):.2f}", f"{cpu:.2f}", f"{max(each.peak for each in ended):.0f} MB"


def _wall(ended: list[Ended]) -> float:
    return median(each.wall for each in ended)
