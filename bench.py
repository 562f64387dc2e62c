"""Measures the engine, each figure next to a bare loop of the same run.

    python bench.py                          all of it: a table a bench, and what was to be reached
    python bench.py calls debates            some of it
    python bench.py --against openai calls   also peers, each in its own venv
    python bench.py --write-docs             put the figures into docs/performance.md

Other work on the machine distorts the figures: stop it first.
"""

from collections.abc import Callable
from pathlib import Path

import click

from tools.bench import calls, counts, debates, replays, report, slots, start, twin, width
from tools.bench.measured import Measured
from tools.bench.options import Options
from tools.bench.peers import PEERS, installed

BENCHES: dict[str, Callable[[Options], Measured]] = {
    module.__name__.rpartition(".")[2]: module.measure
    for module in (counts, start, calls, debates, replays, slots, width, twin)
}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[BENCH]…")
@click.option(
    "--rounds",
    default=3,
    type=click.IntRange(1),
    help="Runs of each client; figures are medians. `twin` has one.",
)
@click.option(
    "--size",
    default=1.0,
    type=click.FloatRange(0),
    help="Part of each workload to run: quicker and rougher.",
)
@click.option(
    "--gsm8k", type=click.Path(path_type=Path, exists=True), help="Its folder, for `twin`."
)
@click.option("--against", default="", metavar="A,B", help=f"Peers: {', '.join(PEERS)}.")
@click.option("--floor", is_flag=True, help="The bare promises too, alongside calls and debates.")
@click.option("--json", "form", flag_value="json")
@click.option("--markdown", "form", flag_value="markdown")
@click.option("--write-docs", "form", flag_value="docs", help="Into docs/performance.md.")
def main(
    names: tuple[str, ...],
    rounds: int,
    size: float,
    gsm8k: Path | None,
    against: str,
    floor: bool,
    form: str | None,
) -> None:
    if wrong := [name for name in names if name not in BENCHES]:
        raise click.UsageError(f"unknown bench {wrong[0]!r}: choose from {', '.join(BENCHES)}")
    options = Options(rounds, size, gsm8k, floor, installed(against))
    measured = []
    for name in names or BENCHES:
        click.echo(f"· {name}", err=True)
        measured.append(BENCHES[name](options))
        if form == "docs":
            # Each as soon as it is done: a later one may fail.
            click.echo(report.written(measured[-1:], form))
    if form != "docs":
        click.echo(report.written(measured, form or "text"))


if __name__ == "__main__":
    main()
