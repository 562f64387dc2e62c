"""Attempting one cell: its verdict, or what it failed at."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ...cache.address import value_address
from ...cache.call import Ask, RecordingAsk
from ...cache.shared_work import SharedWork
from ...protocols.protocol import Protocol
from ...protocols.question import Question
from ...protocols.transcript import Failure, Verdict
from ..sweep.sweep import Cell
from .lanes import failure
from .record.values import are_probabilities

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
    """What a cell comes to whose protocol raises; re-raises what concerns the whole run."""
    return failure(f"cell {cell.id or cell.row.title}", raised)


async def attempt_noted(
    cell: Cell,
    ask: Ask,
    shared: SharedWork | None = None,
    failed: Callable[[Cell, BaseException], Failure] = failed,
) -> NotedOutcome:
    """One cell's outcome, with what it asked and believed on the way; raises as `attempt`.

    shared: the speeches and verdicts that it has in common with other cells. failed: who is
    told what its protocol raises, and says what the cell comes to.
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
    """The verdict, if it is sound: protocols and judges may be anybody's, and a NaN or a missing
    probability would be found no sooner than in the figures of the report."""
    probs = tuple(map(float, verdict.probs))
    if len(probs) != len(question.answers) or not are_probabilities(probs):
        raise ValueError(f"{probs} are no probabilities of {len(question.answers)} answers")
    if verdict.measures:
        value_address(verdict.measures)
    # A float of numpy's is one, but is not written as one.
    plain = {*map(type, verdict.probs)} == {float}
    return verdict if plain else replace(verdict, probs=probs)
