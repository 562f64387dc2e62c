"""Running a sweep under a terminal: progress, signals, the report, and how to go on."""

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from oversight.cache.cache import Mode
from oversight.cache.disk import DiskStore
from oversight.cache.store import Store
from oversight.engine.accounting.ledger import UsageTotals
from oversight.engine.accounting.ledger_file import LedgerFile
from oversight.engine.accounting.prices import listed, load_prices
from oversight.engine.cli.output import say, show, width
from oversight.engine.cli.signals import obey_signals
from oversight.engine.display.progress import console
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    BudgetReached,
    Halt,
    Interrupted,
    KeyRepeated,
    QuotaExhausted,
    StoreFailed,
)
from oversight.engine.models.router import RunPolicy
from oversight.engine.reports.failures import failure_lines, passing
from oversight.engine.reports.report import is_saved, report, save_report
from oversight.engine.reports.results import collect
from oversight.engine.runs.execution import run_missing
from oversight.engine.runs.loaded_sweep import LoadedSweep, run_folder
from oversight.engine.runs.run_folder import QUARANTINE, RunFolder, outcomes
from oversight.engine.runs.workers import AGAIN
from oversight.engine.simulation.model import PREFIX
from oversight.engine.system.loop import event_loop
from oversight.engine.system.settings import homely
from oversight.protocols.datasets.leak import leak_gate
from oversight.protocols.question import Problem

ExitCode: TypeAlias = int
SOME_FAILED, STOPPED, OVER_BUDGET, MISSED = 1, 3, 4, 5


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the flags of `run` ask for."""

    again: str
    """The command that goes on, as the user would type it."""
    mode: Mode
    store: Path
    folder: Path | None
    overrides: tuple[str, ...]
    retry_failed: bool
    format: str
    score: str
    max_cost: float | None = None
    """Dollars for the whole run."""
    prices: Path | None = None
    """A price file of the user's."""
    accept_empty: bool = False
    """Whether to go on, and pay again, where the store has lost replies that the run knew."""


def run_in_terminal(opened: LoadedSweep, plan: RunOptions) -> ExitCode:
    """Run what is missing of a sweep, and print the report if it is complete."""
    with ExitStack() as stack:
        store = DiskStore(plan.store)
        stack.callback(store.close)
        folder = stack.enter_context(
            run_folder(opened, plan.folder, plan.overrides, homely(plan.store))
        )
        asks = not folder.complete or folder.failed
        if plan.mode in ("use", "replay") and asks and not plan.accept_empty:
            folder.check_store(len(store), plan.store, store.id)
        # Who comes again may have mended what crashed, or what no model would answer.
        if dropped := folder.forget_failures(None if plan.retry_failed else AGAIN):
            say(f"{dropped:,} failed cells are run again")
        say(_headline(opened, folder))
        if not folder.finished:
            say(_leaks(opened.sweep.problems))
        ran = not (folder.complete and is_saved(folder.path))
        if folder.complete:
            say(f"complete already: {folder.finished:,} cells have their outcome")
            if plan.mode == "refresh":
                say("to ask for all of it again, name a new folder with --run-folder")
            # It may have been killed between its last outcome and its end.
            folder.settle()
            halt = None
        else:
            accounts = LedgerFile(folder.path, opened.models.accounts)
            opened.models.prepare(opened.sweep.roles, _terms(plan, folder, accounts.total()))
            with asyncio.Runner(loop_factory=event_loop()) as runner:
                try:
                    halt = runner.run(run_shown(opened, folder, store, plan, accounts))
                except asyncio.CancelledError:
                    halt = opened.stop_token.halt
                    say("calls in flight were abandoned; what had landed is saved")
        if halt is None and isinstance(opened.stop_token.halt, StoreFailed):
            # The last note in the folder failed, after the last outcome.
            halt = opened.stop_token.halt
        if halt is not None:
            return _stopped(halt, opened, folder, plan)
        return _finished(opened, folder, plan, ran)


async def run_shown(
    opened: LoadedSweep,
    folder: RunFolder,
    store: Store,
    plan: RunOptions,
    accounts: LedgerFile,
    speed: float = 1.0,
) -> Halt | None:
    """Run what is missing, shown on stderr, until it is done or a signal or a Halt stops it.

    speed: how many seconds of the loop's clock pass in a real one.
    """
    obey_signals(opened.models)
    return await run_missing(
        opened, folder, store, accounts, plan.mode, plan.max_cost, console(), speed
    )


def _terms(plan: RunOptions, folder: RunFolder, before: UsageTotals) -> RunPolicy:
    """before: what earlier sittings paid; what they may have paid counts against the cap too."""
    prices = load_prices(plan.prices) if plan.prices else listed()
    spent = before.dollars + before.doubtful
    return RunPolicy(prices, plan.max_cost, spent, folder.path / QUARANTINE)


def _stopped(halt: Halt, opened: LoadedSweep, folder: RunFolder, plan: RunOptions) -> ExitCode:
    done = f"{folder.finished:,} of {len(opened.sweep):,} cells done"
    unsaved = ""
    if halt.unsaved:
        unsaved = f"{halt.unsaved:,} paid replies could not be saved and will be asked for again"
    if isinstance(halt, Interrupted):
        say(f"{unsaved or 'all that landed is saved'}. {done}.")
    else:
        say(f"{str(halt).rstrip('.')}. Nothing more is sent. {done}, {unsaved or '0 lost'}.")
    _why_failed(opened, folder)
    say(f"{_when(halt)}: {plan.again}")
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return OVER_BUDGET
    return STOPPED


def _when(halt: Halt) -> str:
    match halt:
        case QuotaExhausted():
            return "when the quota is back"
        case AuthenticationFailed():
            return "when the key is right"
        case KeyRepeated():
            return "with a new key"
        case BudgetReached():
            return "with a higher --max-cost"
        case StoreFailed() | AllRefused():
            return "when that is put right"
    return "go on with"


def _finished(opened: LoadedSweep, folder: RunFolder, plan: RunOptions, ran: bool) -> ExitCode:
    """ran: whether anything was run now, so that the reports in the folder are old."""
    shows_all = plan.format in ("json", "csv")
    results = collect(
        opened.sweep, outcomes(folder.path), score=plan.score, intervals=ran or shows_all
    )
    if ran:
        save_report(results, folder.path)
    show(report(results, plan.format, width()))
    say("")
    say(f"run folder  {folder.path}")
    if not all(model.startswith(PREFIX) for model in opened.sweep.models):
        say(f"replies     {homely(plan.store)}   (paid for: keep them)")
    first = opened.sweep.problems[0].id
    say(f"look closer {shlex.join(['oversight', 'show', str(folder.path), first])}")
    say(f"again       {plan.again}   (all from the store)")
    _why_failed(opened, folder)
    if again := passing(outcomes(folder.path)) if folder.failed else 0:
        say(f"once more   {_retrying(plan)}   ({again:,} cells whose fault may have passed)")
    return SOME_FAILED if folder.failed else 0


def _retrying(plan: RunOptions) -> str:
    return plan.again if plan.retry_failed else f"{plan.again} --retry-failed"


def _why_failed(opened: LoadedSweep, folder: RunFolder) -> None:
    if folder.failed:
        say(f"failed      {folder.failed:,} of {folder.finished:,} cells")
        for line in failure_lines(opened.sweep, outcomes(folder.path)):
            say(f"  {line}")


def _leaks(problems: Sequence[Problem]) -> str:
    return f"{leak_gate(problems).line} (oversight dataset check)"


def _headline(opened: LoadedSweep, folder: RunFolder) -> str:
    sweep = opened.sweep

    def distinct(names: Iterable[str], what: str) -> str:
        count = len(set(names) - {""})
        return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

    axes = [
        distinct((problem.id for problem in sweep.problems), "problem"),
        distinct((row.kind for row in sweep.rows), "protocol"),
        distinct((row.agent for row in sweep.rows), "agent"),
        distinct((row.judge for row in sweep.rows), "judge"),
    ]
    parts = [f"sweep {sweep.name}", " × ".join(axes), f"{len(sweep):,} cells"]
    if folder.finished:
        parts.append(f"{folder.finished:,} done before")
    if all(model.startswith(PREFIX) for model in sweep.models):
        parts.append("models are simulated: no key, no cost")
    return " · ".join(parts)
