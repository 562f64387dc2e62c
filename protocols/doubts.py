"""Unread replies: one policy for every role, judge and selection.

A reply is unread if it is refused, empty, cut off before its statement, or not in the requested
form. Unread replies are never guessed. They are counted and bounded:

1. The reply could have said anything, so its probability range is `ANYTHING`. Values that depend on
   it have bounds: the lowest and the highest value over all possible readings.
2. The verdict is the bound that is worst for the overseen agent, so that no agent gains by making a
   reader fail. The verdict keeps both bounds (`Verdict.bounds`).
3. A speech that was cut is heard as it stands. A refused or empty speech could have been any
   speech, heard or left out, so its bounds are 0 and 1. This excludes a speaker's own drafts (best
   of N), which the speaker may leave out anyway.
4. If the judge cannot be read at all, or a required move is missing, the cell ends with a `Failure`
   that gives the reason. It counts as a verdict with bounds 0 and 1.
5. Every such reply is counted for the role that gave it (`UnreadReply`), as are the turns that a
   selection left out (`Verdict.unheard`).
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from .errors import Cause, Unreadable, gather_deterministic

_T = TypeVar("_T")

ProbabilityRange: TypeAlias = tuple[float, float]
"""The lowest and the highest possible value of a probability."""

ANYTHING: ProbabilityRange = (0.0, 1.0)
"""The range of a reply that could not be read."""

ROUNDING = 1e-9
"""Ratings closer than this count as equal: they differ only by rounding."""

MIN_CAPTURED_MASS = 0.9
"""Minimum label probability at which the rest of a logprob judgement counts as other spellings of
the labels. Below it the rest is unread. So an agent that makes the judge say something other than a
label moves the verdict by at most 1 - MIN_CAPTURED_MASS."""


class UnreadReply(Struct, frozen=True, gc=False):
    """A reply that could not be read."""

    seat: str
    """Title of the role that gave it: `Judge`, `Debater`."""
    cause: Cause
    call: str = ""
    """Address of its call."""

    @classmethod
    def of(cls, fault: Unreadable) -> "UnreadReply":
        return cls(fault.seat or "Judge", fault.cause, fault.call)


@dataclass(frozen=True, slots=True)
class ParsedReplies(Generic[_T]):
    """Replies to several questions that were asked concurrently."""

    read: Mapping[int, _T]
    """The parsed values, by index of the question, from 0."""
    doubts: tuple[UnreadReply, ...]
    """One entry per unread reply, in order."""


async def parse_all(*work: Coroutine[Any, Any, _T], needed: bool = True) -> ParsedReplies[_T]:
    """Run all of `work` concurrently and collect the unread replies. needed: raise the first
    Unreadable if no reply could be read. Other errors are always raised."""
    results = await gather_deterministic(*(_or_fault(coroutine) for coroutine in work))
    faults = [result for result in results if isinstance(result, Unreadable)]
    if needed and faults and len(faults) == len(results):
        raise faults[0]
    read = {index: result[0] for index, result in enumerate(results) if isinstance(result, tuple)}
    return ParsedReplies(read, tuple(map(UnreadReply.of, faults)))


async def _or_fault(work: Coroutine[Any, Any, _T]) -> tuple[_T] | Unreadable:
    try:
        return (await work,)
    except Unreadable as fault:
        return fault


def mean_ranges(
    rows: Sequence[Sequence[ProbabilityRange]], shares: Sequence[float]
) -> tuple[ProbabilityRange, ...]:
    """The range of each answer's weighted mean. rows: ranges of each reading; shares sum to 1."""
    return tuple(
        (
            sum(w * low for w, (low, _) in zip(shares, column, strict=True)),
            sum(w * high for w, (_, high) in zip(shares, column, strict=True)),
        )
        for column in zip(*rows, strict=True)
    )


def envelope(rows: Sequence[Sequence[ProbabilityRange]]) -> tuple[ProbabilityRange, ...]:
    """The smallest ranges that contain every row's ranges. One row is one possible outcome."""
    return tuple(
        (min(low for low, _ in column), max(high for _, high in column))
        for column in zip(*rows, strict=True)
    )


def ranges_given(exact: ProbabilityRange, index: int, answers: int) -> tuple[ProbabilityRange, ...]:
    """The ranges of all answers, given the range of the answer at `index`."""
    low, high = exact
    others = (1 - high if answers == 2 else 0.0, 1 - low)
    return tuple(exact if n == index else others for n in range(answers))


def shifted(probs: Sequence[float], index: int, p: float) -> tuple[float, ...]:
    """The probabilities with `p` at `index`. The others keep their proportions."""
    others = sum(probs) - probs[index]
    share = (1 - p) / (len(probs) - 1)
    return tuple(
        p if n == index else (q / others * (1 - p) if others > 0 else share)
        for n, q in enumerate(probs)
    )


def choices(ratings: Sequence[ProbabilityRange], most: int) -> list[tuple[int, ...]]:
    """Every possible choice of the `most` highest ratings, as ascending indices. Unread ratings may
    leave several choices open. Equal exact ratings are chosen by index."""

    def before(one: int, other: int) -> bool:
        """Whether `one` may be chosen before `other`."""
        high, low = ratings[one][1], ratings[other][0]
        if high != low or ratings[one][0] != high or ratings[other][1] != low:
            return high >= low - ROUNDING
        return one < other

    indices = range(len(ratings))
    return [
        chosen
        for chosen in combinations(indices, min(most, len(ratings)))
        if all(before(one, other) for one in chosen for other in indices if other not in chosen)
    ]
