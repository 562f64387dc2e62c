"""Running a sweep under a terminal: progress, signals, the report, and how to go on."""

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from ....protocols.question import Problem
from ...analysis.reports.formats import ENDINGS
from ...display.progress import Snapshot
from ...display.text import counted
from ...errors import (
    AllRefused,
    AuthenticationFailed,
    BudgetReached,
    Halt,
    Interrupted,
    KeyEchoed,
    Later,
    OutOfMemory,
    QuotaExhausted,
    RowsPaused,
    RunFolderError,
    StoreFailed,
)
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...providers.simulated import PREFIX
from ...run.execution import Execution
from ...run.loaded_sweep import LoadedSweep
from ...run.observer import Observer, ProgressDisplay
from ...run.reader import origins
from ...run.run import Run
from ...run.run_folder import REPORT
from ...run.settings import RunSettings, shown_name, store_name
from ...stop import StopToken
from ...system.files import LOCK_FILE, derived, keep_derived, stamp_of
from ...system.process import event_loop
from .exit_codes import ExitCode
from .naming import reader_of
from .output import asked, halt_code, say, show, width

HEAD_START = 0.25
"""Seconds that the run gets first, so that the first request does not wait for numpy."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

GRACE = 25.0
"""Seconds for which calls in flight are waited for after a signal of a machine's own: Kubernetes
and Slurm kill five seconds later. A person who pressed Ctrl-C waits, or presses it again."""
_MACHINES_OWN = (signal.SIGTERM, signal.SIGUSR1)


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a run is presented on a terminal."""

    again: str
    """The command that resumes the run, as the user would type it."""
    format: str
    score: str
    grace: float | None = None
    """Seconds for which a stop waits for calls in flight; None for the usual ones."""


def run_in_terminal(
    loaded: LoadedSweep,
    settings: RunSettings,
    presentation: Presentation,
    observers: Callable[[Run], Sequence[Observer]] = lambda run: (),
) -> int:
    """Run what is missing of a sweep, and print the report if it is complete. observers: makes the
    observers other than the display, before any call; not called if no cell is missing."""
    with Run.open(loaded, settings) as run:
        execution = Execution(run)
        try:
            return _execute(execution, presentation, observers)
        except MemoryError:
            return _stopped(OutOfMemory(), execution, presentation)


def _execute(
    execution: Execution, presentation: Presentation, observers: Callable[[Run], Sequence[Observer]]
) -> int:
    run = execution.run
    if run.run_again:
        say(f"retrying {counted(run.run_again, 'failed cell')}")
    say(_headline(run))
    real = [model for model in run.loaded.sweep.models if not model.startswith(PREFIX)]
    if real:
        from ...providers.keys import addresses

        for line in addresses(map(run.loaded.models.settings_of, real)):
            say(line)
    saved = (run.folder.path / REPORT / f"report.{ending}" for ending in ENDINGS.values())
    ran = not (run.folder.complete and all(file.exists() for file in saved))
    if run.folder.complete:
        say(f"already complete: {counted(run.folder.finished, 'cell')}")
        if run.settings.cache == "refresh":
            say("to send every call again, name a new folder with --run-folder")
    others = [] if run.folder.complete else [*observers(run)]
    if not run.folder.finished:
        others.append(LeakNote(run.loaded.sweep.problems))
    halt = under_signals(
        partial(execution.execute, ProgressDisplay(), *others),
        run.loaded.stop_token,
        execution.snapshot,
        grace=presentation.grace,
    )
    return (
        _stopped(halt, execution, presentation)
        if halt is not None
        else _finished(run, presentation, ran)
    )


def under_signals(
    work: Callable[[], Awaitable[Halt | None]],
    stop_token: StopToken,
    snapshot: Callable[[], Snapshot],
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    grace: float | None = None,
) -> Halt | None:
    """Do work in a new event loop until it is done, or a signal or a Halt stops it. grace: see
    `obey_signals`. loop: makes the event loop; None for the default one."""

    async def obedient() -> Halt | None:
        obey_signals(stop_token, snapshot, grace)
        return await work()

    with asyncio.Runner(loop_factory=loop or event_loop()) as runner:
        try:
            return runner.run(obedient())
        except asyncio.CancelledError:
            say("calls in flight were abandoned")
            return stop_token.halt


def obey_signals(
    stop_token: StopToken, snapshot: Callable[[], Snapshot], grace: float | None = None
) -> None:
    """The first signal stops admission and lets flights land; a second one abandons them, as does
    the end of the grace period. Abandoned calls may have been paid, and count as unconfirmed.
    grace: seconds; None: `GRACE` after SIGTERM and SIGUSR1, and none after others. A second hangup
    is ignored: a terminal that closes sends several. Signals after the end of the loop are ignored:
    all is saved then. A signal that was ignored when the program began, as under nohup, stays
    ignored. To be called in the task that is to be cancelled."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def give_up(seconds: float) -> None:
        if task is not None and (flights := snapshot().in_flight):
            say(f"{seconds:g} s elapsed: gave up {counted(flights, 'call')} in flight")
            task.cancel()

    def heard(number: int) -> None:
        if stop_token.halt is not None and task is not None:
            if number != signal.SIGHUP:
                task.cancel()
            return
        stop_token.stop(Interrupted(number))
        now = snapshot()
        most = f", at most ${now.at_risk:.2f}" if now.at_risk else ""
        flights = f"{counted(now.in_flight, 'call')} in flight{most}"
        seconds = GRACE if grace is None and number in _MACHINES_OWN else grace
        most = "" if seconds is None else f", given up after {seconds:g} s"
        say(f"stopping: {flights}; Ctrl-C again to abandon them{most}")
        if seconds is not None:
            loop.call_later(seconds, give_up, seconds)

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        if not loop.is_closed():
            # A loop may close at any moment; then the run has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(heard, number)
        elif stop_token.halt is None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    # Not the loop's own handlers: it takes them away when it closes, and a signal that comes
    # between that moment and the end would kill the process.
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _leave(terminals: Iterable[int]) -> None:
    """Write nowhere what was to go to terminals that are gone: writing there would be an error."""
    if gone := [stream for stream in terminals if not os.isatty(stream)]:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:
            os.dup2(nowhere, stream)
        os.close(nowhere)


def _stopped(halt: Halt, execution: Execution, presentation: Presentation) -> int:
    run = execution.run
    when = halt.when if isinstance(halt, Later) else WHEN.get(type(halt), "resume with")
    if run.folder.refused:
        say(f"{halt}")
        say("nothing was sent, and no run folder is left")
        say(f"{when}: {_again(halt, presentation.again)}")
        return halt_code(halt)
    progress = f"{run.folder.finished:,} of {len(run.loaded.sweep):,} cells done"
    unsaved = ""
    if halt.unsaved:
        unsaved = f"{halt.unsaved:,} paid replies could not be saved and will be asked for again"
    if isinstance(halt, Interrupted):
        say(f"{unsaved or 'all completed cells are saved'}. {progress}.")
    else:
        say(f"{str(halt).rstrip('.')}. Nothing more is sent. {progress}, {unsaved or '0 lost'}.")
    if execution.pending and not isinstance(halt, Later):
        say(f"in flight at the vendors, and left there: {execution.pending}")
    _why_failed(run)
    for line in origins(run.loaded.sweep, run.folder.path):
        say(f"replies     {line}")
    say(f"run folder  {run.folder.path}")
    say(f"{when}: {_again(halt, presentation.again)}")
    return halt_code(halt)


def _again(halt: Halt, typed: str) -> str:
    """The command that goes on; where the budget was reached, with the cap that it names."""
    if isinstance(halt, Later):
        return typed.replace("oversight run", halt.again or "oversight run", 1)
    enough = re.search(r"(--max-(?:cost|tokens)) ([\d.]+)$", str(halt))
    if not isinstance(halt, BudgetReached) or enough is None:
        return typed
    return re.sub(rf"{enough[1]}[ =]\S+", f"{enough[1]} {enough[2]}", typed)


WHEN: Mapping[type[Halt], str] = {
    QuotaExhausted: "when the quota is back",
    AuthenticationFailed: "when the key is right (oversight doctor names its variable)",
    KeyEchoed: "with a new key",
    BudgetReached: "with a higher cap",
    **dict.fromkeys((StoreFailed, AllRefused, OutOfMemory, RowsPaused), "when that is put right"),
}
"""By why a run stopped, when it goes on; else at once."""


def _finished(run: Run, presentation: Presentation, ran: bool) -> ExitCode:
    """Save and print the report. ran: whether cells ran now, so that saved reports are old."""
    sweep, folder = run.loaded.sweep, run.folder
    name, stamp = f"report {folder.path.resolve()}", _report_stamp(run, presentation)
    text = None if ran else derived(name, stamp)
    if text is None:
        text = _scored(folder.path, presentation, save=ran).encode()
        keep_derived(name, stamp, text)
    show(text.decode())
    say("")
    say(f"run folder  {folder.path}")
    if folder.manifest.part:
        say("whole       when all parts are done, run it without --part: every reply is stored")
    if not all(model.startswith(PREFIX) for model in sweep.models):
        say(f"replies     {_replies(run)}")
        say(f"requests    {asked(sum_usage(read_ledger(folder.path).values()))}")
    for line in origins(sweep, folder.path):
        say(f"replies     {line}")
    first = sweep.problems[0].id
    say(f"transcript  {shlex.join(['oversight', 'show', str(folder.path), first])}")
    say(f"rerun       {presentation.again}   (cached)")
    _why_failed(run)
    again = 0
    if folder.failed:
        from ...analysis.reports.health import passing

        again = passing(run.folder.outcomes())
    if again:
        retrying = presentation.again + " --retry-failed" * (not run.settings.retry_failed)
        say(f"retry       {retrying}   ({counted(again, 'cell')} whose fault may have passed)")
    return ExitCode.FAILED if folder.failed else ExitCode.DONE


def _scored(folder: Path, presentation: Presentation, save: bool) -> str:
    """Score a run and return its report. save: also into the run folder, in every format."""
    # The first request must not wait for these imports, which bring numpy.
    from ...analysis.reports.report import report, save_report
    from ...analysis.rows import read_rows

    with reader_of(folder) as reader:
        results = read_rows(reader).results(presentation.score)
    if save:
        save_report(results, folder)
    return report(results, presentation.format, width())


def _report_stamp(run: Run, presentation: Presentation) -> str:
    """Return a stamp of everything that decides the printed report: files, code and options."""
    engine, folder = Path(__file__).parents[2], run.folder.path
    rooms = (engine, engine.parent / "protocols", engine.parent / "cache")
    files = [
        Path(place, name)
        for room in (folder, *rooms)
        for place, _, names in os.walk(room)
        for name in sorted(names)
        if "__pycache__" not in place and place != str(folder / REPORT)
    ]
    # An open run has a lock, and an open database an index.
    stable = (file for file in files if not file.name.endswith(("-shm", LOCK_FILE)))
    options = presentation.format, presentation.score, width(), sys.version
    return stamp_of(stable, *options, version("numpy"), version("scipy"))


def _replies(run: Run) -> str:
    """Where the paid replies are. A run that was already complete asked nothing of the store that
    it was given, so they may be in another one."""
    current, recorded = shown_name(store_name(run.settings.store)), run.folder.manifest.store
    try:
        run.folder.check_store(run.store.__len__, current, run.store.id)
    except RunFolderError:
        if recorded not in ("", current):
            return f"{recorded}   (keep them; they are not in {current})"
        return f"{current}   (it lost this run's replies)"
    return f"{current}   (keep them)"


def _why_failed(run: Run) -> None:
    if run.folder.failed:
        from ...analysis.reports.health import failure_lines

        say(f"failed      {run.folder.failed:,} of {run.folder.finished:,} cells")
        for line in failure_lines(run.loaded.sweep, run.folder.outcomes()):
            say(f"  {line}")


def _headline(run: Run) -> str:
    sweep = run.loaded.sweep
    names = {
        "problem": {problem.id for problem in sweep.problems},
        "protocol": {row.kind for row in sweep.rows},
        "agent": {row.agent for row in sweep.rows} - {""},
        "judge": {row.judge for row in sweep.rows} - {""},
    }
    axes = [counted(len(distinct), noun) for noun, distinct in names.items()]
    parts = [f"sweep {sweep.name}", " × ".join(axes), counted(len(sweep), "cell")]
    if run.folder.finished:
        parts.append(f"{run.folder.finished:,} done before")
    if all(model.startswith(PREFIX) for model in sweep.models):
        parts.append("models are simulated: no key, no cost")
    return " · ".join(parts)


class LeakNote(Observer):
    """Says in one line what the leakage check finds; in a thread, since it takes a while."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self._over = asyncio.Event()

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        noting = asyncio.create_task(self._note())
        try:
            yield
        finally:
            self._over.set()
            await noting

    async def _note(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HEAD_START):
                await self._over.wait()
        line = await asyncio.to_thread(_leakage, self._problems)
        say(f"{line} (oversight dataset check)")


def _leakage(problems: Sequence[Problem]) -> str:
    from ....protocols.datasets.leak import leakage_check

    return leakage_check(problems).line
