"""Differences between two compared runs other than the compared rows."""

from collections.abc import Iterator, Sequence

from ...cache.address import value_address
from ..errors import UsageError
from .rows import RunRows


def instrument_notes(
    first: RunRows, second: RunRows, pairs: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """One note per difference between two runs other than the compared rows.

    UsageError for runs that share no problem.
    """
    ours = {problem.id: problem for problem in first.sweep.problems}
    theirs = {problem.id: problem for problem in second.sweep.problems}
    shared = [id for id in ours if id in theirs]
    if not shared:
        raise UsageError(
            f"{first.folder} and {second.folder} share no problem: compare runs of one data set"
        )
    said = "not the same instrument"
    other = [id for id in shared if value_address(ours[id]) != value_address(theirs[id])]
    if other:
        yield (
            f"{said}: {len(other):,} of {len(shared):,} shared problems have other texts, answers "
            f"or values, {other[0]} for one."
        )
    if len(shared) < max(len(ours), len(theirs)):
        yield (
            f"{len(shared):,} problems are in both runs; {len(ours):,} in the first, "
            f"{len(theirs):,} in the second."
        )
    codes = {run.sweep.code for run in (first, second)} - {""}
    if len(codes) > 1:
        yield f"{said}: the code that composes calls and reads replies differs."
    judges = {
        (ours_row.judge, theirs_row.judge)
        for ours_row, theirs_row in (
            (first.sweep.rows[one], second.sweep.rows[two]) for one, two in pairs
        )
        if ours_row.judge_address != theirs_row.judge_address
    }
    for one, two in sorted(judges):
        yield f"{said}: judge {one} in one, {two} in the other" + (
            ", with other settings." if one == two else "."
        )
    endpoints = {**first.sweep.identities}
    for model, identity in second.sweep.identities.items():
        if endpoints.get(model, identity) != identity:
            yield f"{said}: {model} is {endpoints[model]} in one, {identity} in the other."
