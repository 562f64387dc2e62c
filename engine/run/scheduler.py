"""Attempting one cell: its verdict, or what it failed at."""

import asyncio
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ...cache.address import value_address
from ...cache.call import Ask, RecordingAsk, nth
from ...cache.shared_work import SharedWork
from ...protocols.protocol import Protocol
from ...protocols.question import Question
from ...protocols.transcript import Failure, NamedMeasures, Verdict
from ..sweep.sweep import Cell
from .lanes import failure
from .record.values import are_probabilities

CellOutcome: TypeAlias = Verdict | Failure


class NotedOutcome(NamedTuple):
    """The outcome of a cell, and what was asked and believed on the way."""

    outcome: CellOutcome
    notes: list[Any]
    """Notes of the cell's `RecordingAsk`."""


async def attempt(cell: Cell, ask: Ask) -> CellOutcome:
    """One cell's outcome. Halt and ReplayMiss are raised: they say nothing about the cell."""
    try:
        return await verdict_of(cell, ask)
    except Exception as exc:
        return failure(f"cell {cell.id}", exc)


async def verdict_of(cell: Cell, ask: Ask) -> Verdict:
    """One cell's verdict. Raises whatever the protocol does."""
    problem, protocol, ask = cell.problem, cell.row.protocol, nth(ask, cell.draw)
    side = problem.question.answers[cell.side]
    more: NamedMeasures = ()
    try:
        verdict = _sound(await protocol.run(problem.question, side, ask), problem.question)
        if type(protocol).appraise is not Protocol.appraise:
            more = await protocol.appraise(problem, side, verdict, ask)
    except SystemExit as exc:
        # An author's code that calls exit() would end the run without a message.
        raise RuntimeError(f"it ends the program: {exc!r}").with_traceback(
            exc.__traceback__
        ) from None
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this cell: its lane would end with it, and the cell have no outcome.
        raise RuntimeError("it is cancelled from within").with_traceback(
            exc.__traceback__
        ) from None
    return replace(verdict, measures=(*verdict.measures, *more)) if more else verdict


async def attempt_noted(cell: Cell, ask: Ask, shared: SharedWork | None = None) -> NotedOutcome:
    """One cell's outcome, with what it asked and believed on the way.

    shared: the speeches and verdicts that it has in common with other cells.
    """
    recording = RecordingAsk(ask, shared=shared)
    try:
        outcome: CellOutcome = await verdict_of(cell, recording)
    except Exception as exc:
        outcome = failure(f"cell {cell.id}", exc)
    return NotedOutcome(outcome, recording.notes)


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
