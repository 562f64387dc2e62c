"""Krippendorff's alpha equals the worked examples that were published with it: known truths."""

import pytest

from oversight.engine.analysis.scoring.agreement import RatedPoint, krippendorff_alpha

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C: four observers, twelve
# units, values 1 to 5, some missing. Nominal 0.743; with interval metric 0.849.
FOUR_OBSERVERS = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
# The same, sections A and B: two observers, two values, and two observers, five values.
TWO_VALUES = ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
FIVE_VALUES = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")
# Wikipedia, Krippendorff's alpha, "An example": three coders, fifteen units. Nominal 0.691,
# interval 0.811.
THREE_CODERS = (
    ". . . . . 3 4 1 2 1 1 3 3 . 3",
    "1 . 2 1 3 3 4 3 . . . . . . .",
    ". . 2 1 3 4 4 . 2 1 1 3 3 . 4",
)


def units(rows: tuple[str, ...], nominal: bool) -> list[list[RatedPoint]]:
    """One a column; each value as a point."""
    values = sorted({value for row in rows for value in row.split()} - {"."})
    return [
        [
            [float(value == kind) for kind in values] if nominal else [float(value)]
            for value in column
            if value != "."
        ]
        for column in zip(*(row.split() for row in rows), strict=True)
    ]


@pytest.mark.parametrize(
    ("rows", "nominal", "alpha", "paired"),
    [
        (TWO_VALUES, True, 0.095, (10, 20)),
        (FIVE_VALUES, True, 0.692, (12, 24)),
        # One of the twelve has a single value: 40 of the 41 values pair.
        (FOUR_OBSERVERS, True, 0.743, (11, 40)),
        (FOUR_OBSERVERS, False, 0.849, (11, 40)),
        (THREE_CODERS, True, 0.691, (12, 26)),
        (THREE_CODERS, False, 0.811, (12, 26)),
    ],
)
def test_alpha_matches_the_published_example(rows, nominal, alpha, paired):
    agreement = krippendorff_alpha(units(rows, nominal))
    assert agreement is not None
    assert (round(agreement.alpha.value, 3), agreement.units, agreement.values) == (alpha, *paired)


def test_alpha_needs_pairs_and_variation() -> None:
    assert krippendorff_alpha([[[1.0]], [[0.0]]]) is None
    assert krippendorff_alpha([[[1.0], [1.0]], [[1.0], [1.0]]]) is None


def test_the_interval_goes_by_clusters_and_takes_twenty_of_them() -> None:
    ratings = units(FOUR_OBSERVERS, True) * 4
    alone = krippendorff_alpha(ratings)
    paired = krippendorff_alpha(ratings, [n // 2 for n in range(48)])
    assert alone is not None and paired is not None
    low, high = alone.alpha.interval or (0, 0)
    assert low <= alone.alpha.value <= high and alone.alpha.interval != paired.alpha.interval
    few = krippendorff_alpha(ratings, [n % 10 for n in range(48)])
    assert few is not None and few.alpha.interval is None
    assert few.alpha.reason == "10 units or groups of them; its interval holds from 20 on"


def test_no_interval_of_alpha_goes_beyond_perfect_agreement() -> None:
    alike = [[(float(n % 2),), (float(n % 2),)] for n in range(40)]
    nearly = krippendorff_alpha([*alike, [(0.0,), (1.0,)]])
    assert nearly and nearly.alpha.interval and nearly.alpha.ends == (-1.0, 1.0)
    assert nearly.alpha.value < 1 == nearly.alpha.interval[1]
