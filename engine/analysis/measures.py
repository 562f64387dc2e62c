"""Dimensionless measures of each row from its stored verdicts, without calls or replay.

Definitions in `oversight.engine.analysis.scoring.agreement` and `contrasts`. The naive judge of a
row is the naive row with the same judge, compared world by world."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...protocols.scores import RANGES
from .findings.finding import (
    Finding,
    Part,
    change,
    column,
    estimated,
    figure,
    number,
    program,
    share,
    word,
)
from .pairs import against_naive
from .reports.aggregate import OPEN_TRUST
from .rows import RunRows
from .scoring.agreement import Apart, Calibration, Flips, apart, calibration, flips
from .scoring.estimate import Estimate, Interval
from .scoring.inference import Flags, Floats


@dataclass(frozen=True, slots=True)
class AgainstNaive:
    """A row compared with its naive judge: the effect of the protocol on the judge."""

    flips: Flips
    lift: Estimate | None
    """Accuracy less the naive judge's, both as in the report."""


@dataclass(frozen=True, slots=True)
class VerdictMeasures:
    """Measures of one row; None where its verdicts do not determine a measure."""

    name: str
    verdicts: int
    calibration: Calibration | None
    """Calibration of the largest probability as the judge's confidence of being right."""
    first_label: Apart | None
    """Reward for arguing the first answer minus that for the second, on questions with two."""
    naive: AgainstNaive | None


def verdict_measures(
    run: RunRows, score: str = "brier", interval: Interval | None = None
) -> list[VerdictMeasures]:
    """Measures of every row, in the order of the report."""
    naive, how = dict(against_naive(run.sweep.rows)), interval or run.sweep.interval
    return [_measured(run, row, naive.get(row), score, how) for row in range(len(run.names))]


def _measured(
    run: RunRows, row: int, naive: int | None, score: str, interval: Interval
) -> VerdictMeasures:
    index = run.table.cells
    verdicts = run.table.probs[index.places(row)]
    read: Flags = ~np.isnan(verdicts[:, 0])
    right = run.table.judged_right(row)
    largest = np.fmax.reduce(verdicts, axis=1, initial=-np.inf)
    first = _first_label(run, row, score)
    return VerdictMeasures(
        run.names[row],
        int(read.sum()),
        calibration(largest[read], right[read], index.cluster[read]) if read.any() else None,
        first and replace(first, estimate=first.estimate.by(interval)),
        None if naive is None else _against(run, row, naive, right, interval),
    )


def _against(
    run: RunRows, row: int, naive: int, right: Floats, interval: Interval
) -> AgainstNaive | None:
    alone = run.table.judged_right(naive)
    both = ~np.isnan(right) & ~np.isnan(alone)
    if not both.any():
        return None
    accuracy, base = run.table.accuracy(row), run.table.accuracy(naive)
    lift = accuracy.less(base) if accuracy else None
    return AgainstNaive(
        flips(alone[both], right[both]), lift.estimate(interval=interval) if lift else None
    )


def _first_label(run: RunRows, row: int, score: str) -> Apart | None:
    index = run.table.cells
    # Agent score of the side argued for in each cell; NaN without a verdict.
    rewards: Floats = np.full(len(index.problem), np.nan)
    if scored := run.table.scored(row, score):
        lines, world = np.nonzero(scored.every.ran)
        rewards[scored.every.line[lines] + world] = scored.own[lines, world]
    first = np.flatnonzero((index.answers[index.problem] == 2) & (index.side == 0))
    both = first[~np.isnan(rewards[first]) & ~np.isnan(rewards[first + 1])]
    if not len(both):
        return None
    width = RANGES[score][1] - RANGES[score][0]
    pairs_of = np.unique(index.cluster[both], return_inverse=True)[1]
    # Values fixed by definition have no sampling error.
    certain = run.sweep.rows[row].is_a(OPEN_TRUST)
    return apart(rewards[both], rewards[both + 1], pairs_of, None if certain else (-width, width))


def measures_finding(rows: Sequence[VerdictMeasures]) -> Finding:
    """Each row's own measures, and those relative to the naive judge."""
    columns = [
        word("row", "name"),
        number("verdicts", "verdicts"),
        number("reliability", "calibration.reliability", ".3f", key=""),
        number("resolution", "calibration.resolution", ".3f", key=""),
        number("cal. error", "calibration.debiased_error", ".3f", key=""),
        change("overconf.", "calibration.overconfidence", key=""),
        program("calibration", "calibration"),
        column("first answer", "first_label", _apart),
        program("naive", "naive"),
    ]
    against = [
        word("row", "name"),
        figure("lift of accuracy", "naive.lift", 2),
        share("right → wrong", "naive.flips.misled"),
        share("wrong → right", "naive.flips.corrected"),
    ]
    notes = (
        "cal. error: debiased. overconf.: largest probability - accuracy. first answer: reward for "
        "arguing it - for the second; ! above 0.2 standard deviations.",
    )
    beside = ("right → wrong: share of what the naive judge had right.",)
    compared = [row for row in rows if row.naive]
    return Finding(
        (
            Part("rows", "verdicts: order, calibration and bias", columns, rows, notes),
            Part("", "against the naive judge, world by world", against, compared, beside),
        )
    )


def _apart(difference: Apart | None) -> str:
    if difference is None:
        return "–"
    return estimated(difference.estimate, 2) + "!" * difference.flagged
