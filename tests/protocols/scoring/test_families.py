import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.scoring.contrasts import contrasts
from oversight.protocols.scoring.families import holm
from oversight.protocols.scoring.sample import Sample

ps = st.lists(st.floats(0, 1), max_size=8)


def p_of(
    values: list[float], groups: list[str] | None = None, seed: int = 0, resamples: int = 10_000
) -> float:
    """Of differences from a row of zeros."""
    ids = tuple(f"q{n}" for n in range(len(values)))
    first = Sample(ids, tuple(values), tuple(groups or ()))
    zeros = Sample(ids, (0.0,) * len(values), tuple(groups or ()))
    (found,) = contrasts({"a": first, "b": zeros}, seed=seed, resamples=resamples)
    assert found.p_family == found.p
    return found.p


def test_p_is_that_of_every_possible_flip() -> None:
    """Of the 16 ways to sign 1, 2, 3 and 4, four sum to 8 or more in size."""
    sums = [sum(signed) for signed in itertools.product((1, -1), (2, -2), (3, -3), (4, -4))]
    assert sum(abs(total) >= 8 for total in sums) == 4
    assert p_of([-1.0, 2.0, 3.0, 4.0]) == pytest.approx(4 / 16, abs=0.02)


def test_questions_of_one_group_are_flipped_together() -> None:
    """Of two texts both signs agree in half of all flips, however many questions they have."""
    assert p_of([1.0] * 8, ["x"] * 4 + ["y"] * 4) == pytest.approx(0.5, abs=0.02)
    assert p_of([1.0] * 8) < 0.02


def test_p_is_small_as_often_as_it_says() -> None:
    small = 0
    for seed in range(200):
        differences = np.random.default_rng(seed).normal(size=30).tolist()
        small += p_of(differences, seed=seed, resamples=999) <= 0.1
    assert 8 <= small <= 32


def test_holm_agrees_with_a_worked_example() -> None:
    """0.005 × 4, 0.01 × 3, 0.03 × 2; then 0.04 × 1, which may not fall below 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_holm_leaves_one_alone_and_none_above_one() -> None:
    assert holm([]) == ()
    assert holm([0.04]) == (0.04,)
    assert holm([0.6, 0.7, 0.9]) == (1.0, 1.0, 1.0)


@given(ps)
def test_holm_lies_between_no_correction_and_bonferroni(ps: list[float]) -> None:
    for p, corrected in zip(ps, holm(ps), strict=True):
        assert p <= corrected <= min(1.0, p * len(ps))


@given(ps)
def test_holm_keeps_the_order(ps: list[float]) -> None:
    corrected = holm(ps)
    for (p, c), (q, d) in itertools.combinations(zip(ps, corrected, strict=True), 2):
        assert (c <= d) if p <= q else (d <= c)
