"""Which rows are better than which: contrasts of the rows of one run, or of two runs.

Beside what `oversight.protocols.scoring.contrasts` says of each difference stand the flips of the
judge, the bounds that failed worlds leave, the share of calls that both rows ask, and the questions
on which the two differ most. No call is made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from oversight.cache.address import value_address
from oversight.engine.decisions.rows import (
    RunRows,
    against_naive,
    matched,
    pairs_meant,
    rows_meant,
    same_roles,
)
from oversight.engine.decisions.statement import read_pair
from oversight.engine.errors import UsageError
from oversight.engine.reports.cell_index import Flags
from oversight.protocols.scores import RANGES, TIE, applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.contrasts import Contrast, contrasts
from oversight.protocols.scoring.difference_bounds import DifferenceBounds
from oversight.protocols.scoring.families import Family
from oversight.protocols.scoring.ranks import RankSet, rank_sets
from oversight.protocols.scoring.resamples import resampled_means, together
from oversight.protocols.scoring.sample import Sample, paired
from oversight.protocols.scoring.verdict_measures import Flips
from oversight.protocols.scoring.worlds import asd_weights

Place: TypeAlias = tuple[int, int]
"""A row: which of the runs it is of, and its number there."""

CallShare: TypeAlias = Callable[[Place, Place], float | None]

DETAILED = 100
"""Contrasts for which the questions that differ most are named; of more, nobody reads them."""

MOST_DIFFERENT = 3

RESAMPLES = 1_000
"""For ranks, which look at all pairs in every one."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A contrast with what the verdicts behind it tell."""

    places: tuple[Place, Place]
    contrast: Contrast
    flips: Flips | None
    """From the judge of the second row to that of the first, world by world; None without a world
    that both have."""
    bounds: DifferenceBounds
    """What failed and doubtful worlds could make of the difference (Manski 1990)."""
    equal_calls: float | None
    """Share of the calls of either row that both ask; None where calls were not looked up."""
    apart: tuple[tuple[str, float], ...]
    """Questions on which the rows differ most, with the difference; () among many contrasts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contrasts that were looked at together."""

    name: str
    """Of the run, or of both."""
    score: str
    family: Family
    equivalence: float
    contrasts: tuple[Compared, ...]
    notes: tuple[str, ...] = ()
    """Why two runs may not be the same instrument."""
    ranks: tuple[tuple[str, RankSet], ...] = ()
    """Where all rows of a run were compared: the ranks that each may have, all right at once."""

    @property
    def multiplicity(self) -> str:
        """How many contrasts were looked at, and what that was corrected for by."""
        k = len(self.contrasts)
        if k == 1:
            return "1 contrast was looked at: p is not corrected."
        how = {
            "step-max-t": "p_family: family-wise error, step-down max-t over common sign flips",
            "holm": "p_family: family-wise error, Holm's step-down",
            "bh": "p_family: q, the false discovery rate (Benjamini and Hochberg)",
        }[self.family]
        return f"{k:,} contrasts were looked at. {how}."


def compare_rows(
    run: RunRows,
    *,
    baseline: str | None = None,
    pairs: Literal["all"] | None = None,
    named: Sequence[str] = (),
    score: str = "brier",
    family: Family = "step-max-t",
    equivalence: float = 0.05,
    seed: int = 0,
    share: CallShare | None = None,
) -> Comparison:
    """Contrasts of the rows of one run: named ones, all pairs, or all rows against a baseline;
    without any of these against the naive judge, and where there is none, all pairs.

    UsageError for names that mean nothing, and where nothing can be compared.
    """
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
    # In whichever order it is asked for, a contrast is looked at once.
    distinct: dict[frozenset[int], tuple[int, int]] = {}
    for pair in chosen:
        distinct.setdefault(frozenset(pair), pair)
    places = [((0, one), (0, two)) for one, two in distinct.values()]
    found = _compared(
        run.sweep.name, (run,), run.names, places, score, family, equivalence, seed, (), share
    )
    return replace(found, ranks=_ranks(run.asd(score), seed)) if pairs == "all" else found


def compare_runs(
    first: RunRows,
    second: RunRows,
    *,
    named: Sequence[str] = (),
    score: str = "brier",
    family: Family = "step-max-t",
    equivalence: float = 0.05,
    seed: int = 0,
    share: CallShare | None = None,
) -> Comparison:
    """Contrasts of the rows that two runs have in common, first run less second.

    named: `A,B` for row A of the first less row B of the second. UsageError if the runs share no
    problem, or no row.
    """
    ours, theirs = first.sweep, second.sweep
    pairs = list(matched(ours.rows, theirs.rows).items())
    if named:
        pairs = [pair for words in named for pair in _across(first, second, *read_pair(words))]
    if not pairs:
        raise UsageError(
            f"{first.folder} and {second.folder} have no row in common; name two: --contrast "
            f"'{first.names[0]},{second.names[0]}'"
        )
    labels = _labels(first, second)
    names = tuple(
        f"{name} ({label})"
        for run, label in zip((first, second), labels, strict=True)
        for name in run.names
    )
    return _compared(
        f"{first.folder.name} and {second.folder.name}",
        (first, second),
        names,
        [((0, one), (1, two)) for one, two in dict.fromkeys(pairs)],
        score,
        family,
        equivalence,
        seed,
        tuple(_instruments(first, second, pairs)),
        share,
    )


def _across(first: RunRows, second: RunRows, one: str, two: str) -> list[tuple[int, int]]:
    ours, theirs = first.sweep.rows, second.sweep.rows
    every = [
        (a, b)
        for a in rows_meant(one, ours, first.names)
        for b in rows_meant(two, theirs, second.names)
    ]
    alike = [(a, b) for a, b in every if same_roles(ours[a], theirs[b])]
    return alike or every


def differences(
    comparison: Comparison, one: str, two: str, first: RunRows, second: RunRows | None = None
) -> Iterator[tuple[Contrast, float]]:
    """The contrasts that two words mean, each with the difference as the words have it."""
    if second is not None:
        pairs = [((0, a), (1, b)) for a, b in _across(first, second, one, two)]
    else:
        rows = first.sweep.rows
        pairs = [((0, a), (0, b)) for a, b in pairs_meant(one, two, rows, first.names)]
    for each in comparison.contrasts:
        if each.places in pairs:
            yield each.contrast, each.contrast.estimate
        elif each.places[::-1] in pairs:
            yield each.contrast, -each.contrast.estimate


def _labels(first: RunRows, second: RunRows) -> tuple[str, str]:
    names = first.folder.name, second.folder.name
    return names if names[0] != names[1] else (str(first.folder), str(second.folder))


def _instruments(
    first: RunRows, second: RunRows, pairs: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """In what two runs differ beside what is compared."""
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
    if first.sweep.code != second.sweep.code:
        yield f"{said}: the code that composes calls and reads replies differs."
    judges = {
        (ours_row.judge, theirs_row.judge)
        for ours_row, theirs_row in (
            (first.sweep.rows[one], second.sweep.rows[two]) for one, two in pairs
        )
        if value_address(ours_row.protocol.judge) != value_address(theirs_row.protocol.judge)
    }
    for one, two in sorted(judges):
        yield f"{said}: judge {one} in one, {two} in the other" + (
            ", with other settings." if one == two else "."
        )
    endpoints = {**first.sweep.identities}
    for model, identity in second.sweep.identities.items():
        if endpoints.get(model, identity) != identity:
            yield f"{said}: {model} is {endpoints[model]} in one, {identity} in the other."


def _compared(
    name: str,
    runs: tuple[RunRows, ...],
    names: tuple[str, ...],
    places: Sequence[tuple[Place, Place]],
    score: str,
    family: Family,
    equivalence: float,
    seed: int,
    notes: tuple[str, ...],
    share: CallShare | None,
) -> Comparison:
    """names: of the rows of all runs, one run after the other."""
    before = [0]
    for run in runs:
        before.append(before[-1] + len(run.sweep.rows))

    def number(place: Place) -> int:
        return before[place[0]] + place[1]

    needed = sorted({place for pair in places for place in pair})
    samples: dict[str, Sample] = {}
    for of, row in needed:
        found = runs[of].table.samples(row, score, ())
        if found is not None:
            samples[names[number((of, row))]] = found.asd
    complete = [
        (one, two)
        for one, two in places
        if _comparable(samples.get(names[number(one)]), samples.get(names[number(two)]))
    ]
    if not complete:
        raise UsageError(
            f"{name}: nothing to compare yet: a contrast needs two problems, or groups of them, "
            "with a verdict in every world of both rows"
        )
    pairs = [(names[number(one)], names[number(two)]) for one, two in complete]
    try:
        told = contrasts(samples, pairs, family=family, equivalence=equivalence, seed=seed)
    except ValueError as exc:
        raise UsageError(f"{name}: {exc}") from exc
    verdicts = _Verdicts(runs, score)
    numbers = [(number(one), number(two)) for one, two in complete]
    flips = verdicts.flips(numbers)
    bounds = verdicts.bounds(numbers)
    if lost := len(places) - len(complete):
        notes = (*notes, f"{lost:,} contrasts are left out: their rows share too few problems.")
    return Comparison(
        name,
        score,
        family,
        equivalence,
        tuple(
            Compared(
                complete[k],
                contrast,
                flips[k],
                bounds[k],
                share(*complete[k]) if share else None,
                _apart(samples, pairs[k]) if len(told) <= DETAILED else (),
            )
            for k, contrast in enumerate(told)
        ),
        notes,
    )


def _comparable(first: Sample | None, second: Sample | None) -> bool:
    """Whether two rows share two clusters of questions."""
    if first is None or second is None:
        return False
    if first.questions == second.questions:
        return len(first.questions) > 1 and len(set(first.clusters)) > 1
    both = set(second.questions)
    shared = {key for id, key in zip(first.questions, first.clusters, strict=True) if id in both}
    return len(shared) > 1


def _ranks(samples: Mapping[str, Sample], seed: int) -> tuple[tuple[str, RankSet], ...]:
    """Over the problems that all rows have; () where there are fewer than two clusters of them."""
    try:
        rows = together(samples)
    except ValueError:
        return ()
    if len(rows.sizes) < 2:
        return ()
    sets = rank_sets(rows.means, resampled_means(rows, seed=seed, resamples=RESAMPLES))
    return tuple(zip(rows.names, sets, strict=True))


def _apart(samples: Mapping[str, Sample], pair: tuple[str, str]) -> tuple[tuple[str, float], ...]:
    apart = paired(samples[pair[0]], samples[pair[1]])
    each = sorted(
        zip(apart.questions, apart.values, strict=True), key=lambda one: (-abs(one[1]), one[0])
    )
    return tuple(one for one in each[:MOST_DIFFERENT] if abs(one[1]) > TIE)


class _Verdicts:
    """What the worlds of all rows came to, rows × worlds; a world is one column for all runs."""

    def __init__(self, runs: Sequence[RunRows], score: str) -> None:
        worlds: dict[tuple[str, int, int], int] = {}
        columns = [_columns(run, worlds) for run in runs]
        rows = sum(len(run.sweep.rows) for run in runs)
        questions = {id: n for n, id in enumerate(dict.fromkeys(id for id, _, _ in worlds))}
        self._question = np.array([questions[id] for id, _, _ in worlds])
        self._right: Floats = np.full((rows, len(worlds)), np.nan)
        """How right the judge was; a tie of k answers counts 1 / k. Not a number: no verdict."""
        self._low, self._high = self._right.copy(), self._right.copy()
        """What the world may add to the ASD of its question. Not a number: it was not run."""
        line = 0
        for run, places in zip(runs, columns, strict=True):
            for row in range(len(run.sweep.rows)):
                self._right[line, places] = judged_right(run, row)
                self._low[line, places], self._high[line, places] = _ends(run, row, score)
                line += 1

    def flips(self, pairs: Sequence[tuple[int, int]]) -> list[Flips | None]:
        """From the judge of the second row to that of the first, over worlds that both have."""
        there = ~np.isnan(self._right)
        right = np.where(there, self._right, 0.0)
        wrong = np.where(there, 1 - self._right, 0.0)
        count = there.astype(np.float64) @ there.T
        shares = (right @ right.T, right @ wrong.T, wrong @ right.T, wrong @ wrong.T)
        return [
            Flips(*(float(share[two, one] / n) for share in shares))
            if (n := count[one, two])
            else None
            for one, two in pairs
        ]

    def bounds(self, pairs: Sequence[tuple[int, int]]) -> list[DifferenceBounds]:
        """Over the questions that both rows ran. World by world the ends of a difference are the
        differences of ends, so that they add up row by row."""
        questions = int(self._question.max()) + 1
        member = np.zeros((len(self._question), questions))
        member[np.arange(len(self._question)), self._question] = 1
        ran = ~np.isnan(self._low)
        low = np.where(ran, self._low, 0.0) @ member
        high = np.where(ran, self._high, 0.0) @ member
        known = ran @ member > 0
        found = []
        for one, two in pairs:
            both = known[one] & known[two]
            n = int(both.sum())
            least = float((low[one, both] - high[two, both]).sum() / n)
            most = float((high[one, both] - low[two, both]).sum() / n)
            found.append(DifferenceBounds(n, least, most))
        return found


def judged_right(run: RunRows, row: int) -> Floats:
    """How right the judge was in each cell of a row; not a number where there is no verdict."""
    index = run.table.beside.cells
    verdicts = run.table.probs[index.places(row)]
    there = ~np.isnan(verdicts[:, 0])
    largest = verdicts >= np.fmax.reduce(verdicts, axis=1, initial=-np.inf)[:, None] - TIE
    best = (largest & index.best[index.problem]).sum(axis=1)
    found: Floats = np.where(there, best / np.maximum(largest.sum(axis=1), 1), np.nan)
    return found


def _columns(run: RunRows, worlds: dict[tuple[str, int, int], int]) -> list[int]:
    """The column of each cell of a row; new worlds are added."""
    index, problems = run.table.beside.cells, run.sweep.problems
    keys = zip(index.problem.tolist(), index.draw.tolist(), index.side.tolist(), strict=True)
    return [
        worlds.setdefault((problems[problem].id, draw, side), len(worlds))
        for problem, draw, side in keys
    ]


def _ends(run: RunRows, row: int, score: str) -> tuple[Floats, Floats]:
    """What each cell of a row adds to the ASD of its question, at least and at most: one and the
    same where nothing is in doubt. Only draws whose worlds have all been run count."""
    index, problems = run.table.beside.cells, run.sweep.problems
    places, doubts = index.places(row), run.table.doubts(row)
    verdicts = run.table.probs[places]
    doubtful: Flags = np.isin(places, list(doubts))
    landed = ~np.isnan(verdicts[:, 0]) | doubtful
    # Cells of one draw of a problem are neighbours.
    draws = index.problem * run.sweep.draws + index.draw
    whole = np.bincount(draws[landed], minlength=int(draws[-1]) + 1)[draws]
    counted = whole == index.answers[index.problem]
    first = counted & (index.side == 0)
    of = np.bincount(index.problem[first], minlength=len(problems))[index.problem]
    low, high = np.full(len(places), np.nan), np.full(len(places), np.nan)
    weights = [asd_weights(problem.values) for problem in problems]
    scores = [applicable(len(problem.values)).get(score) for problem in problems]
    for cell in np.flatnonzero(counted).tolist():
        problem, side = int(index.problem[cell]), int(index.side[cell])
        if (measure := scores[problem]) is None:
            continue
        weight = weights[problem][side] / int(of[cell])
        if doubtful[cell]:
            ends = [weight * end for end in RANGES[score]]
        else:
            answers = int(index.answers[problem])
            ends = [weight * measure(tuple(verdicts[cell, :answers].tolist()), side)]
        low[cell], high[cell] = min(ends), max(ends)
    return low, high
