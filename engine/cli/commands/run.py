"""`oversight run`: start a sweep, or go on with it."""

import asyncio
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import Any

import click

from oversight.cache.cache import Mode
from oversight.engine.accounting.prices import listed, load_prices
from oversight.engine.cli.completing import sweep_files
from oversight.engine.cli.number import Number
from oversight.engine.cli.output import say, show
from oversight.engine.cli.terminal import Presentation, run_in_terminal
from oversight.engine.fleet.staff import Workers, executor_for
from oversight.engine.models.router import RunPolicy
from oversight.engine.reports.report import FORMATS
from oversight.engine.runs.listing import is_run
from oversight.engine.runs.loaded_sweep import load_sweep
from oversight.engine.runs.parts import Part
from oversight.engine.runs.run import RunOptions
from oversight.engine.runs.stores import store_name
from oversight.engine.runs.walk import require_abilities, require_service
from oversight.engine.sweeps.sweepfile import read_sweep_file
from oversight.protocols.scores import SCORES


class WorkersOption(click.ParamType[Workers]):
    """A number of processes, or `auto`."""

    name = "workers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Workers:
        return "auto" if value == "auto" else int(click.IntRange(1).convert(value, param, ctx))


@click.command()
@click.argument("sweep", type=click.Path(path_type=Path), shell_complete=sweep_files)
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a setting.")
@click.option("--limit", type=click.IntRange(1), help="Run the first so many problems only.")
@click.option(
    "--cache",
    "mode",
    type=click.Choice(["use", "refresh", "replay", "off"]),
    default="use",
    show_default=True,
    help="Use stored replies; ask again for all; ask for none; or neither read nor write.",
)
@click.option(
    "--store", metavar="PATH|URL", help="Where replies are kept: a folder, or postgresql://…"
)
@click.option("--run-folder", type=click.Path(path_type=Path), help="Default: runs/NAME-xxxxxx.")
@click.option("--retry-failed", is_flag=True, help="Run cells that failed once more.")
@click.option("--max-cost", type=Number(0), help="Dollars for the whole run; stops there.")
@click.option("--prices", type=click.Path(path_type=Path, exists=True), help="A price file.")
@click.option("--accept-empty", is_flag=True, help="Pay again for replies that the store has lost.")
@click.option(
    "--workers",
    type=WorkersOption(),
    default=1,
    show_default=True,
    metavar="N|auto",
    help="Processes; auto: a core each, unless a vendor's account is what binds.",
)
@click.option("--ray", default="", metavar="ADDRESS|auto", help="Workers on a Ray cluster.")
@click.option("--part", default="", metavar="K/N", help="Every Nth problem, from the Kth on.")
@click.option(
    "--quota", is_flag=True, help="Share the models' limits with other runs of this database."
)
@click.option("--dry-run", is_flag=True, help="Check everything and send nothing.")
@click.option("--format", "format", type=click.Choice(list(FORMATS)), default="text")
@click.option("--json", "format", flag_value="json", help="The same as --format json.")
@click.option("--score", type=click.Choice(list(SCORES)), default="brier", show_default=True)
def command(
    sweep: Path,
    overrides: tuple[str, ...],
    limit: int | None,
    mode: Mode,
    store: str | None,
    run_folder: Path | None,
    retry_failed: bool,
    max_cost: float | None,
    prices: Path | None,
    accept_empty: bool,
    workers: Workers,
    ray: str,
    part: str,
    quota: bool,
    dry_run: bool,
    format: str,
    score: str,
) -> None:
    """Start SWEEP, or go on with it, and print its report.

    The same command resumes after a stop, a crash or a kill: what was paid for is in the store,
    and cells that have an outcome are not run again.

    Exit codes: 0 complete, 1 some cells failed, 2 the sweep file or a flag is wrong, 3 stopped
    and resumable, 4 the budget is reached, 5 a replay met a call that was never recorded, 130 and
    143 stopped by a signal.
    """
    file = read_sweep_file(sweep, overrides, limit)
    opened = load_sweep(Part.read(part).of(file) if part else file)
    if dry_run:
        grid = opened.sweep
        asyncio.run(require_abilities(grid, opened.models.simulated))
        require_service(opened.models.retirements(grid.models), date.today())
        opened.models.prepare(
            grid.roles, RunPolicy(load_prices(prices) if prices else listed(), max_cost)
        )
        show(f"{sweep}: fine. {len(grid):,} cells; models: {', '.join(grid.models)}")
        return
    if is_run(sweep.parent):
        say(f"{sweep} is that of a run: without its replies in your store they are paid again")
        say(f"whoever has them: oversight export {sweep.parent}; then here: oversight cache import")
    again = shlex.join(["oversight", *sys.argv[1:]])
    options = RunOptions(
        store_name(store),
        run_folder,
        mode,
        overrides,
        retry_failed,
        max_cost,
        load_prices(prices) if prices else None,
        part,
        accept_empty,
    )
    executor = executor_for(workers, opened.sweep, store_name(options.store), quota=quota, ray=ray)
    shown = Presentation(again, format, score)
    raise SystemExit(run_in_terminal(opened, options, shown, executor))
