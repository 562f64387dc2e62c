"""Which two rows are meant: by words such as `debate - consultancy`, or by what they are.

A and B of `A - B` are names of rows or parts of names (`oversight.engine.analysis.rows`).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from ..errors import UsageError
from .rows import RunRows, against_naive, distinct, matched, pairs_meant, rows_meant, same_roles


def read_pair(text: str) -> tuple[str, str]:
    """Parse `A - B`. UsageError if it is not two names."""
    names = [name.strip() for name in text.split(" - ")]
    if len(names) != 2 or not all(names):
        raise UsageError(f"{text!r} is no contrast; write two rows: 'debate - consultancy'")
    return names[0], names[1]


def pairs_within(
    run: RunRows, baseline: str | None, pairs: Literal["all"] | None, named: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs of rows of one run to compare."""
    rows, names = run.sweep.rows, run.names
    if len(rows) < 2:
        raise UsageError(f"{run.folder} has one row, {names[0]}: a contrast needs two")
    chosen: list[tuple[int, int]] = []
    for words in named:
        chosen += pairs_meant(*read_pair(words), rows, names)
    if baseline is not None:
        base = rows_meant(baseline, rows, names)
        every = [(n, one) for one in base for n in range(len(rows)) if n not in base]
        alike = [(n, one) for n, one in every if rows[n].judge == rows[one].judge]
        chosen += alike or every
    if not named and baseline is None and pairs is None:
        chosen = against_naive(rows)
    if pairs == "all" or not chosen:
        chosen = list(combinations(range(len(rows)), 2))
    return distinct(chosen)


def pairs_between(first: RunRows, second: RunRows, named: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of rows of two runs to compare."""
    pairs = list(matched(first.sweep.rows, second.sweep.rows).items())
    if named:
        pairs = [pair for words in named for pair in pairs_across(first, second, *read_pair(words))]
    if not pairs:
        raise UsageError(
            f"{first.folder} and {second.folder} have no row in common; name two: --contrast "
            f"'{first.names[0]} - {second.names[0]}'"
        )
    return list(dict.fromkeys(pairs))


def pairs_across(first: RunRows, second: RunRows, one: str, two: str) -> list[tuple[int, int]]:
    ours, theirs = first.sweep.rows, second.sweep.rows
    every = [
        (a, b)
        for a in rows_meant(one, ours, first.names)
        for b in rows_meant(two, theirs, second.names)
    ]
    alike = [(a, b) for a, b in every if same_roles(ours[a], theirs[b])]
    return alike or every
