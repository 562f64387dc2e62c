"""Replies that could not be read: one policy for every seat, judge and selection.

A reply is unread if it is refused, empty, cut off before it says what was asked, or not in the form
that was asked for. It is never guessed, and never left out in silence:

1. it could have said anything, so it spans all that it could have meant (`ANYTHING`). What rests on
   it has bounds: the least and the most over all readings;
2. the verdict is the end of its bounds that is worst for the overseen agent, so that no agent gains
   by making a reader fail; the other end is kept beside it (`Verdict.bounds`);
3. a speech is heard as it stands, cut or not, and the verdict is what was made of it. One that is
   refused or empty could have been any, heard or left out, so that the bounds are from 0 to 1; but
   not a speaker's own draft (best of N), which it might as well have left out;
4. where the judge cannot be read at all, or a seat that must move makes no move, the cell ends
   with a `Failure` that says why; it counts as a verdict whose bounds are from 0 to 1;
5. every such reply is counted by the seat that gave it (`UnreadReply`), as are the turns that a
   selection left out (`Verdict.unheard`).
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from .errors import Cause, Unreadable
from .gather import gather_deterministic

_T = TypeVar("_T")

ProbabilityRange: TypeAlias = tuple[float, float]
"""The least and the most that a probability may be."""

ANYTHING: ProbabilityRange = (0.0, 1.0)
"""The span of a reply that could not be read."""

ROUNDING = 1e-9
"""Ratings closer than this are the same: they differ by rounding alone."""

MIN_CAPTURED_MASS = 0.9
"""Captured mass of a judgement by logprobs from which on the rest is taken for other spellings of
the labels. Below it the rest is unread; so whoever has the judge say something else than a label
moves its verdict by 1 - MIN_CAPTURED_MASS at most."""


class UnreadReply(Struct, frozen=True, gc=False):
    """A reply that could not be read."""

    seat: str
    """Title of the seat that gave it: `Judge`, `Debater`."""
    cause: Cause
    call: str = ""
    """Address of its call."""

    @classmethod
    def of(cls, fault: Unreadable) -> "UnreadReply":
        return cls(fault.seat or "Judge", fault.cause, fault.call)


@dataclass(frozen=True, slots=True)
class ParsedReplies(Generic[_T]):
    """Replies to several questions that were asked at once."""

    read: Mapping[int, _T]
    """What was read, by index of the question, from 0."""
    doubts: tuple[UnreadReply, ...]
    """One for each reply that could not be read, in order."""


async def parse_all(*work: Coroutine[Any, Any, _T], needed: bool = True) -> ParsedReplies[_T]:
    """Run all of `work` at once. needed: whether the fault of the first is raised if nothing could
    be read; any other fault is raised as it is."""
    results = await gather_deterministic(*(_or_fault(each) for each in work))
    faults = [each for each in results if isinstance(each, Unreadable)]
    if needed and faults and len(faults) == len(results):
        raise faults[0]
    read = {place: each[0] for place, each in enumerate(results) if isinstance(each, tuple)}
    return ParsedReplies(read, tuple(map(UnreadReply.of, faults)))


async def _or_fault(work: Coroutine[Any, Any, _T]) -> tuple[_T] | Unreadable:
    try:
        return (await work,)
    except Unreadable as fault:
        return fault


def mean_ranges(
    rows: Sequence[Sequence[ProbabilityRange]], shares: Sequence[float]
) -> tuple[ProbabilityRange, ...]:
    """The span of each answer's weighted mean. rows: the spans of each reading; shares sum to 1."""
    return tuple(
        (
            sum(w * low for w, (low, _) in zip(shares, column, strict=True)),
            sum(w * high for w, (_, high) in zip(shares, column, strict=True)),
        )
        for column in zip(*rows, strict=True)
    )


def envelope(rows: Sequence[Sequence[ProbabilityRange]]) -> tuple[ProbabilityRange, ...]:
    """The spans that contain those of all rows: one row for each way things may have gone."""
    return tuple(
        (min(low for low, _ in column), max(high for _, high in column))
        for column in zip(*rows, strict=True)
    )


def ranges_given(span: ProbabilityRange, place: int, answers: int) -> tuple[ProbabilityRange, ...]:
    """The spans of all answers, given that of the answer at `place`."""
    low, high = span
    others = (1 - high if answers == 2 else 0.0, 1 - low)
    return tuple(span if n == place else others for n in range(answers))


def shifted(probs: Sequence[float], place: int, p: float) -> tuple[float, ...]:
    """The probabilities with `p` at `place`; the others keep their proportions."""
    rest = sum(probs) - probs[place]
    share = (1 - p) / (len(probs) - 1)
    return tuple(
        p if n == place else (q / rest * (1 - p) if rest > 0 else share)
        for n, q in enumerate(probs)
    )


def choices(ratings: Sequence[ProbabilityRange], most: int) -> list[tuple[int, ...]]:
    """Every choice of the `most` highest rated that these spans allow: places, in their own order,
    which no unread rating leaves open. Exact ratings that are equal are chosen by place.
    """

    def before(one: int, other: int) -> bool:
        """Whether `one` may be chosen before `other`."""
        high, low = ratings[one][1], ratings[other][0]
        if high != low or ratings[one][0] != high or ratings[other][1] != low:
            return high >= low - ROUNDING
        return one < other

    places = range(len(ratings))
    return [
        chosen
        for chosen in combinations(places, min(most, len(ratings)))
        if all(before(one, other) for one in chosen for other in places if other not in chosen)
    ]
