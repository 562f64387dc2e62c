"""The table of `make validate`, in short."""

import pytest

from tools.validation import trade, validate, validation_finding, weigh, weighed_finding


@pytest.mark.campaign
def test_every_printed_interval_and_test_holds_in_a_short_validation() -> None:
    checks = validate(40, seed=1)
    assert [line for line in checks if not line.holds] == []
    assert {line.kind for line in checks} == {"coverage", "size", "power"}
    table = validation_finding(checks, 40).tables()[0]
    assert len(checks) == 30 == sum(len(line[3].split(", ")) for line in table.body)


@pytest.mark.campaign
def test_the_interval_is_t_where_t_holds_and_the_guard_where_it_cannot() -> None:
    rates = {weighed.regime: weighed for weighed in weigh(300, seed=1)}
    for regime, rate in rates.items():
        if regime.startswith(("normal", "log", "graded", "right")):
            assert rate.coverage >= 0.93 and rate.width < 1.03, regime
            assert rate.power is None or rate.power >= 0.97, regime
        assert rate.conservative >= 0.93, regime
        # Unmarked verdicts are wrong as rarely as t is where it holds.
        assert rate.unmarked is None or rate.unmarked <= 0.05 + 2 * (0.05 / 300) ** 0.5, regime
    assert rates["2.0% errors of 4, n 50"].coverage > 0.94 > rates["2.0% errors of 4, n 50"].t
    assert weighed_finding(list(rates.values()), 300).tables()
    (one, *_, most) = trade(300, seed=1)
    assert one.wrong < 0.9 and most.wrong > 0.9 < most.right[0] and one.right[0] < 0.5
