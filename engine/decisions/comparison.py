"""Comparison of rows: contrasts between the rows of one run, or of two runs.

Each `oversight.protocols.scoring.contrasts.Contrast` comes with the judge's flips, the bounds set
by failed worlds, the share of calls that both rows make, and the questions on which the two differ
most. No call is made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from ...protocols.scores import TIE
from ...protocols.scoring.clustered import by_cluster, codes, few_clusters
from ...protocols.scoring.contrasts import Contrast, contrasts
from ...protocols.scoring.families import Family
from ...protocols.scoring.ranks import RankSet, rank_sets
from ...protocols.scoring.resamples import resampled_means, together
from ...protocols.scoring.sample import Sample, paired
from ...protocols.scoring.scarce import Powered, prediction_powered
from ...protocols.scoring.verdict_measures import Flips
from ..errors import UsageError
from .instruments import instrument_notes
from .row_verdicts import DifferenceBounds, RowVerdicts
from .rows import (
    RunRows,
    against_naive,
    distinct,
    matched,
    pairs_meant,
    rows_meant,
    same_roles,
)
from .statement import read_pair

RowPlace: TypeAlias = tuple[int, int]
"""A row: the index of its run, and its index in that run."""

CallShare: TypeAlias = Callable[[RowPlace, RowPlace], float | None]

DETAILED = 100
"""Most contrasts for which the questions that differ most are listed."""

MAX_DIFFERENT = 3

RESAMPLES = 1_000
"""Resamples for ranks, fewer than elsewhere: each one compares all pairs of rows."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A contrast with statistics of the verdicts behind it."""

    places: tuple[RowPlace, RowPlace]
    contrast: Contrast
    flips: Flips | None
    """Changes of the judge from the second row to the first, world by world; None if the rows have
    no world in common."""
    bounds: DifferenceBounds
    """Bounds of the difference over all outcomes of failed and doubtful worlds (Manski 1990)."""
    equal_calls: float | None
    """Share of the calls of either row that both make; None if calls were not looked up."""
    apart: tuple[tuple[str, float], ...]
    """Questions on which the rows differ most, with the difference; () beyond `DETAILED`
    contrasts."""
    swayed: bool = False
    """Whether leaving out some one cluster moves the difference by more than its standard error."""
    powered: Powered | None = None
    """Mean of the first row, made more precise by the second row on questions that the first lacks;
    None if there is no such question, or if questions come in groups."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contrasts tested together, as one family."""

    name: str
    """Name of the run, or of both runs."""
    score: str
    family: Family
    equivalence: float
    contrasts: tuple[Compared, ...]
    notes: tuple[str, ...] = ()
    """Differences between two runs beside the compared rows, and contrasts left out."""
    ranks: tuple[tuple[str, RankSet], ...] = ()
    """By row name, its simultaneous set of possible ranks; () unless all rows of a run were
    compared."""

    def __str__(self) -> str:
        """The tables that `oversight compare` prints."""
        from .comparison_text import comparison_text

        return comparison_text(self, "text")

    def _repr_markdown_(self) -> str:
        """Notebook display."""
        from .comparison_text import comparison_text

        return comparison_text(self, "markdown")

    @property
    def multiplicity(self) -> str:
        """Number of contrasts, and the correction of p for that number."""
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
    first: RunRows,
    second: RunRows | None = None,
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
    """Compare the rows of one run, or the matching rows of two runs.

    A contrast is the first row minus the second; with two runs, the first run minus the second.
    Within one run: the named contrasts, all pairs, or all rows against a baseline; by default all
    rows against the naive judge, or all pairs if there is none. named: each `A,B`; with two runs A
    is a row of the first and B a row of the second.

    UsageError for unknown names, for baseline or pairs with two runs, if nothing can be compared,
    and for two runs that share no problem or no row.
    """
    runs = (first,) if second is None else (first, second)
    notes: tuple[str, ...] = ()
    if second is None:
        name, names = first.sweep.name, first.names
        places = [((0, one), (0, two)) for one, two in _within(first, baseline, pairs, named)]
    else:
        if baseline is not None or pairs is not None:
            raise UsageError("--baseline and --pairs are of one run; of two: --contrast A,B")
        name = f"{first.folder.name} and {second.folder.name}"
        names = tuple(
            f"{row} ({label})"
            for run, label in zip(runs, _labels(first, second), strict=True)
            for row in run.names
        )
        matches = _between(first, second, named)
        notes = tuple(instrument_notes(first, second, matches))
        places = [((0, one), (1, two)) for one, two in matches]
    result = _compared(name, runs, names, places, score, family, equivalence, seed, share)
    ranks = _ranks(first.asd(score), seed) if pairs == "all" else ()
    return replace(result, notes=(*notes, *result.notes), ranks=ranks)


def _within(
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


def _between(first: RunRows, second: RunRows, named: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of rows of two runs to compare."""
    pairs = list(matched(first.sweep.rows, second.sweep.rows).items())
    if named:
        pairs = [pair for words in named for pair in _across(first, second, *read_pair(words))]
    if not pairs:
        raise UsageError(
            f"{first.folder} and {second.folder} have no row in common; name two: --contrast "
            f"'{first.names[0]},{second.names[0]}'"
        )
    return list(dict.fromkeys(pairs))


def _across(first: RunRows, second: RunRows, one: str, two: str) -> list[tuple[int, int]]:
    ours, theirs = first.sweep.rows, second.sweep.rows
    every = [
        (a, b)
        for a in rows_meant(one, ours, first.names)
        for b in rows_meant(two, theirs, second.names)
    ]
    alike = [(a, b) for a, b in every if same_roles(ours[a], theirs[b])]
    return alike or every


def differences_meant(
    comparison: Comparison, one: str, two: str, first: RunRows, second: RunRows | None = None
) -> Iterator[tuple[Contrast, float]]:
    """Contrasts between rows matching `one` and `two`, each with the difference one minus two."""
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


def _compared(
    name: str,
    runs: tuple[RunRows, ...],
    names: tuple[str, ...],
    places: Sequence[tuple[RowPlace, RowPlace]],
    score: str,
    family: Family,
    equivalence: float,
    seed: int,
    share: CallShare | None,
) -> Comparison:
    """Build a comparison. names: row names of all runs, one run after the other."""
    offsets = [0]
    for run in runs:
        offsets.append(offsets[-1] + len(run.sweep.rows))

    def number(place: RowPlace) -> int:
        return offsets[place[0]] + place[1]

    needed = sorted({place for pair in places for place in pair})
    samples: dict[str, Sample] = {}
    for run_index, row in needed:
        measured = runs[run_index].table.worlds(row).samples(score, ())
        if measured is not None:
            samples[names[number((run_index, row))]] = measured.asd
    complete = [
        (one, two)
        for one, two in places
        if comparable(samples.get(names[number(one)]), samples.get(names[number(two)]))
    ]
    if not complete:
        raise UsageError(
            f"{name}: nothing to compare yet: a contrast needs two problems, or groups of them, "
            "with a verdict in every world of both rows"
        )
    pairs = [(names[number(one)], names[number(two)]) for one, two in complete]
    try:
        tested = contrasts(samples, pairs, family=family, equivalence=equivalence, seed=seed)
    except ValueError as exc:
        raise UsageError(f"{name}: {exc}") from exc
    verdicts = RowVerdicts(runs, score)
    numbers = [(number(one), number(two)) for one, two in complete]
    flips = verdicts.flips(numbers)
    bounds = verdicts.bounds(numbers)
    dropped = len(places) - len(complete)
    left_out = f"{dropped:,} contrasts are left out: their rows share too few problems."
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
                _apart(samples, pairs[k]) if len(tested) <= DETAILED else (),
                _swayed(samples, pairs[k]) if len(tested) <= DETAILED else False,
                _powered(*(samples[name] for name in pairs[k])),
            )
            for k, contrast in enumerate(tested)
        ),
        (left_out,) if dropped else (),
    )


def comparable(first: Sample | None, second: Sample | None) -> bool:
    """Whether two rows share at least two clusters of questions."""
    if first is None or second is None:
        return False
    if first.questions == second.questions:
        return len(first.questions) > 1 and len(set(first.clusters)) > 1
    both = set(second.questions)
    shared = {key for id, key in zip(first.questions, first.clusters, strict=True) if id in both}
    return len(shared) > 1


def _ranks(samples: Mapping[str, Sample], seed: int) -> tuple[tuple[str, RankSet], ...]:
    """Rank sets over the problems that all rows have; () for fewer than two clusters of them."""
    try:
        rows = together(samples)
    except ValueError:
        return ()
    if len(rows.sizes) < 2:
        return ()
    sets = rank_sets(rows.means, resampled_means(rows, seed=seed, resamples=RESAMPLES))
    return tuple(zip(rows.names, sets, strict=True))


def _swayed(samples: Mapping[str, Sample], pair: tuple[str, str]) -> bool:
    apart = paired(samples[pair[0]], samples[pair[1]])
    return few_clusters(*by_cluster(apart.values, codes(apart.clusters))).most_moved > 1


def _powered(first: Sample, second: Sample) -> Powered | None:
    """The first row's mean, with the second row's verdicts (on any scale) as predictions."""
    if any(first.groups) or any(second.groups) or len(second.questions) <= len(first.questions):
        return None
    predicted = dict(zip(second.questions, second.values, strict=True))
    shared = [n for n, id in enumerate(first.questions) if id in predicted]
    shared_ids = {first.questions[n] for n in shared}
    others = [value for id, value in predicted.items() if id not in shared_ids]
    if len(shared) < 2 or not others:
        return None
    return prediction_powered(
        np.array([first.values[n] for n in shared]),
        np.array([predicted[first.questions[n]] for n in shared]),
        np.array(others),
    )


def _apart(samples: Mapping[str, Sample], pair: tuple[str, str]) -> tuple[tuple[str, float], ...]:
    apart = paired(samples[pair[0]], samples[pair[1]])
    by_size = sorted(
        zip(apart.questions, apart.values, strict=True), key=lambda one: (-abs(one[1]), one[0])
    )
    return tuple(one for one in by_size[:MAX_DIFFERENT] if abs(one[1]) > TIE)
