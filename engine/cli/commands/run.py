"""`oversight run`: start a sweep, or resume it."""

import os
import re
from pathlib import Path
from typing import Any, get_args

import click

from ....cache.cache import Mode
from ...accounting.prices import listed, load_prices
from ...batches.terms import BatchTerms, Then
from ...fleet.executor_choice import Workers, executor_for
from ...models.router import RunPolicy
from ...providers.trust import ALLOW_ADDRESS, VOUCH
from ...runs.listing import folder_named, is_run
from ...runs.loaded_sweep import load_sweep
from ...runs.parts import SweepPart
from ...runs.run import RunOptions
from ...runs.stores import store_name
from ...sweeps.sweepfile import read_sweep_file
from ..completing import run_names, sweep_files
from ..dry_run import dry_run_of
from ..options import (
    adopt_code_option,
    batch_option,
    format_option,
    grace_option,
    limit_option,
    max_cost_option,
    prices_option,
    run_folder_option,
    score_option,
    set_option,
    store_option,
)
from ..output import say, typed
from ..terminal import Presentation, run_in_terminal


def _workers(ctx: click.Context, param: click.Parameter, given: Any) -> Workers:
    return "auto" if given == "auto" else int(click.IntRange(1).convert(given, param, ctx))


def _seconds(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hms])", given)
    if match is None:
        raise click.BadParameter(f"{given!r} is no time: write it as 6h, 90m or 30s")
    return float(match[1]) * {"h": 3600.0, "m": 60.0, "s": 1.0}[match[2]]


@click.command()
@click.argument("sweep", type=click.Path(path_type=Path), shell_complete=sweep_files)
@set_option
@limit_option
@click.option(
    "--cache",
    "mode",
    type=click.Choice(["use", "refresh", "replay", "off"]),
    default="use",
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
@click.option(
    "--keep-going",
    is_flag=True,
    help="Go on with rows whose first cells all failed for one cause, which are paused otherwise.",
)
@click.option(
    "--workers",
    callback=_workers,
    default="1",
    metavar="N|auto",
    help="Processes; auto: a core each, unless a vendor's account is what binds.",
)
@click.option(
    "--ray",
    default="",
    show_default=False,
    metavar="ADDRESS|auto",
    help="Workers on a Ray cluster.",
)
@click.option(
    "--part",
    default="",
    show_default=False,
    metavar="K/N",
    help="Every Nth problem, from the Kth on.",
)
@click.option(
    "--quota", is_flag=True, help="Share the models' limits with other runs of this database."
)
@click.option(
    "--allow-address",
    multiple=True,
    metavar="PROVIDER",
    help="Send your key to the address that .env beside the sweep names.",
)
@click.option(
    "--vouch",
    multiple=True,
    metavar="PROVIDER",
    help="Its address is a gateway to the vendor whose identity the sweep file gives it.",
)
@adopt_code_option
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="RUN",
    shell_complete=run_names,
    help="Take over cells that this run has of the same code, and no others; repeatable. Default: "
    "from the other runs in runs/.",
)
@click.option(
    "--verify",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Replay so many cells of each run before any is taken over from it.",
)
@grace_option
@batch_option
@click.option(
    "--no-wait",
    is_flag=True,
    help="Do not wait for batches: do what can be done now; later the same command goes on.",
)
@click.option(
    "--batch-for",
    "patience",
    callback=_seconds,
    metavar="6h",
    help="How long to wait for batches in all; then they are cancelled, and the rest asked live.",
)
@click.option(
    "--batch-then",
    "then",
    type=click.Choice(list(get_args(Then))),
    default="live",
    help="What to do with a call that three batches brought no reply to.",
)
@click.option(
    "--until",
    metavar="AIM",
    help="Stop once it is known so precisely: 'debate - consultancy ± 0.05'.",
)
@click.option(
    "--stop-when",
    metavar="AIM",
    help="Stop once this is known to be true, or to be false: 'debate > consultancy'.",
)
@click.option("--dry-run", is_flag=True, hidden=True, help="plan --dry-run, by its old name.")
@format_option
@score_option
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
    keep_going: bool,
    workers: Workers,
    ray: str,
    part: str,
    quota: bool,
    grace: float | None,
    allow_address: tuple[str, ...],
    vouch: tuple[str, ...],
    adopt_code: bool,
    sources: tuple[str, ...],
    verify: int,
    batch: bool,
    no_wait: bool,
    patience: float | None,
    then: Then,
    until: str | None,
    stop_when: str | None,
    dry_run: bool,
    format: str,
    score: str,
) -> None:
    """Start SWEEP, or resume it, and print its report.

    The same command resumes after a stop, a crash or a kill: what was paid for is in the store,
    and cells that have an outcome are not run again.

    Cells that another run in runs/ has of the same code, on the same store, are taken
    over from it. A run that was made with other code is left alone: what changed is told row by
    row, and --adopt-code goes on with it.

    With --batch, calls are handed in at the batch endpoints of OpenAI and Anthropic, wave after
    wave. A stop leaves them there, and the same command collects their replies.

    With --until or --stop-when, problems are run in a seeded order, and a difference of ASD is
    checked after fixed numbers of them, with an interval that holds at all looks at once. The
    same command decides the same after every stop; without the flag, it runs the rest.

    Exit codes: 0 complete or decided, 1 some cells failed, 2 the sweep file or a flag is wrong, 3
    stopped and resumable, 4 the budget is reached, 5 a replay met a call that was never recorded,
    130, 138 and 143 stopped by a signal.
    """
    if until is not None and stop_when is not None:
        raise click.UsageError("--until or --stop-when: one aim decides when a run may stop")
    if part and (until is not None or stop_when is not None):
        raise click.UsageError("--until and --stop-when look at a whole sweep: leave out --part")
    # In the environment, which workers share.
    for variable, given in ((ALLOW_ADDRESS, allow_address), (VOUCH, vouch)):
        if given:
            os.environ[variable] = ",".join((*given, os.environ.get(variable, "")))
    file = read_sweep_file(sweep, overrides, limit)
    opened = load_sweep(SweepPart.read(part).of(file) if part else file)
    design = None
    if until is not None or stop_when is not None:
        # Imported here, with numpy: nothing before the first request of other runs needs it.
        from ...decisions.sequential import SequentialDesign
        from ...decisions.statement import read_direction, read_precision

        aim = read_precision(until) if until is not None else read_direction(str(stop_when))
        design = SequentialDesign(opened.sweep, aim, score)
    for note in opened.file.notes:
        say(note)
    terms = BatchTerms(batch, not no_wait, patience, then)
    if dry_run:
        say("run --dry-run is called plan --dry-run now; the old flag goes in version 0.3")
        policy = RunPolicy(load_prices(prices) if prices else listed(), max_cost)
        dry_run_of(opened, sweep, batch, policy)
        return
    if is_run(sweep.parent):
        say(f"{sweep} is that of a run: without its replies in your store they are paid again")
        say(f"whoever has them: oversight export {sweep.parent}; then here: oversight cache import")
    place = store_name(store)
    options = RunOptions(
        place,
        run_folder,
        mode,
        overrides,
        retry_failed,
        max_cost,
        load_prices(prices) if prices else None,
        part,
        accept_empty,
        keep_going,
        "adopt" if adopt_code else "refuse",
        tuple(map(folder_named, sources)) if sources else None,
        verify,
        design.batches if design else None,
    )
    executor = executor_for(workers, opened, place, quota=quota, ray=ray, batch=terms)
    shown = Presentation(typed(), format, score, design, grace)
    raise SystemExit(run_in_terminal(opened, options, shown, executor))
