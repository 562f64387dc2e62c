"""`twin`: the grid of the benchmark's Appendix A on simulated models, as its users run it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import yaml

from oversight.engine.display.table import Table
from oversight.engine.run.reader import RunReader
from tests.command_line import calls
from tools.bench.client import ROOT
from tools.bench.command import CommandFailed, oversight
from tools.bench.measured import Measured, at_least, at_most
from tools.bench.options import Options

EXAMPLE = ROOT / "examples" / "appendix_a_sim.yaml"
PROBLEMS = 100


def measure(options: Options) -> Measured:
    problems: dict[str, object] = {"bundled": "arithmetic"}
    if options.gsm8k:
        problems = {"gsm8k": {"folder": str(options.gsm8k.resolve())}}
    limit = str(options.sized(PROBLEMS, 1))
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        sweep = folder / EXAMPLE.name
        # JSON is YAML.
        sweep.write_bytes(
            orjson.dumps(yaml.safe_load(EXAMPLE.read_text()) | {"problems": problems})
        )
        first, stored, again = (
            oversight("run", sweep, "--limit", limit, "--run-folder", run, folder=folder)
            for run in ("run-1", "run-2", "run-2")
        )
        cells = sum(1 for _ in RunReader(folder / "run-1").outcomes())
    done = {
        "first run": first,
        "into a new run folder, all stored": stored,
        "the finished run, asked again": again,
    }
    body = tuple(
        (what, f"{run.wall:.1f}", f"{run.cpu:.1f}", f"{run.peak:.0f} MB")
        for what, run in done.items()
    )
    if calls(stored.err).new:
        raise CommandFailed(f"not all calls were stored: {stored.err[-300:]}")
    hits = calls(stored.err).asked
    asked, on = calls(first.err), "GSM8K" if options.gsm8k else "the bundled problems"
    title = (
        f"twin: {EXAMPLE.name} on {on}, {cells:,} cells, {asked.asked:,} calls, "
        f"{asked.new:,} of them distinct"
    )
    goals = (
        at_most("first run: wall", first.wall, 120, " s", 0),
        at_most("first run: peak memory", first.peak, 500, " MB", 0),
        at_least("hits from the store, judged again", hits / stored.wall, 22_000, "/s"),
        at_most(f"the finished run of {cells:,} cells, asked again: wall", again.wall, 2, " s"),
    )
    table = Table(title, ("a fresh process each", "wall s", "CPU s", "peak memory"), body, 1)
    return Measured("twin", table, goals)
