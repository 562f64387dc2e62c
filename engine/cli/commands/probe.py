"""`oversight probe`: what judges believe after each turn."""

import asyncio
from contextlib import closing
from pathlib import Path

import click

from oversight.cache.cache import Cache
from oversight.cache.store import Store
from oversight.engine.accounting.budget import dollars
from oversight.engine.accounting.ledger_file import LedgerFile
from oversight.engine.accounting.prices import listed
from oversight.engine.cli.exit_codes import ExitCode
from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import max_cost_option, row_options, run_store_option
from oversight.engine.cli.output import say, show
from oversight.engine.cli.signals import obey_signals
from oversight.engine.display.progress import Snapshot
from oversight.engine.errors import BudgetReached, Halt, Interrupted, UsageError
from oversight.engine.models.router import RunPolicy
from oversight.engine.runs.loaded_sweep import LoadedSweep, open_run
from oversight.engine.runs.lock import locked
from oversight.engine.runs.lookup import Parts
from oversight.engine.runs.manifest import read_manifest
from oversight.engine.runs.probing import PROBES, BeliefProbe, ProbeFile, belief_probes, run_probes
from oversight.engine.runs.replay import replay_cache
from oversight.engine.runs.run_folder import QUARANTINE, outcomes
from oversight.engine.runs.stores import open_store, store_name
from oversight.engine.sweeps.sweep import Cell
from oversight.engine.system.loop import event_loop
from oversight.engine.system.settings import is_url

PROBLEMS = 10


@click.command()
@run_argument
@row_options
@click.option(
    "--problems",
    type=click.IntRange(1),
    default=PROBLEMS,
    show_default=True,
    metavar="N",
    help="Probe the first N problems.",
)
@max_cost_option
@run_store_option
@click.option("--dry-run", is_flag=True, help="Check everything, send nothing.")
def command(
    named: str,
    protocol: str,
    agent: str,
    judge: str,
    problems: int,
    max_cost: float | None,
    store: str | None,
    dry_run: bool,
) -> None:
    """Ask the judges of RUN what they believe after each turn of its transcripts.

    `oversight view` shows the answers beside each transcript. Replies are paid for and stored like
    any others; what was read from them goes into RUN/probes, and no score changes. The budget is
    for all probes of RUN. --dry-run says how many questions there are. The same command goes on
    after a stop and asks nothing twice.
    """
    run = run_named(named)
    opened = open_run(run)
    parts = Parts(protocol, agent, judge)
    if not any(parts.fit(row) for row in opened.sweep.rows):
        raise UsageError(f"no row of {run} fits; list them: oversight report {run}")
    place = store_name(store or read_manifest(run).store or None)
    if not is_url(place) and not Path(place).is_dir():
        raise UsageError(f"{place}: there is no store there; name it with --store")
    cells = _cells(opened, run, parts, problems)
    with closing(open_store(place)) as replies:
        recorded = replay_cache(replies, opened.models.identity_in(replies))
        probes = asyncio.run(belief_probes(cells, recorded))
        if dry_run:
            show(f"{len(probes):,} questions about {len(cells):,} cells; nothing was sent")
            return
        file = ProbeFile(run)
        with locked(file.folder):
            raise SystemExit(_asked(opened, run, file, replies, probes, max_cost))


def _asked(
    opened: LoadedSweep,
    run: Path,
    file: ProbeFile,
    replies: Store,
    probes: list[BeliefProbe],
    max_cost: float | None,
) -> int:
    known = len(file.known)
    accounts = LedgerFile(file.folder, opened.models.accounts)
    before = accounts.total()
    spent = before.dollars + before.doubtful
    opened.models.prepare(
        opened.sweep.roles, RunPolicy(listed(), max_cost, spent, file.folder / QUARANTINE)
    )

    def standing() -> Snapshot:
        models = opened.models
        at_risk = sum(account.at_risk for account in models.accounts().values())
        return Snapshot(
            len(probes), len(file.known), 0, in_flight=models.in_flight, at_risk=at_risk
        )

    async def ask() -> Halt | None:
        obey_signals(opened.stop_token, standing)
        cache = Cache(replies, opened.models, identity=opened.models.identity_in(replies))
        try:
            async with accounts.kept(opened.stop_token, opened.models.ledger):
                lanes = opened.file.top.lanes
                await run_probes(probes, cache, file, lanes=lanes, stop_token=opened.stop_token)
        finally:
            await cache.close()
            await opened.models.close()
        return opened.stop_token.halt

    with asyncio.Runner(loop_factory=event_loop()) as runner:
        try:
            halt = runner.run(ask())
        except asyncio.CancelledError:
            halt = opened.stop_token.halt
    paid = accounts.total()
    cost = f", {dollars(paid.dollars)}" if paid.dollars else ""
    say(f"{len(file.known) - known:,} new beliefs, {len(file.known):,} in {run / PROBES}{cost}")
    if halt is None:
        say(f"see them: oversight view {run}")
        return ExitCode.DONE
    say(f"{str(halt).rstrip('.')}. The same command goes on.")
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return ExitCode.OVER_BUDGET
    return ExitCode.STOPPED


def _cells(opened: LoadedSweep, run: Path, parts: Parts, problems: int) -> list[Cell]:
    """Those that have a verdict, of the first problems and of the rows that are meant."""
    first = {problem.id for problem in opened.sweep.problems[:problems]}
    done = {
        record.place
        for record in outcomes(run)
        if record.failure is None and record.problem in first
    }
    return [cell for cell in opened.sweep.cells() if cell.place in done and parts.fit(cell.row)]
