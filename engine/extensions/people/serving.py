"""People in the roles of a sweep, and people who judge the finished transcripts of a run.

The transcripts of a run come from its store, in the words that its judge read. People's answers are
stored like any reply, and do not change the scores of the run."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from ....cache.call import Ask, Call
from ....cache.reply import Reply
from ....protocols.judges.case import Case
from ....protocols.judges.judge import ParsedReply
from ....protocols.judges.stated import DistributionJudge
from ....protocols.transcript import Failure, Verdict
from ...display.text import counted
from ...errors import UsageError
from ...run.failures import failure
from ...run.folders import is_run, remembered_store
from ...run.lanes import attempt_noted, run_lanes
from ...run.later import Addition, entries
from ...run.loaded_sweep import LoadedSweep, load_sweep
from ...run.observer import Observer
from ...run.record.capture import JUDGE
from ...run.record.database import RunDatabase
from ...run.record.schema import no_run
from ...run.replay import replay_cache
from ...run.run import Run
from ...run.run_folder import OUTCOMES
from ...run.schedule import InOrder
from ...run.settings import RunSettings, open_store
from ...stop import StopToken
from ...sweep.sweep import Cell
from ...sweep.sweepfile import SweepFile
from ...system.files import locked
from ...views.cli.beside import ask_beside, store_of
from ...views.cli.exit_codes import ExitCode
from ...views.cli.output import halt_code, say, typed
from ...views.cli.terminal import Presentation, run_in_terminal
from .journal import (
    PERSON,
    PERSONS,
    JudgedTranscript,
    TaskAnswered,
    Withdrawn,
    panels_of,
    read_journal,
    seated_raters,
)
from .rating import RaterServer
from .task import PersonTask
from .task_queue import QueueSettings, TaskKind, TaskQueue

PANEL = "raters"
"""The panel that judges finished transcripts."""
MOST_LANES = 5_000
"""Maximum number of cells in progress. Raters choose among their tasks."""
NO_BATCH = (
    "batches cannot be used while people answer: let models judge first, then let people judge the "
    "transcripts with oversight human serve RUN; or ask the models live"
)


@dataclass(frozen=True, slots=True)
class Seats:
    """The raters of a study, and the address of their pages."""

    raters: int
    """Number per panel."""
    settings: QueueSettings
    host: str
    port: int
    url: str

    def serve(self, loaded: LoadedSweep, run: Path, panels: Sequence[str]) -> RaterServer:
        """The pages of the raters of these panels, who answer for `person/NAME` from now on. run:
        its folder; this process holds the lock of its `persons` folder."""
        raters = seated_raters(run / PERSONS, panels, self.raters)
        seated = [rater for rater in raters if rater.panel in panels]
        queue = TaskQueue(seated, run, loaded.stop_token, self.settings)
        loaded.answering["person"] = queue
        return RaterServer(queue, self.host, self.port, self.url)


def run_with_persons(file: SweepFile, settings: RunSettings, seats: Seats) -> int:
    loaded = load_sweep(file)
    panels = panels_of(loaded.sweep.models)
    if not panels:
        raise UsageError(
            f"{file.document.source}: none of its models is a person; write person/NAME for a "
            "model, or run it and let people judge its transcripts: oversight human serve RUN"
        )
    if settings.batch or loaded.models.deferred(loaded.sweep.models, settings.batch):
        raise UsageError(NO_BATCH)
    cells_at_once = loaded.file.top.max_cells or loaded.models.cells_at_once(loaded.sweep.models)
    max_cells = max(cells_at_once, min(len(loaded.sweep), MOST_LANES))
    top = replace(loaded.file.top, max_cells=max_cells)
    loaded = replace(loaded, file=replace(loaded.file, top=top))
    served: list[Path] = []

    def pages(run: Run) -> Sequence[Observer]:
        if any(entry.outlives(run.folder.path) for entry in entries()):
            raise UsageError(NO_BATCH)
        persons = run.folder.path / PERSONS
        persons.mkdir(exist_ok=True)
        locks.enter_context(locked(persons))
        server = seats.serve(loaded, run.folder.path, panels)
        served.append(run.folder.path)
        return (server,)

    presentation = Presentation(typed(), "text", "brier")
    with ExitStack() as locks:
        code = run_in_terminal(loaded, settings, presentation, pages)
        for run in served:
            delete_from_run(run)
    return code


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A judge's case about a finished transcript, which people judge again."""

    cell: Cell
    case: Case
    probs: tuple[float, ...]
    """The judge's verdict."""

    def call(self, model: str) -> Call:
        """The call that asks people, without the draw of each person."""
        judge = DistributionJudge(model, reads_passage=self.cell.row.protocol.judge.reads_passage)
        case = self.case if judge.reads_passage else self.case.without_passage()
        blind = bool(self.case.transcript.question.passage) and not judge.reads_passage
        order = range(len(case.options.answers))
        return judge.compose(judge.shown(case, order, blind)).drawn(self.cell.draw)

    def kind(self, call: Call) -> TaskKind:
        """The kind that is balanced among raters: the row and the value of the argued answer. call:
        the one that asks a person."""
        cell, problem = self.cell, self.cell.problem
        label = problem.question.answers[cell.side].label
        return TaskKind(
            PersonTask(call).problem,
            (cell.row.address, problem.values[cell.side]),
            JudgedTranscript(cell.row.title, cell.row.judge, problem.id, label, self.probs),
        )


async def judged_cases(cells: Iterable[Cell], recorded: Ask) -> list[JudgedCase]:
    """The case that decides each cell's verdict. recorded: answers from the store alone. Cells
    without a verdict are left out, and cells whose verdict is not a single judgement of a
    transcript, such as a market's last price."""
    cases = []
    for cell in cells:
        outcome, notes = await attempt_noted(cell, recorded)
        replies = [note for note in notes if isinstance(note, ParsedReply) and note.role == JUDGE]
        if isinstance(outcome, Verdict) and replies:
            case, verdict = replies[-1].case, replies[-1].verdict
            if verdict and not case.statement and verdict.probs == outcome.probs:
                cases.append(JudgedCase(cell, case, outcome.probs))
    return cases


def tasks_of(
    cases: Iterable[JudgedCase], model: str, per_transcript: int
) -> dict[str, tuple[Call, TaskKind]]:
    """The calls that ask people about each case, by address. Worlds that ended in the same
    transcript are judged once."""
    tasks: dict[str, tuple[Call, TaskKind]] = {}
    for case in cases:
        call = case.call(model)
        for person in range(per_transcript):
            drawn = Call(call.request, (*call.draw, person))
            if drawn.address not in tasks:
                tasks[drawn.address] = drawn, case.kind(call)
    return tasks


async def ask_persons(calls: Sequence[Call], ask: Ask, *, stop_token: StopToken) -> int:
    """Ask people all calls at once; the number answered. After a Halt, the answers are stored."""
    answered = 0

    async def attempt(call: Call) -> Reply | Failure:
        try:
            return await ask(call)
        except Exception as exc:
            return failure(f"a person's judgement {call.address[:12]}", exc)

    def count(call: Call, reply: Reply | Failure) -> None:
        nonlocal answered
        answered += isinstance(reply, Reply)

    await run_lanes(InOrder(calls), attempt, count, lanes=len(calls), stop_token=stop_token)
    return answered


def judged_by_persons(
    run: Path,
    opened: LoadedSweep,
    cells: Sequence[Cell],
    per_transcript: int,
    store: str | None,
    seats: Seats,
) -> int:
    model = f"{PERSON}{PANEL}"
    with closing(store_of(run, store)) as replies:
        recorded = replay_cache(replies, opened.models.identity, tags=opened.models.tags)
        judged = asyncio.run(judged_cases(cells, recorded))
        tasks = tasks_of(judged, model, per_transcript)
        if not tasks:
            raise UsageError(f"{run}: no verdict of these rows is a judgement of one transcript")
        if skipped := len(cells) - len(judged):
            say(
                f"{counted(skipped, 'cell')} left out: the verdict is not a judgement of one "
                "transcript"
            )
        kinds = {address: kind for address, (_, kind) in tasks.items()}
        needed = max(Counter(kind.problem for kind in kinds.values()).values())
        if needed > seats.raters:
            raise UsageError(
                f"a problem has up to {needed} transcripts to judge, and a rater may judge one of "
                f"them: use --raters {needed}, a lower --raters-per-transcript, or fewer rows"
            )
        folder = run / PERSONS
        folder.mkdir(exist_ok=True)
        with locked(folder):
            server = seats.serve(opened, run, [PANEL])
            server.queue.assignment.assign(kinds)
            answered = 0

            async def work(ask: Ask, added: Addition | None) -> None:
                nonlocal answered
                async with server.open():
                    calls = [call for call, _ in tasks.values()]
                    answered = await ask_persons(calls, ask, stop_token=opened.stop_token)

            halt, _ = ask_beside(opened, folder, replies, work, roles=[(model, "judge")])
    delete_from_run(run)
    if halt is not None and answered < len(tasks):
        say(f"{str(halt).rstrip('.')}. All answers are saved. Run the same command to resume.")
        return halt_code(halt)
    say(f"{counted(answered, 'judgement')} of {counted(len(judged), 'transcript')}")
    say(f"see them: oversight measure people {run}")
    return ExitCode.DONE


def delete_from_run(run: Path) -> None:
    """Delete erased answers from record, outcomes and store, and print their number. The run's lock
    must be free. If a rater erases answers while the pages are served, the journal loses them at
    once, and the run when the pages close. A task that another rater has answered since then is
    kept. Packs made later hold none of it; requests of other calls that quote an answer stay in the
    store. Repeating it completes an interrupted deletion. RunFolderError; StoreError."""
    answered: dict[str, str] = {}
    erased = set()
    for event in read_journal(run):
        if isinstance(event, TaskAnswered) and event.posted is not None:
            answered[event.task] = event.rater
        elif isinstance(event, Withdrawn) and event.erased:
            erased.add(event.rater)
    tasks = {task for task, rater in answered.items() if rater in erased}
    if not tasks:
        return
    if not is_run(run):
        raise no_run(run)
    with locked(run), closing(RunDatabase(run)) as database:
        cells = database.withdraw(tasks)
        # Its lines are written again when the run settles.
        (run / OUTCOMES).unlink(missing_ok=True)
    replies = 0
    path = Path(remembered_store(run)).expanduser()
    if path.name and path.exists():
        with closing(open_store(str(path))) as store:
            replies = store.delete_many([key for task in tasks for key in store.keys(task)])
    if cells or replies:
        say(
            f"deleted: {counted(replies, 'stored reply', 'stored replies')}, and the "
            f"outcomes of {counted(cells, 'cell')} based on them"
        )
