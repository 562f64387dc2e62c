"""Finished transcripts judged again by persons: the case of each judge, put to raters.

The transcripts of a run are taken from its store, with the very words that its judge read. What
persons answer is stored like any reply, and no score of the run reads it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from ....cache.call import Ask, Call
from ....cache.reply import Reply
from ....protocols.judges import DistributionJudge
from ....protocols.judges.case import Case
from ....protocols.judges.judge import Reading
from ....protocols.transcript import Failure, Verdict
from ...run.lanes import failure, run_lanes
from ...run.order import Plain
from ...run.record.capture import JUDGE
from ...run.scheduler import attempt_noted
from ...stop import StopToken
from ...sweep.sweep import Cell
from .plan import PlannedTask
from .pool import TaskKind
from .task import PersonTask


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

    def planned(self, call: Call) -> PlannedTask:
        """The case as the plan of a study has it. call: that asks a person."""
        cell = self.cell
        row = cell.row.title
        answer = cell.problem.question.answers[cell.side]
        return PlannedTask(
            call.address,
            Call(call.request).address,
            cell.id,
            row,
            cell.row.judge,
            cell.problem.id,
            answer.label,
            cell.draw,
            self.probs,
        )

    def task_kind(self, call: Call) -> TaskKind:
        """What raters are to have equally many of: the row, and the worth of what is argued."""
        worth = self.cell.problem.values[self.cell.side]
        return TaskKind(PersonTask(call).problem, (self.cell.row.address, worth))


async def judged_cases(cells: Iterable[Cell], recorded: Ask) -> AsyncIterator[JudgedCase]:
    """The case on which each cell's verdict rests.

    recorded: answers from the store alone. Cells without a verdict are left out, and those whose
    verdict is no one judgement of a transcript: of a market's last price, say, or of a tree.
    """
    for cell in cells:
        outcome, notes = await attempt_noted(cell, recorded)
        decided = [each for each in notes if isinstance(each, Reading) and each.role == JUDGE]
        if isinstance(outcome, Verdict) and decided:
            case, verdict = decided[-1].case, decided[-1].verdict
            if verdict and not case.statement and verdict.probs == outcome.probs:
                yield JudgedCase(cell, case, outcome.probs)


def tasks_of(
    cases: Iterable[JudgedCase], model: str, each: int
) -> dict[str, tuple[Call, JudgedCase]]:
    """Every different call that asks `each` persons about each case, by address: worlds that ended
    in the same transcript are judged once."""
    found: dict[str, tuple[Call, JudgedCase]] = {}
    for case in cases:
        call = case.call(model)
        for person in range(each):
            drawn = Call(call.request, (*call.draw, person))
            found.setdefault(drawn.address, (drawn, case))
    return found


def raters_needed(tasks: Iterable[TaskKind]) -> int:
    """How many raters there must be so that none gets two tasks about one problem."""
    return max(Counter(task.problem for task in tasks).values(), default=0)


async def ask_persons(calls: Iterable[Call], ask: Ask, *, stop_token: StopToken) -> int:
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

    todo = list(calls)
    await run_lanes(Plain(todo), heard, count, lanes=max(len(todo), 1), stop_token=stop_token)
    return answered
