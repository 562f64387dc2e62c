"""The block above every report: whether the verdicts of a run can be trusted at all."""

import pytest
from msgspec.structs import replace

from oversight.engine.analysis.reports.health import MIN_CAPTURED_MASS, HealthCheck
from oversight.protocols.transcript import Failure, Judgement
from tests.engine.verdicts import NAIVE, PROPAGANDA, SMALL, records, results, sweep


def test_each_trouble_has_an_example_and_an_advice() -> None:
    worlds = {
        ("naive judge", "p0", 0): (Failure("unreadable", "no number", "I\nwould say A"), 0.5),
        ("naive judge", "p1", 0): (Failure("crash", "KeyError: 'x'"), Failure("declined", "no")),
    }
    *_, line, other, refused = results(sweep(NAIVE), worlds).health.lines()
    assert line.startswith("  ! unreadable: 1 cell, such as naive judge, p0: 'I would say A'; ")
    assert refused.startswith(
        "  ! refused by the provider: 1 cell, such as naive judge, p1: 'no'; reword"
    )
    assert other.startswith("  ! failed otherwise: 1 cell, such as naive judge, p1: ")


@pytest.mark.parametrize(("failed", "off"), [(1, False), (2, True), (50, True)])
def test_a_trouble_is_worth_a_word_from_one_cell_in_a_hundred_on(failed: int, off: bool) -> None:
    sound = next(records(sweep(NAIVE), SMALL))
    muddled = replace(sound, probs=None, failure=Failure("unreadable", "no number"))
    check = HealthCheck()
    for n in range(200):
        check.add(muddled if n < failed else sound)
    (issue,) = [issue for issue in check.health().issues if issue.name == "unreadable"]
    assert (issue.cells, issue.share, issue.off) == (failed, failed / 200, off)


def test_counts_and_captured_mass_of_verdicts_are_issues_too() -> None:
    grid = sweep(PROPAGANDA)
    worlds = {("propaganda", "p0", 0): (0.9, 0.6), ("propaganda", "p1", 0): (0.8, 0.3)}
    check = HealthCheck()
    for record in records(grid, worlds, judgements=(Judgement((0.5, 0.5), captured=0.4),)):
        check.add(record)
    (issue,) = check.health().failing
    assert (issue.name, issue.cells) == ("label mass", 4)
    assert issue.share == pytest.approx(0.4) and issue.share < MIN_CAPTURED_MASS
    assert "label mass 40%" in check.health().lines()[0]
    for record in [*records(grid, worlds)] * 2:
        check.add(record)  # With all of the mass, which they do not tell.
        check.add(replace(record, judge="another"))  # It reads no mass, and loses none.
    assert "label mass 80%" in check.health().lines()[0]
