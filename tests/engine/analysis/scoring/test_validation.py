"""The table of `make validate`, in short."""

import pytest

from tools.validation import trade, validate, validation_finding, weigh, weighed_finding


@pytest.mark.campaign
def test_every_printed_interval_and_test_holds_in_a_short_validation() -> None:
    found = validate(40, seed=1)
    assert [line for line in found if not line.holds] == []
    assert {line.kind for line in found} == {"coverage", "size", "power"}
    table = validation_finding(found, 40).tables()[0]
    assert len(found) == 30 == sum(len(line[3].split(", ")) for line in table.body)


@pytest.mark.campaign
def test_the_interval_is_t_where_t_holds_and_the_guard_where_it_cannot() -> None:
    found = {each.regime: each for each in weigh(300, seed=1)}
    for regime, each in found.items():
        if regime.startswith(("normal", "log", "graded", "right")):
            assert each.coverage >= 0.93 and each.width < 1.03, regime
            assert each.power is None or each.power >= 0.97, regime
        assert each.conservative >= 0.93, regime
        # What carries no mark is wrong as rarely as t is where it holds.
        assert each.unmarked is None or each.unmarked <= 0.05 + 2 * (0.05 / 300) ** 0.5, regime
    assert found["2.0% errors of 4, n 50"].coverage > 0.94 > found["2.0% errors of 4, n 50"].t
    assert weighed_finding(list(found.values()), 300).tables()
    (one, *_, most) = trade(300, seed=1)
    assert one.wrong < 0.9 and most.wrong > 0.9 < most.right[0] and one.right[0] < 0.5
