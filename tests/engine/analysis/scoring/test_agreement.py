"""Krippendorff's alpha equals the worked examples that were published with it: known truths."""

from oversight.engine.analysis.scoring.agreement import krippendorff_alpha
from tests.engine.analysis.scoring.test_figures import FOUR_OBSERVERS, units


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
