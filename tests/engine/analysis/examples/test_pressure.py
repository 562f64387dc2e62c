"""`examples/analyses/pressure.py`: selection from pools whose order statistics are known."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from examples.analyses.pressure import Pools, best_of, breakdown, curve, divergence, pools_of
from oversight.engine.analysis.rows import read_rows
from oversight.engine.analysis.scoring.asd import scored
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from tests.run_folders import only_run


def pools(rewards: npt.ArrayLike, values: npt.ArrayLike) -> Pools:
    u, v = np.atleast_2d(np.asarray(rewards, float)), np.atleast_2d(np.asarray(values, float))
    return Pools(u, v, tuple(f"p{n}" for n in range(len(u))))


def test_best_of_n_is_the_mean_over_every_subset() -> None:
    u = np.array([1.0, 2.0, 2.0, 0.5, 3.0])
    for n in range(1, 6):
        share, subsets = np.zeros(5), list(combinations(range(5), n))
        for subset in subsets:
            top = [k for k in subset if u[k] == max(u[list(subset)])]
            share[top] += 1 / len(top) / len(subsets)
        assert best_of(u[None, :], n)[0] == pytest.approx(share)


HEAVY = (0, 0.0885, -0.0101, -0.2173, -0.4653)
"""E[v] of the best of 1, 2, 4, 8 and 16 of truths N(.5, 1) and lies N(0, 2), by integration."""


def test_a_large_pool_has_the_curve_of_its_distribution() -> None:
    grid = (np.arange(500) + 0.5) / 500
    rewards = np.concatenate((0.5 + special.ndtri(grid), 2 * special.ndtri(grid)))
    pool = pools(rewards, np.repeat((1.0, -1.0), 500))
    means = [value.value for value, _ in curve(pool, [1, 2, 4, 8, 16]).values()]
    assert means == pytest.approx(HEAVY, abs=2e-2)
    assert rewards[:500].mean() - rewards[500:].mean() == pytest.approx(0.5, abs=1e-6)


def test_pressure_costs_what_it_is_bounded_by() -> None:
    u = np.random.default_rng(1).normal(size=(1, 1000))
    for n in (1, 2, 8, 64):
        kl = float(divergence(best_of(u, n))[0])
        assert kl == pytest.approx(math.log(n) - (n - 1) / n, abs=0.05)
    assert divergence(best_of(np.zeros((1, 40)), 8))[0] == pytest.approx(0)
    assert divergence(best_of(u, 1000))[0] == pytest.approx(math.log(1000))


def test_best_of_more_than_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="best of 6 from a pool of 5"):
        best_of(np.zeros((1, 5)), 6)


def test_a_curve_breaks_down_where_its_falling_fit_meets_zero() -> None:
    at = [1, 2, 4, 8]
    assert breakdown(at, np.array([1.0, 0.5, -0.5, -1])) == pytest.approx(3)
    assert breakdown(at, np.array([1.0, 0.5, 0.4, 0.1])) is None
    # A curve that falls at once breaks down at its start.
    assert breakdown(at, np.array([0.0, -0.1, -0.2, -0.5])) == 1
    # A dip from which the curve recovers does not count.
    assert breakdown(at, np.array([0.0, 0.5, 0.2, 0.4])) is None


def test_problem_without_every_verdict_is_left_out_of_the_pools() -> None:
    verdicts = [((0.8, 0.2), (0.6, 0.4))] * 2 + [((0.8, 0.2), None)]
    every = Judgements.of(
        Judgement(f"q{n}", (1.0, -1.0), worlds, {"problem": f"q{n}"})
        for n, worlds in enumerate(verdicts)
    )
    table = scored(replace(every, drawn=True), "probability")
    pool = table and pools_of(table)
    assert pool and pool.groups == ("q0", "q1")
    assert pool.rewards.tolist() == [[0.8, 0.4]] * 2
    value, kl = curve(pool, [2])[2]
    assert (value.value, value.n, kl) == (1.0, 2, pytest.approx(math.log(2)))


@pytest.mark.campaign
def test_the_example_shows_a_protocol_that_breaks_down_and_one_that_does_not(place, command):
    """The known truth: the judge leans to the truth by 0.7 nats, and a smooth speech is worth 1 nat
    more for a lie. One such speech leaves the truth 2 x 0.7 - 1 nats ahead; a debate, which hears
    one for either answer, leaves it 2 x (0.7 - 1) behind, also where both choose in equilibrium."""
    command("init", "--example", "pressure", "pressure.yaml")
    fewer = ("--limit", "15", "--set", "protocols.debate_game.simultaneous=true")
    assert command("run", "pressure.yaml", *fewer).code == 0
    run = read_rows(only_run(place))
    ends, game = dict[str, float](), list[float]()
    for n, row in enumerate(run.sweep.rows):
        part = run.table.scored(n, "brier")
        if row.agent != "sim/smooth" or part is None:
            continue
        if (pools := pools_of(part)) and not row.shown.startswith("debate game"):
            k = pools.rewards.shape[1]
            ends[row.shown] = curve(pools, [k])[k][0].value
        elif row.shown.startswith("debate game"):
            game += (part.own * part.every.values)[part.every.ran].tolist()
    assert ends["consultancy"] > 0 and ends["debate"] < 0
    assert len(game) == 15 * 2 * 8 and sum(game) < 0
