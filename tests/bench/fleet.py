"""`fleet`: a sweep on one worker and on two, from nothing and from the store: what a core more is
worth."""

from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from tests.bench.command import oversight
from tests.bench.measured import Measured, at_least, exactly
from tests.bench.options import Options
from tests.bench.sweep import write_simulated

CELLS = 58_000
WORKERS = 2


MODES = {"first": (), "stored": (), "unstored": ("--cache", "off")}
TOLD = {
    "first": "first run, into an SQLite store",
    "stored": "again, from the store",
    "unstored": "without a store",
}


def measure(options: Options) -> Measured:
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        cells, sweep = write_simulated(folder, options.sized(CELLS))
        walls: dict[tuple[str, int], list[float]] = {}
        peak = 0.0
        outcomes: set[bytes] = set()
        for n, workers, how in product(range(options.rounds), (1, WORKERS), MODES):
            name = f"{how}-{workers}-{n}"
            ended = oversight(
                *("run", sweep, "--run-folder", name, "--store", f"store-{workers}-{n}"),
                *("--workers", str(workers), *MODES[how]),
                folder=folder,
            )
            walls.setdefault((how, workers), []).append(ended.wall)
            peak = max(peak, ended.peak)
            outcomes.add((folder / name / "outcomes.jsonl").read_bytes())
    one, more = ({how: median(walls[how, w]) for how in MODES} for w in (1, WORKERS))
    body = tuple(
        (TOLD[how], f"{one[how]:.2f}", f"{more[how]:.2f}", f"{one[how] / more[how]:.2f}")
        for how in MODES
    )
    table = Table(
        f"fleet: {cells:,} cells on simulated models, one process and {WORKERS} workers",
        ("", "1 worker s", f"{WORKERS} workers s", "times as fast"),
        body,
        1,
        (f"from the command's start to its end, report included; largest process {peak:.0f} MB",),
    )
    goals = (
        at_least("from the store", one["stored"] / more["stored"], 1.7, " ×", 2),
        at_least("first run", one["first"] / more["first"], 1.6, " ×", 2),
        at_least("without a store", one["unstored"] / more["unstored"], 1.8, " ×", 2),
        exactly("runs with other bytes", len(outcomes) - 1, 0),
    )
    return Measured("fleet", table, goals)
