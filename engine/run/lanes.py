"""Lanes: tasks that take work side by side; attempting one cell; which faults fail one piece, and
which stop the run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from traceback import walk_tb
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask, RecordingAsk, value_address
from ...cache.errors import DamagedEntry, ReplayMiss, StoreError, StoreGone
from ...cache.shared_results import SharedResults
from ...protocols.errors import Declined, NotRun, Unreadable
from ...protocols.protocol import Protocol
from ...protocols.question import Question
from ...protocols.transcript import NOT_RUN, Failure, Verdict
from ..errors import (
    Halt,
    NeverAnswered,
    OutOfMemory,
    Pending,
    ProviderError,
    RunFolderError,
    StoreFailed,
)
from ..stop import StopToken
from ..sweep.sweep import Cell
from .record.values import are_probabilities
from .schedule import UNREPEATABLE, Completed, Schedule, Work

CONCERNS_THE_RUN = (Halt, ReplayMiss, StoreError, MemoryError, Pending)
"""Faults that do not concern the piece of work in which they are raised; all but the last two
stop the run."""

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

CRASH = "crash"
"""Kind of a failure that is a bug in some code, and not a model's doing."""

RETRIED_KINDS = frozenset((CRASH, UNREPEATABLE, NeverAnswered.__name__))
"""Kinds of failures whose cells are run again at a resume: a bug that may be fixed by then, and
calls that no model has answered, for example because of a setting in the sweep file."""

log = logging.getLogger(__name__)

_SHOWN: set[tuple[str, str, int]] = set()
"""Crashes of which this run has shown a traceback."""


async def run_lanes(
    schedule: Schedule[Work, Completed],
    attempt: Callable[[Work], Awaitable[Completed]],
    keep: Callable[[Work, Completed], None],
    *,
    lanes: int | Callable[[], int],
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
) -> None:
    """Attempt every piece that an order hands out, `lanes` at a time.

    lanes: their number, or a function that returns it, where it may grow while the work goes on.
    keep: called with each piece and its result, when the attempt ends. waits: whether attempts
    are waiting for a reply; until they first do, only a few lanes run.

    A Halt stops the token: pieces that need another call end without a result, and all lanes
    return. A piece that is Pending ends without a result, and its lane goes on. Whatever else an
    attempt raises cancels the rest and propagates. When cancelled, pieces under way leave no
    result.
    """
    _SHOWN.clear()
    most = lanes if callable(lanes) else lambda: lanes
    started, pieces, under_way, few = 0, 0, 0, True
    at_work = asyncio.Event()

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


def failure(work: str, raised: BaseException) -> Failure:
    """Convert an exception into a `Failure`; re-raises those that concern the whole run.

    work: the name of the piece in the log.
    """
    match fault := first_fault(raised):
        case Halt() | ReplayMiss() | Pending():
            raise fault
        case DamagedEntry():
            raise StoreFailed(
                f"{fault}. It is neither guessed nor paid again without your order: restore it "
                "from a backup with oversight cache import, or have it asked again after "
                "oversight cache prune --damaged"
            ) from fault
        case StoreGone():
            raise StoreFailed(str(fault)) from fault
        case StoreError():
            raise StoreFailed(f"{fault}; nothing that was saved is lost") from fault
        case MemoryError():
            raise OutOfMemory from fault
        case NotRun():
            return Failure(NOT_RUN, str(fault))
        case Unreadable():
            kind = "declined" if isinstance(fault, Declined) else "unreadable"
            about = (fault.reason, fault.raw, fault.call, fault.seat, fault.cause)
            return Failure(kind, *about)
        case ProviderError():
            return Failure(type(fault).__name__, str(fault))
        case Exception():
            # A bug in one protocol must not throw away a night of the others; it is loud here,
            # counted in the report, and `--retry-failed` runs the cell again once it is fixed.
            message = f"{type(fault).__name__}: {fault}"
            place = _place(fault)
            if place in _SHOWN:
                log.debug("%s crashed: %s", work, message)
            else:
                _SHOWN.add(place)
                log.error(
                    "%s crashed; others that do so too are only counted", work, exc_info=fault
                )
            return Failure(CRASH, message.encode(errors="replace").decode())
    raise fault


def _place(fault: BaseException) -> tuple[str, str, int]:
    """Return the exception and where it was raised, which are equal for all crashes of one bug."""
    passed = [(frame.f_code.co_filename, line) for frame, line in walk_tb(fault.__traceback__)]
    file, line = passed[-1] if passed else ("", 0)
    return type(fault).__qualname__, file, line


def first_fault(fault: BaseException) -> BaseException:
    """The fault itself; of an exception group, the first that concerns the run, else the first."""
    if not isinstance(fault, BaseExceptionGroup):
        return fault
    leaves = [first_fault(inner) for inner in fault.exceptions]
    graver = (leaf for kind in CONCERNS_THE_RUN for leaf in leaves if isinstance(leaf, kind))
    return next(graver, leaves[0])


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
    the protocol into a failure.
    """
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
