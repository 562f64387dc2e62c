"""The rows of a run as they are compared: named shortly, with their measures."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from oversight.engine.errors import UsageError
from oversight.engine.reports.aggregate import OutcomeTable
from oversight.engine.runs.loaded_sweep import LoadedSweep, open_run
from oversight.engine.runs.run_folder import outcomes
from oversight.engine.sweeps.rows import Row
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.protocol import kind
from oversight.protocols.scoring.sample import Sample

MAX_LISTED = 12
"""Row names that an error message lists at most."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """A run with its outcomes, its rows named."""

    folder: Path
    opened: LoadedSweep
    table: OutcomeTable
    names: tuple[str, ...]
    """One a row, no two alike."""

    @property
    def sweep(self) -> Sweep:
        return self.opened.sweep

    def asd(self, score: str) -> dict[str, Sample]:
        """The ASD of every row that has a complete problem, by name."""
        found = {name: self.table.worlds(n).samples(score, ()) for n, name in enumerate(self.names)}
        return {name: samples.asd for name, samples in found.items() if samples}


def read_rows(folder: Path, opened: LoadedSweep | None = None) -> RunRows:
    """A run as it stands. opened: its sweep, where somebody has it. RunFolderError for what is no
    run folder."""
    opened = opened or open_run(folder)
    table = OutcomeTable(opened.sweep)
    for record in outcomes(folder):
        table.add(record)
    return RunRows(folder, opened, table, row_names(opened.sweep.rows))


def row_names(rows: Sequence[Row]) -> tuple[str, ...]:
    """The protocol of each row, with its agent and its judge where there are several."""
    agents = len({row.agent for row in rows} - {""}) > 1
    judges = len({row.judge for row in rows}) > 1
    return tuple(
        " · ".join(filter(None, (row.kind, row.agent * agents, row.judge * judges))) for row in rows
    )


def rows_meant(word: str, rows: Sequence[Row], names: Sequence[str]) -> list[int]:
    """The rows that a word means: one of just that name, else those of that protocol with its
    settings, else of that protocol, else those that have all of its parts in their names.

    Case and underscores make no difference. UsageError, with names there are, if it means none.
    """
    wanted = _plain(word)
    tries: tuple[Iterator[bool], ...] = (
        (_plain(name) == wanted for name in names),
        (_plain(row.kind) == wanted for row in rows),
        (kind(type(row.protocol)) == wanted for row in rows),
        (_has_all(row, wanted) for row in rows),
    )
    for fits in tries:
        if found := [n for n, fit in enumerate(fits) if fit]:
            return found
    more = f"\n  … and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    listed = "\n  ".join(names[:MAX_LISTED])
    raise UsageError(f"no row is called {word!r}; there are:\n  {listed}{more}")


def pairs_meant(
    first: str, second: str, rows: Sequence[Row], names: Sequence[str]
) -> list[tuple[int, int]]:
    """The contrasts that two words mean: of rows that have agent and judge in common, if any do;
    a row without an agent goes with every one. UsageError if the words mean the same row alone."""
    ones, twos = rows_meant(first, rows, names), rows_meant(second, rows, names)
    every = [(one, two) for one, two in product(ones, twos) if one != two]
    if not every:
        raise UsageError(f"{first!r} and {second!r} mean the same row, {names[ones[0]]}")
    alike = [(one, two) for one, two in every if same_roles(rows[one], rows[two])]
    # A pair of a set with itself is looked at once.
    found: dict[frozenset[int], tuple[int, int]] = {}
    for pair in alike or every:
        found.setdefault(frozenset(pair), pair)
    return list(found.values())


def against_naive(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Each row with the naive judge that has its judge; none where there is no naive judge."""
    naive = {row.judge: n for n, row in enumerate(rows) if isinstance(row.protocol, NaiveJudge)}
    return [
        (n, naive[row.judge])
        for n, row in enumerate(rows)
        if row.judge in naive and naive[row.judge] != n
    ]


def matched(ours: Sequence[Row], theirs: Sequence[Row]) -> Mapping[int, int]:
    """The rows of two runs that belong together: equal in all settings, else of one name, else the
    only ones with the same protocol and judge, protocol and agent, or protocol."""
    keys: tuple[Callable[[Row], Hashable], ...] = (
        lambda row: row.address,
        lambda row: (row.kind, row.agent, row.judge),
        lambda row: (row.kind, row.judge),
        lambda row: (row.kind, row.agent),
        lambda row: row.kind,
    )
    found: dict[int, int] = {}
    for key in keys:
        left, right = (
            _by_key(key, rows, taken)
            for rows, taken in ((ours, set(found)), (theirs, set(found.values())))
        )
        for one, places in left.items():
            others = right.get(one, [])
            if len(places) == len(others) == 1:
                found[places[0]] = others[0]
    return dict(sorted(found.items()))


def _by_key(
    key: Callable[[Row], Hashable], rows: Sequence[Row], taken: set[int]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for n, row in enumerate(rows):
        if n not in taken:
            found.setdefault(key(row), []).append(n)
    return found


def same_roles(one: Row, two: Row) -> bool:
    """Whether two rows have agent and judge in common; one without an agent goes with any."""
    return one.judge == two.judge and (one.agent == two.agent or not one.agent or not two.agent)


def _has_all(row: Row, wanted: str) -> bool:
    name = _plain(f"{row.kind} {row.agent} {row.judge}")
    return all(part in name for part in wanted.replace("·", " ").split())


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())
