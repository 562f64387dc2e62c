"""The plain values of a record, one class per table, independent of their storage."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from ....cache.reply import Outcome, ToolCall, Usage
from ....protocols.question import Question
from ....protocols.transcript import Failure, Turn, Verdict

Origin: TypeAlias = Literal["unknown", "new", "stored", "batch", "person"]
"""Where a reply came from when its cell was recorded: paid for then, or in the store already."""

UNSPOKEN = ("judge", "rate", "rating", "side")
"""Roles of the calls whose replies are not turns; `side` is the reader of a side check."""

ROUNDING = 1e-6
"""By how much probabilities may be off."""


class CallCost(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens, time and dollars of a call. They may differ between two runs of one sweep."""

    identity: str = ""
    """The endpoint's."""
    served: str = ""
    """The model that the provider says answered."""
    stop_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    dollars: float | None = None
    """None where no price was known."""
    origin: Origin = "unknown"
    at: int | None = None
    """When it was recorded, in seconds since 1970; None for a reply from the store."""
    came: str = ""
    """`live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`; empty for a simulated model."""
    elsewhere: bool = False
    """Whether the reply came from another address than the one at which the run asks the model, or
    from an unknown one."""

    @property
    def usage(self) -> Usage:
        return Usage(
            self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens
        )


NOT_KNOWN = CallCost()


class RecordedCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call that a cell asked, and its reply."""

    address: str
    model: str
    role: str = ""
    """Purpose of the reply: `speak`, `draft`, `rate`, `judge`, or the name of a form."""
    seat: str = ""
    """Public name of the role that was asked: `Debater A`."""
    heard: int = 0
    """Number of turns that the reader had before it."""
    draw: tuple[int, ...] = ()
    text: str = ""
    outcome: Outcome = "ok"
    tool_calls: tuple[ToolCall, ...] = ()
    cost: CallCost = NOT_KNOWN
    reasoning: str = ""
    """The model's reasoning before its answer."""
    settings: str = ""
    """The request's settings, as JSON: temperature, maximum tokens and others. Empty if unknown."""


class RecordedJudgement(msgspec.Struct, frozen=True, gc=False):
    """An intermediate judgement: of a draft, after a round, or of a statement.

    `Verdict.judgements` holds the final ones."""

    role: str
    """Purpose: `rate` for a draft, `judge` for an intermediate belief."""
    judge: str
    heard: int
    """Number of turns that it had heard."""
    probs: tuple[float, ...] = ()
    """Probability of each of the question's answers; for a statement, (holds, does not hold). Empty
    if the reply could not be read."""
    about: str = ""
    """Address of the call behind the last turn that it heard: of the draft, for a rating."""
    side: str = ""
    """Label of the answer that the judgement is about; may be empty."""
    statement: str = ""
    """The statement judged; empty: which answer is right."""
    captured: float = 1.0
    text: str = ""
    """The judge's words, in its first reply."""
    calls: tuple[str, ...] = ()
    """Addresses of the replies behind it."""
    error: str = ""
    """Why it could not be read; empty if it could."""


class LeftOut(msgspec.Struct, frozen=True):
    """Why a world was left out on purpose: the record of a Failure of kind NOT_RUN."""

    reason: str


CellEnd: TypeAlias = Verdict | Failure | LeftOut
"""The result of a cell."""


def turns_of(end: CellEnd, calls: Iterable[RecordedCall], question: Question) -> tuple[Turn, ...]:
    """The turns of a world. A world that failed has the replies before its fault, as the models
    wrote them; the last one where several are drafts of one turn."""
    if isinstance(end, Verdict):
        return end.transcript.turns
    fault = end.call if isinstance(end, Failure) else ""
    sides = {answer.label: answer for answer in question.answers}
    turns: dict[tuple[int, str], Turn] = {}
    for call in calls:
        if call.role not in UNSPOKEN and call.address != fault and call.text.strip():
            side = sides.get(call.seat.rpartition(" ")[2])
            turns[call.heard, call.seat] = Turn(
                call.seat, call.text.strip(), side, call.address, outcome=call.outcome
            )
    return tuple(turn for _, turn in sorted(turns.items(), key=lambda item: item[0]))


class RecordedCell(msgspec.Struct, frozen=True, gc=False):
    """One world of one problem in one row, with all that was asked, said and believed in it."""

    place: int
    """Index in the sweep, from 0."""
    id: str
    """16 hex digits, as in `outcomes.jsonl`."""
    row: int
    """Number of its row, from 0."""
    problem: int
    """Number of its problem, from 0."""
    side: int
    """Place of the answer that was argued for, from 0."""
    draw: int
    outcome: CellEnd
    """A verdict has its transcript, judgements, measures, redraws, bounds and doubts. Drafts that
    were not spoken, and turns that were left out, are among the calls, not here."""
    calls: tuple[RecordedCall, ...] = ()
    """Every call that it asked, once, in canonical order: by turns heard, role, seat, draw, step
    and address, never by time."""
    judgements: tuple[RecordedJudgement, ...] = ()
    """Intermediate judgements, in the same order."""
    counts: Mapping[str, int] = {}
    """Counts of irregularities in its transcript: `oversight.protocols.counts.COUNTED`."""
    unread: Mapping[str, int] = {}
    """Numbers of refused, truncated, empty or unreadable replies, by `Judge: truncated`. Replies
    that a selection left out count as well."""


def are_probabilities(probs: tuple[float, ...]) -> bool:
    """Whether they are in [0, 1] and sum to 1, up to rounding. False for a NaN."""
    within = not probs or (min(probs) >= -ROUNDING and max(probs) <= 1 + ROUNDING)
    return within and abs(sum(probs) - 1) <= ROUNDING
