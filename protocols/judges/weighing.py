"""Weights of an ensemble's members, from what they got right on decided cases.

Each weighing is a function of `right`: right[m][e] is whether member m was right on case e; all
members have the same cases, at least one. It gives one weight for each member, none below 0; only
their proportions count. If no member is right more often than wrong, all count equally.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

Weighing: TypeAlias = Literal["uniform", "adaboost", "logodds"]
Right: TypeAlias = Sequence[Sequence[bool]]


def uniform(right: Right) -> tuple[float, ...]:
    """Equal weights."""
    return (1.0,) * len(right)


def adaboost(right: Right) -> tuple[float, ...]:
    """Boosting of given members (AdaBoost.M1: Freund and Schapire 1997).

    In each step the member with the least weighted error e (the first, if several tie) gets the
    weight ln((1 - e)/e); then the cases on which it was wrong count (1 - e)/e times as much. Each
    member is taken once, and none whose error has come to 1/2.
    A member that is never wrong is taken to err on half a case, or it would silence all others.
    """
    cases = len(right[0])
    shares = [1 / cases] * cases
    weights = [0.0] * len(right)
    left = list(range(len(right)))
    while left:
        errors = {m: _weighted_error(right[m], shares) for m in left}
        best = min(left, key=errors.__getitem__)
        if errors[best] >= 1 / 2:
            break
        error = max(errors[best], 1 / (2 * cases))
        odds = (1 - error) / error
        weights[best] = math.log(odds)
        shares = [s * (1 if ok else odds) for s, ok in zip(shares, right[best], strict=True)]
        shares = [share / sum(shares) for share in shares]
        left.remove(best)
    return _or_uniform(weights)


def logodds_weights(right: Right) -> tuple[float, ...]:
    """The log odds of being right, ln(q/(1 - q)): with votes from independent members this is the
    rule that is right most often (Nitzan and Paroush 1982).

    q is estimated as (right + 1)/(cases + 2); a member that is wrong more often than right gets the
    weight 0, not a negative one.
    """
    weights = []
    for row in right:
        q = (sum(row) + 1) / (len(row) + 2)
        weights.append(max(0.0, math.log(q / (1 - q))))
    return _or_uniform(weights)


def _weighted_error(row: Sequence[bool], shares: Sequence[float]) -> float:
    # Rounded: an error that has come to 1/2 must not look like a hair less.
    return round(sum(share for share, ok in zip(shares, row, strict=True) if not ok), 12)


def _or_uniform(weights: Sequence[float]) -> tuple[float, ...]:
    return tuple(weights) if any(weights) else (1.0,) * len(weights)


WEIGHINGS: Mapping[Weighing, Callable[[Right], tuple[float, ...]]] = MappingProxyType(
    {"uniform": uniform, "adaboost": adaboost, "logodds": logodds_weights}
)
