"""`oversight run`: start a sweep, or go on with it."""

import asyncio
import shlex
import sys
from pathlib import Path

import click

from oversight.cache.cache import Mode
from oversight.engine.accounting.prices import listed, load_prices
from oversight.engine.cli.completing import sweep_files
from oversight.engine.cli.options import (
    format_option,
    limit_option,
    max_cost_option,
    prices_option,
    run_folder_option,
    score_option,
    set_option,
    store_option,
)
from oversight.engine.cli.output import say, show
from oversight.engine.cli.terminal import Presentation, run_in_terminal
from oversight.engine.models.router import RunPolicy
from oversight.engine.providers.retirements import today
from oversight.engine.runs.listing import is_run
from oversight.engine.runs.loaded_sweep import open_sweep
from oversight.engine.runs.run import RunOptions
from oversight.engine.runs.walk import require_abilities, require_service
from oversight.engine.system.settings import store_path


@click.command()
@click.argument("sweep", type=click.Path(path_type=Path), shell_complete=sweep_files)
@set_option
@limit_option
@click.option(
    "--cache",
    "mode",
    type=click.Choice(["use", "refresh", "replay", "off"]),
    default="use",
    show_default=True,
    help="use: ask only for what is not stored; refresh: ask for everything again; replay: send "
    "nothing; off: neither read nor write the store.",
)
@store_option
@run_folder_option
@click.option("--retry-failed", is_flag=True, help="Run failed cells again.")
@max_cost_option
@prices_option
@click.option(
    "--accept-empty",
    is_flag=True,
    help="Go on although the store has lost replies, and pay for them again.",
)
@click.option("--dry-run", is_flag=True, help="Check everything, send nothing.")
@format_option
@score_option
def command(
    sweep: Path,
    overrides: tuple[str, ...],
    limit: int | None,
    mode: Mode,
    store: Path | None,
    run_folder: Path | None,
    retry_failed: bool,
    max_cost: float | None,
    prices: Path | None,
    accept_empty: bool,
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
    opened = open_sweep(sweep, overrides, limit)
    for note in opened.file.notes:
        say(note)
    if dry_run:
        grid = opened.sweep
        asyncio.run(require_abilities(grid, opened.models.simulated, opened.models.reach))
        require_service(opened.models.retirements(grid.models), today())
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
        store_path(store),
        run_folder,
        mode,
        overrides,
        retry_failed,
        max_cost,
        load_prices(prices) if prices else None,
        accept_empty,
    )
    raise SystemExit(run_in_terminal(opened, options, Presentation(again, format, score)))
