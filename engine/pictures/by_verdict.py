"""Pictures of single verdicts: world against world, calibration, and problem by row."""

from math import isnan

import numpy as np

from ...protocols.scores import RANGES
from ...protocols.scoring.arrays import Floats, codes_of
from ...protocols.scoring.calibration import bars
from ...protocols.scoring.calibration import calibration as calibrated
from ..decisions.rows import cluster
from .charts import Chart, ChartPoint, Heat, Series, drawable
from .scored_run import ScoredRun, asd_by_problem


def worlds_chart(run: ScoredRun) -> Chart:
    """P(argued answer) where the truth is argued, against where the lie is: a point a problem."""
    series = []
    for number, row in run.rows:
        points = []
        for problem, probs in run.verdicts(number):
            if len(probs) == 2:
                best = problem.best
                points.append(ChartPoint(problem.id, probs[1 - best][1 - best], probs[best][best]))
        if points:
            series.append(Series(run.label(row), tuple(points)))
    return Chart(
        run.title("worlds"),
        "P(argued answer) where a lie is argued",
        "… where the truth is argued",
        drawable("worlds", series),
        diagonal=True,
        square=True,
    )


def calibration_chart(run: ScoredRun) -> Chart:
    """How often an answer is right of which the judge says so: ten bins, with intervals over
    problems."""
    stated: dict[str, list[tuple[float, bool, tuple[str, str]]]] = {}
    for number, row in run.rows:
        for problem, probs in run.verdicts(number):
            best = max(problem.values)
            for verdict in probs:
                stated.setdefault(row.judge, []).append(
                    (verdict[0], problem.values[0] == best, cluster(problem))
                )
    series = []
    for judge, pairs in stated.items():
        stated_by, was, keys = zip(*pairs, strict=True)
        p, right = np.array(stated_by), np.array(was, dtype=np.float64)
        points = [
            ChartPoint(f"n = {bar.n}", mean, bar.value, bar.interval)
            for mean, bar in bars(p, right, codes_of(keys))
        ]
        error = calibrated(p, right).debiased_error
        series.append(Series(judge, tuple(points), note=f"debiased error {error:.3f}"))
    return Chart(
        run.title("calibration"),
        "stated probability of answer A",
        "share of A that is right",
        drawable("calibration", series),
        diagonal=True,
        square=True,
    )


def heat(run: ScoredRun) -> Heat:
    values = asd_by_problem(run.sweep, run.results)
    low, high = RANGES[run.score]
    order = np.argsort([_mean(line) for line in values], kind="stable")
    across = sorted((n for n, _ in run.rows), key=lambda n: -_mean(values[:, n]))
    return Heat(
        f"{run.run.name}: agent score difference by problem and row",
        tuple(run.sweep.problems[n].id for n in order),
        tuple(run.label(run.sweep.rows[n]) for n in across),
        tuple(
            tuple(None if isnan(values[p, r]) else float(values[p, r]) for r in across)
            for p in order
        ),
        high - low,
    )


def _mean(values: Floats) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("inf")
