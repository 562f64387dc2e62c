"""`batches`: a large sweep in waves: what a walk costs, and how much memory all of it takes."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from oversight.engine.display.table import Table
from oversight.engine.mock.process import counts, serving
from tests.bench.command import Ended, oversight
from tests.bench.measured import Measured, at_most, exactly
from tests.bench.options import Options
from tests.bench.sweep import write_sweep

CELLS = 58_000
AGENTS = [f"openai/agent-{n}" for n in range(4)]
OF_A_QUESTION = 4 * len(AGENTS) * 2
"""Rows, and two worlds of each."""
DELAY = 2.0
"""Seconds that a batch takes."""
WALKS = 6
"""Five waves, four speeches of a sequential debate and its verdict, and the walk that ends."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that was asked in batches by a process of its own."""

    cells: int
    batches: int
    calls: int
    twice: int
    run: Ended


def measure(options: Options) -> Measured:
    questions, delay = max(options.sized(CELLS) // OF_A_QUESTION, 1), DELAY * options.size
    few = _run(1, delay)
    all = _run(questions, delay) if questions > 1 else few
    walk = (all.run.cpu - few.run.cpu) / WALKS
    row = (
        f"{all.cells:,}",
        f"{all.batches:,}",
        f"{all.calls:,}",
        f"{all.run.wall:.0f}",
        f"{all.run.cpu:.0f}",
        f"{walk:.1f}",
        f"{walk / all.cells * 1000:.2f}",
        f"{all.run.peak:.0f} MB",
    )
    head = ("cells", "batches", "calls", "wall s", "CPU s", "a walk", "ms/cell", "peak memory")
    notes = (f"A walk: of {WALKS}, with the calls that each hands in and takes home; CPU.",)
    goals = (
        at_most(f"peak memory at {all.cells:,} cells", all.run.peak, 200, " MB", 0),
        at_most("CPU for a cell and a walk", walk / all.cells * 1000, 0.5, " ms"),
        exactly("calls handed in twice", all.twice, 0),
    )
    title = "batches: a sweep in waves, against the rehearsal server's desk"
    return Measured("batches", Table(title, head, (row,), 0, notes), goals)


def _run(questions: int, delay: float) -> Sweep:
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        profile = folder / "profile.yaml"
        profile.write_bytes(orjson.dumps({"batch": {"delay": delay}}))
        (folder / ".env").write_text("OPENAI_API_KEY=bench\n")
        with serving(["--profile", str(profile)]) as url:
            sweep = write_sweep(
                folder,
                range(questions),
                agents={"model": AGENTS},
                judges=[{"kind": "distribution", "model": "openai/judge"}],
                protocols={
                    "propaganda": None,
                    "consultancy": {"turns": 2},
                    "debate": {"simultaneous": [True, False], "rounds": 2},
                },
                providers={"openai": {"base_url": f"{url}/v1"}},
            )
            ended = oversight("run", sweep, "--batch", folder=folder)
            seen = counts(url)
    cells = questions * OF_A_QUESTION
    return Sweep(cells, seen["batches"], seen["lines"], seen["lines_twice"], ended)
