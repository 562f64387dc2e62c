"""Lanes: tasks that attempt pieces of work side by side, and the attempt at one cell."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask, RecordingAsk, value_address
from ...cache.shared_results import SharedResults
from ...protocols.protocol import Protocol
from ...protocols.question import Question
from ...protocols.transcript import Failure, Verdict
from ..errors import Halt, Pending, RunFolderError, StoreFailed
from ..stop import StopToken
from ..sweep.sweep import Cell
from .failures import SHOWN_CRASHES, failure, first_fault
from .record.values import are_probabilities
from .schedule import Completed, Schedule, Work

LANES_FROM_STORE = 8
"""Lanes that run while the store answers every call: more would only compete for the processor's
caches."""
REPLAY_LANES = 1
"""Nothing waits in a replay, and one cell after the other meets the same first miss each time."""
PIECES_A_TURN = 8
"""Pieces that end before the event loop gets a turn, if none of them waits, and before the number
of lanes is looked at again."""
POLL_SECONDS = 0.01
"""Seconds between two checks whether the store still answers every call."""


async def run_lanes(
    schedule: Schedule[Work, Completed],
    attempt: Callable[[Work], Awaitable[Completed]],
    keep: Callable[[Work, Completed], None],
    *,
    lanes: int | Callable[[], int],
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
) -> None:
    """Attempt every piece that a schedule hands out, `lanes` at a time.

    lanes: their number, or a function that returns it, where it may grow while the work goes on.
    keep: called with each piece and its result, when the attempt ends. waits: whether attempts
    are waiting for a reply; until they first do, only a few lanes run.

    A Halt stops the token: pieces that need another call end without a result, and all lanes
    return. A piece that is Pending ends without a result, and its lane goes on. Whatever else an
    attempt raises cancels the rest and propagates. When cancelled, pieces under way leave no
    result."""
    SHOWN_CRASHES.clear()
    most = lanes if callable(lanes) else lambda: lanes
    started, pieces, under_way, few = 0, 0, 0, True
    at_work = asyncio.Event()  # set while a piece is under way, and once a lane has ended

    async def lane() -> None:
        nonlocal pieces, under_way
        async for work in schedule:
            under_way += 1
            if few and under_way == 1:
                at_work.set()
            completed: Completed | None = None
            if stop_token.halt is None:
                try:
                    completed = await attempt(work)
                except Pending:
                    await asyncio.sleep(0)
                except Halt as halt:
                    stop_token.stop(halt)
                else:
                    try:
                        keep(work, completed)
                    except RunFolderError as fault:
                        stop_token.stop(StoreFailed(str(fault)))
            schedule.record_result(work, completed)
            under_way -= 1
            if stop_token.halt is not None:
                break
            if not under_way:
                at_work.clear()
            # Pieces that the store answers never wait: give signals and progress a turn.
            pieces += 1
            if not pieces % PIECES_A_TURN:
                if not few:
                    widen(most())
                await asyncio.sleep(0)
        else:
            stop_token.last_cells = True
        at_work.set()

    def widen(count: int) -> None:
        nonlocal started
        while started < count:
            started += 1
            task = group.create_task(lane())
            if few:
                running.add(task)

    running: set[asyncio.Task[None]] = set()
    try:
        async with asyncio.TaskGroup() as group:
            widen(min(most(), LANES_FROM_STORE))
            while running and not waits():
                await at_work.wait()
                _, running = await asyncio.wait(running, timeout=POLL_SECONDS)
            few = False
            if running:
                widen(most())
    except BaseExceptionGroup as faults:
        raise first_fault(faults) from None


CellOutcome: TypeAlias = Verdict | Failure


class NotedOutcome(NamedTuple):
    """The outcome of a cell, and what was asked and believed on the way."""

    outcome: CellOutcome
    notes: list[object]
    """Notes of the cell's `RecordingAsk`."""


async def attempt(cell: Cell, ask: Ask) -> CellOutcome:
    """One cell's outcome. Halt and ReplayMiss are raised: they say nothing about the cell."""
    return (await attempt_noted(cell, ask)).outcome


def failed(cell: Cell, raised: BaseException) -> Failure:
    """Return the failure of a cell whose protocol raised; re-raises faults of the whole run."""
    return failure(f"cell {cell.id or cell.row.title}", raised)


async def attempt_noted(
    cell: Cell,
    ask: Ask,
    shared: SharedResults | None = None,
    failed: Callable[[Cell, BaseException], Failure] = failed,
) -> NotedOutcome:
    """Return the outcome of a cell with its calls and intermediate judgements; raises as `attempt`.
    shared: speeches and verdicts that other cells have in common. failed: converts an exception of
    the protocol into a failure."""
    problem, protocol = cell.problem, cell.row.protocol
    side = problem.question.answers[cell.side]
    recording = RecordingAsk(ask, [], (cell.draw,), shared=shared)
    try:
        verdict = _sound(await protocol.run(problem.question, side, recording), problem.question)
        if type(protocol).appraise is not Protocol.appraise:
            more = await protocol.appraise(problem, side, verdict, recording)
            verdict = replace(verdict, measures=(*verdict.measures, *more))
        return NotedOutcome(verdict, recording.notes)
    except SystemExit as exc:
        # An author's code that calls exit() would end the run without a message.
        outcome = failed(cell, _instead_of(exc, f"it ends the program: {exc!r}"))
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this cell: its lane would end with it, and the cell have no outcome.
        outcome = failed(cell, _instead_of(exc, "it is cancelled from within"))
    except Exception as exc:
        outcome = failed(cell, exc)
    return NotedOutcome(outcome, recording.notes)


def _instead_of(exc: BaseException, why: str) -> RuntimeError:
    return RuntimeError(why).with_traceback(exc.__traceback__)


def _sound(verdict: Verdict, question: Question) -> Verdict:
    """Return the verdict if it is valid. Protocols and judges may be user code, and a NaN or a
    missing probability would otherwise show only in the report."""
    probs = tuple(map(float, verdict.probs))
    if len(probs) != len(question.answers) or not are_probabilities(probs):
        raise ValueError(f"{probs} are not probabilities of {len(question.answers)} answers")
    if verdict.measures:
        value_address(verdict.measures)
    # A float of numpy's is one, but is not written as one.
    plain = {*map(type, verdict.probs)} == {float}
    return verdict if plain else replace(verdict, probs=probs)
