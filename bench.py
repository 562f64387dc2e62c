"""Measures the engine, each figure beside a bare loop of the same run.

    python bench.py                        all of it: a table a bench, and what was to be reached
    python bench.py calls debates          some of it
    python bench.py --against openai calls    peers beside it, each in a venv of its own
    python bench.py --write-docs           put the figures into docs/performance.md

A machine that does something else besides gives figures of that: quiet it first.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from tests.bench import (
    batches,
    calls,
    counts,
    debates,
    faults,
    fleet,
    kill,
    limits,
    report,
    rerun,
    scale,
    shares,
    slots,
    start,
    team,
    twin,
)
from tests.bench.measured import Measured
from tests.bench.options import Options
from tests.bench.peers import PEERS, installed
from tests.databases import lacking

MODULES = (
    *(counts, calls, debates, start, slots),
    *(rerun, twin, faults, kill, limits, scale, fleet, shares, batches),
    *(() if lacking() else (team,)),
)
LONG = {"rerun", "faults", "kill", "limits", "scale", "twin", "fleet", "shares", "batches", "team"}
"""Benches that take a minute or more, even once."""
BENCHES: dict[str, Callable[[Options], Measured]] = {
    module.__name__.rpartition(".")[2]: module.measure for module in MODULES
}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[BENCH]…")
@click.option(
    "--rounds", default=5, type=click.IntRange(1), help="Runs of each client; figures are medians."
)
@click.option(
    "--size",
    default=1.0,
    type=click.FloatRange(0),
    help="Part of each workload to run: quicker and rougher.",
)
@click.option(
    "--cells", default=100_000, type=click.IntRange(1), help="The largest sweep of `scale`."
)
@click.option(
    "--gsm8k", type=click.Path(path_type=Path, exists=True), help="Its folder, for `twin`."
)
@click.option(
    "--minutes",
    type=click.FloatRange(0),
    help="Give the long benches one round, and leave out those that would begin after so long.",
)
@click.option("--against", default="", metavar="A,B", help=f"Peers: {', '.join(PEERS)}.")
@click.option("--json", "form", flag_value="json")
@click.option("--markdown", "form", flag_value="markdown")
@click.option("--write-docs", "form", flag_value="docs", help="Into docs/performance.md.")
def main(
    names: tuple[str, ...],
    rounds: int,
    size: float,
    cells: int,
    gsm8k: Path | None,
    minutes: float | None,
    against: str,
    form: str | None,
) -> None:
    if unknown := [name for name in names if name not in BENCHES]:
        raise click.UsageError(f"no bench {unknown[0]!r}; there are {', '.join(BENCHES)}")
    options = Options(rounds, size, cells, gsm8k, installed(against))
    measured = []
    began = time.monotonic()
    for name in names or BENCHES:
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            click.echo(f"· {name} left out: {minutes:g} minutes are over", err=True)
            continue
        click.echo(f"· {name}", err=True)
        once = minutes is not None and name in LONG
        measured.append(BENCHES[name](replace(options, rounds=1) if once else options))
        if form == "docs":
            # Each as soon as it is done: a later one may fail.
            click.echo(report.written(measured[-1:], form))
    if form != "docs":
        click.echo(report.written(measured, form or "text"))


if __name__ == "__main__":
    main()
