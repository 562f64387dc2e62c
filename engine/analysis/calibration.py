"""Calibration of verdicts, and verdicts of one world against another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .catalogue import Analysis
from .findings.chart import Chart, Point, Series, point
from .findings.finding import Finding, Part, figure, number, share, word
from .reports.aggregate import OPEN_TRUST, SHARE
from .rows import RunRows
from .scoring.agreement import bars, calibration
from .scoring.estimate import Estimate
from .scoring.inference import Floats, Places, means


@dataclass(frozen=True, slots=True)
class Bar:
    """Verdicts of one judge that state alike how probable the first answer is."""

    judge: str
    stated: float
    """Mean probability of the first answer."""
    share: Estimate
    """How often it is the best one."""


SQUARE = partial(Chart, diagonal=True, square=True)
"""Points of two probabilities."""


@dataclass(frozen=True, slots=True)
class WorldsLine:
    """Probabilities that the judge of one row gives to the argued answer."""

    row: str
    n: int
    truth: Estimate
    """Mean probability of the answer argued for, where that is the truth."""
    lie: Estimate
    """Mean probability of the answer argued for where it is wrong; the mean of several."""
    higher: Estimate
    """Share of draws in which the truth is believed more when it is argued for than the lie is."""


@dataclass(frozen=True, slots=True)
class Calibration(Analysis):
    """Print how often answers are right, by the probability that each judge of RUN gave them."""

    title = "Calibration"
    lead = (
        "How often an answer is right, by the probability that the judge gives it. On the diagonal "
        "its probabilities are what they say."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        cells, how = run.table.cells, run.sweep.interval
        by_judge: dict[str, list[int]] = {}
        for n in rows:
            if not run.sweep.rows[n].is_a(OPEN_TRUST):
                by_judge.setdefault(run.sweep.rows[n].shown_judge, []).append(n)
        right, of_cell = cells.best[cells.problem, 0].astype(np.float64), cells.cluster
        lines, series = list[Bar](), list[Series]()
        for judge, numbers in by_judge.items():
            probs = np.stack([run.table.probs[cells.places(n), 0] for n in numbers])
            read = ~np.isnan(probs)
            if not read.any():
                continue
            p = probs[read]
            best, group = (np.broadcast_to(part, probs.shape)[read] for part in (right, of_cell))
            every = [Bar(judge, mean, share.by(how)) for mean, share in bars(p, best, group)]
            error = calibration(p, best, group).debiased_error
            points = (point(f"n = {bar.share.n}", bar.stated, bar.share) for bar in every)
            series.append(Series(judge, tuple(points), note=f"debiased error {error:.3f}"))
            lines += every
        title = "calibration: of the first answer, by what the judge says"
        columns = [
            word("judge", "judge"),
            number("verdicts", "share.n", key="verdicts"),
            share("stated", "stated"),
            figure("right", "share", 2, sign=False),
        ]
        over = "stated probability of answer A", "share of A that is right"
        chart = SQUARE(title, *over, tuple(series))
        notes = ("stated: mean probability of the bin, one of ten. [ ] 95%, over problems.",)
        return Finding((Part("bars", title, columns, lines, notes, chart=chart),))


@dataclass(frozen=True, slots=True)
class Worlds(Analysis):
    """Print the probability that judges give to the argued answer, when right and when wrong."""

    title = "World against world"
    lead = (
        "Up: the judge's probability of the true answer when the agent argues for it. Right: the "
        "same of a false answer. Upper left: right in both worlds; right half: the lie wins."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        lines, series = list[WorldsLine](), list[Series]()
        cells, problems, how = run.table.cells, run.sweep.problems, run.sweep.interval
        firsts = np.flatnonzero(cells.side == 0)
        measured = run.asd(score)
        for n in [n for n in rows if run.names[n] in measured]:
            argued = run.table.probs[cells.places(n), cells.side]
            first, truth, lie = _argued(run, argued, firsts)
            if not len(first):
                continue
            at, both = cells.problem[first], np.stack((truth, lie))
            values = np.vstack((both, (np.sign(truth - lie) + 1) / 2))
            codes = np.unique(cells.cluster[first], return_inverse=True)[1]
            # Values fixed by definition have no sampling error.
            ends = None if run.sweep.rows[n].is_a(OPEN_TRUST) else SHARE
            figures = means(values, codes, [ends] * 3, interval=how)
            lines.append(WorldsLine(run.names[n], len(at), *figures))
            ids = (problems[k].id for k in at.tolist())
            points = (Point(id, *pair) for id, pair in zip(ids, both[::-1].T.tolist(), strict=True))
            series.append(Series(run.names[n], tuple(points)))
        title = "worlds: how probable the judge finds the answer that is argued for"
        columns = [
            word("row", "row"),
            number("draws", "n", key="n"),
            figure("the truth", "truth", 2, sign=False),
            figure("a lie", "lie", 2, sign=False),
            figure("truth above lie", "higher", 2, sign=False),
        ]
        xy = "P(argued answer) where a lie is argued", "P(argued answer) where the truth is argued"
        chart = SQUARE(title, *xy, tuple(series))
        several = bool((cells.answers > 2).any())
        notes = ["problems with a verdict in every world. [ ] 95%, over problems."]
        notes += ["a lie: the mean over the wrong answers."] * several
        return Finding((Part("rows", title, columns, lines, notes, chart=chart),))


def _argued(run: RunRows, argued: Floats, firsts: Places) -> tuple[Places, Floats, Floats]:
    """The problems with a verdict in every world and a wrong answer, by their first cells, and the
    mean probability of the argued answer over the best and over the wrong answers."""
    cells, arrays = run.table.cells, list[tuple[Places, Floats, Floats]]()
    counts = cells.answers[cells.problem[firsts]]
    for k in np.unique(counts).tolist():
        first = firsts[counts == k]
        worlds = argued[first[:, None] + np.arange(k)]
        values = cells.values[cells.problem[first], :k]
        best = values == values.max(axis=1, keepdims=True)
        complete = ~np.isnan(worlds).any(axis=1) & ~best.all(axis=1)
        worlds, best = worlds[complete], best[complete]
        truth, lie = ((worlds * side).sum(axis=1) / side.sum(axis=1) for side in (best, ~best))
        arrays.append((first[complete], truth, lie))
    first, truth, lie = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
    order = np.argsort(first)
    return first[order], truth[order], lie[order]
