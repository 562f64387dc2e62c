"""Names of rows, and the rows and pairs of rows that words such as `debate - consultancy` mean."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from ...protocols.settings import suggestion
from ..errors import UsageError
from ..sweep.grid import GridRow, baselines

MAX_LISTED = 12
"""Most row names listed in an error message."""


def row_names(rows: Sequence[GridRow]) -> tuple[str, ...]:
    """Row names: the protocol, with agent and judge where the sweep has several."""
    agents = len({row.agent for row in rows} - {""}) > 1
    judges = len({row.judge for row in rows}) > 1
    return tuple(
        " · ".join(filter(None, (row.shown, row.shown_agent * agents, row.shown_judge * judges)))
        for row in rows
    )


def rows_meant(word: str, rows: Sequence[GridRow], names: Sequence[str]) -> list[int]:
    """Rows that match a word: the row of that name, else rows of that protocol with its settings,
    else of that protocol, else those whose names contain all of its parts.

    Case and underscores make no difference. UsageError, listing the names, if none matches."""
    plain = _plain(word)
    tries: tuple[Iterator[bool], ...] = (
        (_plain(name) == plain for name in names),
        (plain in (_plain(row.kind), _plain(row.shown)) for row in rows),
        (row.mechanism == plain for row in rows),
        (has_words((row.kind, row.agent, row.judge, *row.shown_names), word) for row in rows),
    )
    for fits in tries:
        if matches := [n for n, fit in enumerate(fits) if fit]:
            return matches
    more = f"\n  … and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    listed = "\n  ".join(names[:MAX_LISTED])
    kinds = (name for row in rows for name in (row.mechanism, row.shown, row.kind))
    near = suggestion(plain, dict.fromkeys((*kinds, *names)))
    raise UsageError(f"unknown row {word!r}{near or ':'} choose from\n  {listed}{more}")


def pairs_meant(
    first: str, second: str, rows: Sequence[GridRow], names: Sequence[str]
) -> list[tuple[int, int]]:
    """Contrasts between rows that match two words, preferably with the same agent and judge; a
    row without an agent pairs with any. UsageError if both match only the same row."""
    ones, twos = rows_meant(first, rows, names), rows_meant(second, rows, names)
    every = [(one, two) for one, two in product(ones, twos) if one != two]
    if not every:
        raise UsageError(f"{first!r} and {second!r} mean the same row, {names[ones[0]]}")
    return distinct(of_same_roles(every, rows, rows))


def one_pair_meant(
    first: str, second: str, rows: Sequence[GridRow], names: Sequence[str]
) -> tuple[int, int]:
    """The only contrast between rows that match two words. UsageError lists
    them if several match."""
    pairs = pairs_meant(first, second, rows, names)
    if len(pairs) > 1:
        several = "\n  ".join(f"{names[a]} - {names[b]}" for a, b in pairs[:MAX_LISTED])
        raise UsageError(
            f"'{first} - {second}' means {len(pairs)} contrasts; choose one by parts of agents and "
            f"judges:\n  {several}"
        )
    return pairs[0]


def distinct(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each pair of rows once, in the order of first mention: `A - B` and `B - A` are one."""
    unique: dict[frozenset[int], tuple[int, int]] = {}
    for pair in pairs:
        unique.setdefault(frozenset(pair), pair)
    return list(unique.values())


def against_naive(rows: Sequence[GridRow]) -> list[tuple[int, int]]:
    """Each row paired with its naive judge; rows without one are left out."""
    return [(n, alone) for n, alone in baselines(rows).items() if n != alone]


def matched(ours: Sequence[GridRow], theirs: Sequence[GridRow]) -> Mapping[int, int]:
    """Matching rows of two runs: equal in all settings, else in name, else the only ones with the
    same protocol and judge, protocol and agent, or protocol."""
    keys: tuple[Callable[[GridRow], Hashable], ...] = (
        lambda row: row.address,
        lambda row: (row.kind, row.agent, row.judge),
        lambda row: row.shown_names,
        lambda row: (row.kind, row.judge),
        lambda row: (row.kind, row.agent),
        lambda row: row.kind,
    )
    matches: dict[int, int] = {}
    for key in keys:
        one, two = defaultdict[Hashable, list[int]](list), defaultdict[Hashable, list[int]](list)
        for rows, used, by_key in ((ours, {*matches}, one), (theirs, {*matches.values()}, two)):
            for n, row in enumerate(rows):
                if n not in used:
                    by_key[key(row)].append(n)
        for value, numbers in one.items():
            if len(numbers) == len(two[value]) == 1:
                matches[numbers[0]] = two[value][0]
    return dict(sorted(matches.items()))


def read_pair(text: str) -> tuple[str, str]:
    """Parse `A - B`. UsageError if it is not two names."""
    names = [name.strip() for name in text.split(" - ")]
    if len(names) != 2 or not all(names):
        raise UsageError(f"{text!r}: write two rows, as in 'debate - consultancy'")
    return names[0], names[1]


def of_same_roles(
    pairs: list[tuple[int, int]], ours: Sequence[GridRow], theirs: Sequence[GridRow]
) -> list[tuple[int, int]]:
    """Pairs with the same agent and judge if any, else all; a row without an agent fits any."""

    def same(one: GridRow, two: GridRow) -> bool:
        return one.judge == two.judge and (one.agent == two.agent or not one.agent or not two.agent)

    return [(a, b) for a, b in pairs if same(ours[a], theirs[b])] or pairs


def has_words(names: Iterable[str], text: str) -> bool:
    """Whether these names have all words of a text, each as a whole."""
    return _words(text) <= _words(" ".join(names))


def _words(name: str) -> set[str]:
    return {*re.split(r"[^\w.-]+", _plain(name))} - {""}


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())
