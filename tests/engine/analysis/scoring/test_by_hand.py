"""Figures that a few lines of arithmetic give: signs, sizes and denominators: known truths."""

from math import sqrt

import numpy as np
import pytest

from oversight.engine.analysis.scoring.contrasts import contrasts
from oversight.engine.analysis.scoring.estimate import Ends, t_of, t_quantile
from oversight.engine.analysis.scoring.inference import Influences, of_questions
from oversight.engine.analysis.scoring.power import Spread, mde

RNG = np.random.default_rng(0)


def row(values: object, ends: Ends = (-4.0, 4.0)) -> Influences:
    table = np.asarray(values, np.float64)
    return of_questions([f"q{n}" for n in range(len(table))], table, ends=ends)


def test_verdicts_go_by_the_family_and_marks_by_the_decision() -> None:
    tested = contrasts({f"r{k}": row(RNG.normal(0.1 * k, 1, 60)) for k in range(6)})
    assert any(one.p <= 0.05 < one.p_family for one in tested)
    assert all((one.decided) == (one.p_family <= 0.05) for one in tested)
    same = contrasts({"a": row(RNG.normal(0, 1e-3, 99), (-0.01, 0.01)), "b": row([0] * 99)})[0]
    narrow = contrasts({"a": row(RNG.permutation(np.tile((-1e-3, 1e-3), 50)), (-0.01, 0.01)),
                        "b": row([0.0] * 100, (0.0, 0.0))})[0]  # fmt: skip
    assert (same.verdict, same.undone) == ("equivalent", True)
    assert (narrow.verdict, narrow.undone) == ("equivalent", False)
    unsure = row(RNG.normal(0, 1, 40) * 1.0).estimate()
    assert unsure.interval and unsure.interval[0] < 0 < unsure.interval[1] and not unsure.undone


def test_a_plan_for_the_guard_is_of_the_interval_that_the_guard_gives() -> None:
    """Values of this mean and variance, as the plan has them: the centre lies the quantile of t
    above 0 by the guard's error, and the quantile of the power by the error of sampling."""
    for n, variance in ((30, 0.25), (200, 1.0)):
        least = mde(Spread(variance), n, ends=(-4.0, 4.0), interval="conservative")
        drawn = RNG.normal(size=n)
        values = least + (drawn - drawn.mean()) / drawn.std(ddof=1) * variance**0.5
        guard = row(values).estimate().guard
        assert guard is not None
        short = guard.centre - t_of(0.95, n - 1) * guard.error
        sampled = t_quantile(0.8, n - 1) * sqrt(variance / n) / guard.shrink
        assert short == pytest.approx(sampled, rel=1e-6)
