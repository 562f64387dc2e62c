"""Nested oversight from lines of ratings over capability, refitted in every resample."""

from collections.abc import Mapping, Sequence

import numpy as np

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.nested_oversight import (
    STEPS,
    Nested,
    NestedEstimate,
    nested_oversight,
    straight_line,
    with_resamples,
)
from oversight.protocols.scoring.ratings import Rating, Ratings

MIN_MODELS = 3
"""Fewest ratings of a role: any two points lie on a line."""


def nested_from_ratings(
    ratings: Ratings,
    capability: Mapping[str, float],
    *,
    start: float,
    gap: float,
    steps: int = STEPS,
    level: float = 0.95,
) -> NestedEstimate:
    """Success probabilities of nested oversight, with straight lines for Guard and Houdini.

    Each rating is weighted by the inverse of its variance over resamples. Ratings that are only
    bounds are left out. Both lines come from the same resample of problems, which keeps their
    dependence. ValueError for a model without a capability, or fewer than three ratings of a role.
    """
    guards = _Role("Guard", ratings.guards, capability)
    houdinis = _Role("Houdini", ratings.houdinis, capability)
    errors = ratings.resampled.std(axis=0)
    m = len(ratings.guards)
    seen = [*guards.at, *houdinis.at]

    def nested(row: Floats) -> Nested:
        return nested_oversight(
            straight_line(*guards.fit(row[:m], errors[:m])),
            straight_line(*houdinis.fit(row[m:], errors[m:])),
            start=start,
            gap=gap,
            steps=steps,
            seen=(min(seen), max(seen)),
        )

    whole = np.array([one.rating for one in (*ratings.guards, *ratings.houdinis)])
    return with_resamples(nested(whole), [nested(row) for row in ratings.resampled], level)


class _Role:
    def __init__(self, name: str, of: Sequence[Rating], capability: Mapping[str, float]) -> None:
        if missing := [one.model for one in of if one.model not in capability]:
            raise ValueError(f"no capability is given for {', '.join(missing)}")
        self.places = [n for n, one in enumerate(of) if not one.bounded]
        if len(self.places) < MIN_MODELS:
            raise ValueError(
                f"a line of {name} ratings needs {MIN_MODELS} models that won some and lost some, "
                f"and there are {len(self.places)}"
            )
        self.at = [capability[of[n].model] for n in self.places]
        if len(set(self.at)) < 2:
            raise ValueError(
                f"all {name} models have the same capability: no straight_line goes there"
            )

    def fit(self, ratings: Floats, errors: Floats) -> tuple[float, float]:
        weights = 1 / np.maximum(errors[self.places], 1e-9)
        slope, intercept = np.polyfit(self.at, ratings[self.places], 1, w=weights)
        return float(slope), float(intercept)
