"""People in the seats of a sweep, and people who judge the finished transcripts of a run.

The transcripts of a run are taken from its store, with the very words that its judge read. What
persons answer is stored like any reply, and no score of the run reads it.
"""

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
from ...run.folders import is_run, store_noted
from ...run.lanes import attempt_noted, failure, run_lanes
from ...run.later import Addition
from ...run.loaded_sweep import LoadedSweep, load_sweep
from ...run.observer import Observer
from ...run.record.capture import JUDGE
from ...run.record.database import RunDatabase
from ...run.record.schema import no_run
from ...run.replay import replay_cache
from ...run.run import Run
from ...run.run_folder import OUTCOMES
from ...run.schedule import InOrder
from ...run.settings import RunSettings
from ...run.stores import open_store
from ...stop import StopToken
from ...sweep.sweep import Cell
from ...sweep.sweepfile import SweepFile
from ...system.files import locked
from ...views.cli.beside import ask_beside, store_of
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.output import say, typed
from ...views.cli.terminal import Presentation, run_in_terminal
from .entry import ENTRY, NO_BATCH
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
"""Cells in progress at once. With few of them, raters would run out of tasks to choose from."""


@dataclass(frozen=True, slots=True)
class Seats:
    """How people are seated, and where they find their pages."""

    raters: int
    """Of each panel."""
    settings: QueueSettings
    host: str
    port: int
    url: str

    def taken(self, loaded: LoadedSweep, run: Path, panels: Sequence[str]) -> RaterServer:
        """The pages of the raters of these panels, who answer for `person/NAME` from now on. run:
        its folder, of which this process holds `persons`."""
        known = seated_raters(run / PERSONS, panels, self.raters)
        seated = [each for each in known if each.panel in panels]
        queue = TaskQueue(seated, run, loaded.stop_token, self.settings)
        loaded.answering["person"] = queue
        ENTRY.served.add(loaded.models)
        return RaterServer(queue, self.host, self.port, self.url)


def run_with_persons(file: SweepFile, settings: RunSettings, seats: Seats) -> int:
    loaded = load_sweep(file)
    panels = panels_of(loaded.sweep.models)
    if not panels:
        raise UsageError(
            f"{file.document.source}: no seat has a person; write person/NAME for a model, or run "
            "it and have persons judge its transcripts: oversight human serve RUN"
        )
    if settings.batch:  # before the people are told to be asked live
        raise UsageError(NO_BATCH)
    known = loaded.file.top.max_cells or loaded.models.cells_at_once(loaded.sweep.models)
    top = replace(loaded.file.top, max_cells=max(known, min(len(loaded.sweep), MOST_LANES)))
    loaded = replace(loaded, file=replace(loaded.file, top=top))
    served: list[Path] = []

    def pages(run: Run) -> Sequence[Observer]:
        persons = run.folder.path / PERSONS
        persons.mkdir(exist_ok=True)
        held.enter_context(locked(persons))
        server = seats.taken(loaded, run.folder.path, panels)
        served.append(run.folder.path)
        return (server,)

    shown = Presentation(typed(), "text", "brier")
    with ExitStack() as held:
        code = run_in_terminal(loaded, settings, shown, pages)
        for run in served:
            delete_from_run(run)
    return code


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A judge's case about a finished transcript, to be judged again by persons."""

    cell: Cell
    case: Case
    probs: tuple[float, ...]
    """The judge's."""

    def call(self, model: str) -> Call:
        """The call that asks persons, without the draw that tells one of them from the next."""
        judge = DistributionJudge(model, reads_passage=self.cell.row.protocol.judge.reads_passage)
        case = self.case if judge.reads_passage else self.case.without_passage()
        blind = bool(self.case.transcript.question.passage) and not judge.reads_passage
        order = range(len(case.options.answers))
        return judge.compose(judge.shown(case, order, blind)).drawn(self.cell.draw)

    def about(self, call: Call) -> TaskKind:
        """What raters are to have equally many of: the row, and the worth of what is argued.
        call: that asks a person."""
        cell, problem = self.cell, self.cell.problem
        label = problem.question.answers[cell.side].label
        return TaskKind(
            PersonTask(call).problem,
            (cell.row.address, problem.values[cell.side]),
            JudgedTranscript(cell.row.title, cell.row.judge, problem.id, label, self.probs),
        )


async def judged_cases(cells: Iterable[Cell], recorded: Ask) -> list[JudgedCase]:
    """The case on which each cell's verdict rests.

    recorded: answers from the store alone. Cells without a verdict are left out, and those whose
    verdict is no one judgement of a transcript: of a market's last price, say, or of a tree.
    """
    found = []
    for cell in cells:
        outcome, notes = await attempt_noted(cell, recorded)
        decided = [each for each in notes if isinstance(each, ParsedReply) and each.role == JUDGE]
        if isinstance(outcome, Verdict) and decided:
            case, verdict = decided[-1].case, decided[-1].verdict
            if verdict and not case.statement and verdict.probs == outcome.probs:
                found.append(JudgedCase(cell, case, outcome.probs))
    return found


def tasks_of(
    cases: Iterable[JudgedCase], model: str, per_transcript: int
) -> dict[str, tuple[Call, TaskKind]]:
    """The calls that ask people about each case, by address. Worlds that ended in the same
    transcript are judged once."""
    found: dict[str, tuple[Call, TaskKind]] = {}
    for case in cases:
        call = case.call(model)
        for person in range(per_transcript):
            drawn = Call(call.request, (*call.draw, person))
            if drawn.address not in found:
                found[drawn.address] = drawn, case.about(drawn)
    return found


async def ask_persons(calls: Sequence[Call], ask: Ask, *, stop_token: StopToken) -> int:
    """Put calls to persons, all at once; how many were answered. A Halt stops it; what was
    answered is stored."""
    answered = 0

    async def heard(call: Call) -> Reply | Failure:
        try:
            return await ask(call)
        except Exception as exc:
            return failure(f"a person's judgement {call.address[:12]}", exc)

    def count(call: Call, came: Reply | Failure) -> None:
        nonlocal answered
        answered += isinstance(came, Reply)

    await run_lanes(InOrder(calls), heard, count, lanes=len(calls), stop_token=stop_token)
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
        if left := len(cells) - len(judged):
            say(
                f"{counted(left, 'cell')} left out: the verdict is not a judgement of one "
                "transcript"
            )
        kinds = {address: about for address, (_, about) in tasks.items()}
        needed = max(Counter(kind.problem for kind in kinds.values()).values())
        if needed > seats.raters:
            raise UsageError(
                f"a problem has up to {needed} transcripts to be judged, and nobody may have two "
                f"of them: take --raters {needed}, a lower --raters-per-transcript, or fewer rows"
            )
        folder = run / PERSONS
        folder.mkdir(exist_ok=True)
        with locked(folder):
            server = seats.taken(opened, run, [PANEL])
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
        say(f"{str(halt).rstrip('.')}. All answers are saved. The same command goes on.")
        return halt_code(halt)
    say(f"{counted(answered, 'judgement')} of {counted(len(judged), 'transcript')}")
    say(f"see them: oversight measure people {run}")
    return ExitCode.DONE


def delete_from_run(run: Path) -> None:
    """Delete from record, outcomes and store what the journal says was erased, and say how much.

    The run's lock must be free: erased by a rater while the pages are served, answers go from the
    journal at once, and from here when it ends. A task that another rater has answered since then
    is theirs. Packs made later hold none of it; requests of other calls that quote them stay in the
    store. Doing it again completes what a crash cut off. RunFolderError; StoreError.
    """
    answered: dict[str, str] = {}
    erased = set()
    for event in read_journal(run):
        if isinstance(event, TaskAnswered):
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
    named = Path(store_noted(run)).expanduser()
    if named.name and named.exists():
        with closing(open_store(str(named))) as store:
            replies = store.delete_many([key for task in tasks for key in store.keys(task)])
    if cells or replies:
        say(
            f"deleted: {counted(replies, 'stored reply', 'stored replies')}, and the "
            f"outcomes of {counted(cells, 'cell')} that rested on them"
        )
