"""How far the worlds that went wrong could move the difference of two rows.

Manski's (1990) bounds, of both rows at once: question by question, and world by world. To subtract
the bounds of one row from those of the other would let one missing verdict be good for the first
and bad for the second even where both rows lack the very same call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from oversight.protocols.scores import RANGES, Compat, Score, applicable
from oversight.protocols.scoring.bounds import WorldOutcomes
from oversight.protocols.scoring.worlds import asd_weights


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """Of the mean ASD of the first less that of the second, over the questions of either."""

    n: int
    low: float
    high: float


def difference_bounds(
    first: Mapping[str, WorldOutcomes],
    second: Mapping[str, WorldOutcomes],
    score: str,
    *,
    same: Mapping[str, tuple[bool, ...]] | None = None,
    compat: Compat = "none",
) -> DifferenceBounds:
    """Bounds of the difference under `score`, by its name.

    first, second: by question; where one row lacks it, nothing is known of its worlds. same: for
    a question, whether each of its worlds is the same calls in both rows: whatever such a world
    would have said, both rows would have heard. ValueError if there is no question, or if the rows
    differ in its values.
    """
    questions = {**first, **second}
    if not questions:
        raise ValueError("bounds of a difference need at least one question")
    lows, highs = [], []
    for id, known in questions.items():
        one, two = first.get(id), second.get(id)
        if one and two and one.values != two.values:
            raise ValueError(
                f"question {id}: values {one.values} in one row, {two.values} in the other"
            )
        shared = (same or {}).get(id, (False,) * len(known.values))
        of = applicable(len(known.values), compat)[score]
        low = high = 0.0
        for place, weight in enumerate(asd_weights(known.values, compat)):
            if shared[place]:
                continue
            one_low, one_high = _ends(one, place, score, of)
            two_low, two_high = _ends(two, place, score, of)
            apart = (weight * (one_low - two_high), weight * (one_high - two_low))
            low += min(apart)
            high += max(apart)
        lows.append(low)
        highs.append(high)
    return DifferenceBounds(len(questions), fmean(lows), fmean(highs))


def _ends(row: WorldOutcomes | None, place: int, score: str, of: Score) -> tuple[float, float]:
    """The lowest and the highest agent score that a world may have: one and the same if sound."""
    world = row.worlds[place] if row else None
    if world is None or world.verdict is None or world.doubt:
        return RANGES[score]
    known = of(world.verdict, place)
    return known, known
