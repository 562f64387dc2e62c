"""`scale`: does a large sweep cost more for a cell than a small one? Models are simulated."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from tests.bench.command import Ended, oversight
from tests.bench.measured import Goal, Measured, at_most
from tests.bench.options import Options
from tests.bench.sweep import write_simulated, write_sweep

SIZES = 1_000, 10_000
"""Cells; and then the largest, as the command line says."""
TURNS = 8
"""Of the debates whose bytes are counted."""


@dataclass(frozen=True, slots=True)
class Size:
    """A sweep of so many cells, run in a process of its own."""

    cells: int
    run: Ended
    base: float
    """CPU seconds that a sweep of a few cells takes: to start, to report, to end."""

    @property
    def cpu(self) -> float:
        """Milliseconds for a cell."""
        return (self.run.cpu - self.base) / self.cells * 1000


def measure(options: Options) -> Measured:
    few = [_run(1) for _ in range(2)]
    base = min(run.cpu for _, run in few)
    wanted = *map(options.sized, SIZES), options.sized(options.cells)
    sizes = [Size(*_run(cells), base) for cells in wanted]
    calls, stored, plain = _bytes(options.sized(400))
    body = tuple(
        (
            f"{size.cells:,}",
            f"{size.run.wall:.1f}",
            f"{size.run.cpu:.1f}",
            f"{size.cpu:.3f}",
            f"{size.run.peak:.0f} MB",
        )
        for size in sizes
    )
    head = ("cells", "wall s", "CPU s", "CPU ms/cell", "peak memory")
    notes = (
        f"CPU of a cell without the {base:.2f} s that a sweep of {few[0][0]} cells takes.",
        f"{calls:,} calls of debates of {TURNS} turns: {stored / calls:,.0f} bytes of store for "
        f"one, {plain / calls:,.0f} as JSON.",
    )
    goals = (
        *_goals(sizes),
        at_most("bytes stored for a call", stored / plain, 1 / 3, " × its JSON"),
    )
    return Measured(
        "scale", Table("scale: sweeps on simulated models", head, body, 0, notes), goals
    )


def _goals(sizes: list[Size]) -> Iterator[Goal]:
    costs = [size.cpu for size in sizes]
    most = f"{sizes[0].cells:,} to {sizes[-1].cells:,} cells: CPU for a cell, most over least"
    yield at_most(most, max(costs) / min(costs), 1.15, " ×")
    peaks = sizes[-1].run.peak / sizes[-2].run.peak
    yield at_most(
        f"peak memory at {sizes[-1].cells:,} cells", peaks, 1.3, f" × at {sizes[-2].cells:,}"
    )


def _run(cells: int) -> tuple[int, Ended]:
    """A sweep of about so many cells: how many exactly, and what it took."""
    with TemporaryDirectory(prefix="bench-") as place:
        exact, sweep = write_simulated(Path(place), cells)
        return exact, oversight("run", sweep, "--run-folder", "run", folder=Path(place))


def _bytes(debates: int) -> tuple[int, int, int]:
    """Calls of so many debates, the bytes of their store, and those of their JSON."""
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        sweep = write_sweep(
            folder,
            range(debates // 2),
            agents={"model": "sim/strong"},
            judges=[{"kind": "stated", "model": "sim/judge"}],
            protocols={"debate": {"simultaneous": False, "rounds": TURNS // 2}},
        )
        oversight("run", sweep, "--run-folder", "run", folder=folder)
        told = json.loads(oversight("cache", "stats", "--json", folder=folder).out)
    return told["total"]["replies"], told["size"], told["total"]["plain_size"]
