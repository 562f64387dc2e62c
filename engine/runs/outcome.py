"""One line of `outcomes.jsonl`: the outcome of a cell, and nothing that differs between reruns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import orjson

from ...protocols.counts import Counts, unread_by_seat
from ...protocols.transcript import Failure, Scalar, Verdict
from ..sweeps.sweep import Cell
from .scheduler import are_probabilities

FAILURE_MARK = b',"failure":{'
"""Occurs in the lines of failures only: within a text the quotes would be escaped."""


class LandedCell(NamedTuple):
    """A cell whose outcome has just landed."""

    place: int
    """The cell's place in the order of the sweep."""
    line: bytes
    """The line of its outcome, with the newline."""
    failed: bool
    """Whether the outcome is a Failure."""


class OutcomeRecord(msgspec.Struct, frozen=True, rename={"side": "at"}):
    """A line read back. Exactly one of `probs` and `failure` is there."""

    place: int
    cell: str
    protocol: str
    agent: str
    judge: str
    problem: str
    side: int
    """Place of the answer that was argued for, from 0."""
    draw: int
    probs: tuple[float, ...] | None = None
    failure: Failure | None = None
    measures: Mapping[str, Scalar] = {}
    counts: Mapping[str, int] = {}
    captured: float | None = None
    """For logprob judges: the least mass that the answer labels had in any elicitation."""
    redraws: tuple[tuple[float, ...], ...] = ()
    """The verdicts of which `probs` is the mean, where the judge was asked several times."""
    bounds: tuple[tuple[float, float], ...] = ()
    """For each answer the least and the most that its probability would be, whatever the replies
    had said that could not be read; empty where all were."""
    unread: Mapping[str, int] = {}
    """How many replies of each seat were refused, cut off, empty or unreadable, as
    `Judge: truncated`; those that a selection left out are counted too."""

    @property
    def from_replies(self) -> bool:
        """Whether it follows from replies alone; what a provider fails at has none to go by."""
        return self.failure is None or self.failure.kind in ("unreadable", "declined", "crash")


def line(cell: Cell, outcome: Verdict | Failure) -> bytes:
    """The line of a cell, with its newline; equal bytes for equal outcomes."""
    question = cell.problem.question
    told: dict[str, Any] = {
        "place": cell.place,
        "cell": cell.id,
        "protocol": cell.row.kind,
        "agent": cell.row.agent,
        "judge": cell.row.judge,
        "problem": cell.problem.id,
        "side": question.answers[cell.side].label,
        "at": cell.side,
        "draw": cell.draw,
    }
    if isinstance(outcome, Failure):
        told["failure"] = outcome
    else:
        told["probs"] = outcome.probs
        if outcome.measures:
            told["measures"] = dict(outcome.measures)
        if counts := Counts.of(outcome).as_dict():
            told["counts"] = counts
        captured = [judgement.captured for judgement in outcome.judgements]
        if captured and min(captured) < 1:
            told["captured"] = min(captured)
        if outcome.redraws:
            told["redraws"] = outcome.redraws
        if outcome.bounds:
            told["bounds"] = outcome.bounds
        if unread := unread_by_seat(outcome):
            told["unread"] = unread
    return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)


def read_outcome(line: bytes) -> OutcomeRecord:
    """ValueError if the line is no outcome."""
    try:
        record = _records.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ValueError(f"no outcome of a cell: {exc}") from exc
    if (record.probs is None) == (record.failure is None):
        raise ValueError("no outcome of a cell: it has neither a verdict nor a failure, or both")
    for probs in (record.probs, *record.redraws):
        if probs is not None and not are_probabilities(probs):
            raise ValueError(f"no outcome of a cell: {list(probs)} are no probabilities")
    return record


_records = msgspec.json.Decoder(OutcomeRecord)
