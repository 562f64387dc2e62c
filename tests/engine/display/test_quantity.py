"""Counts and figures as people read them."""

import pytest

from oversight.engine.display.quantity import counted, short, signed


@pytest.mark.parametrize(
    ("value", "text"), [(0.4, "+0.40"), (-0.384, "-0.38"), (0.0, "0.00"), (-0.004, "0.00")]
)
def test_what_rounds_to_nothing_has_no_sign(value: float, text: str) -> None:
    assert signed(value) == text


def test_one_of_a_thing_is_not_many() -> None:
    assert [counted(n, "cell") for n in (0, 1, 1_200)] == ["0 cells", "1 cell", "1,200 cells"]
    assert [counted(n, "reply", "replies") for n in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(7, "7"), (999, "999"), (1_200, "1.2k"), (31_020, "31k"), (71_400_000, "71M")],
)
def test_large_amounts_are_shown_in_two_or_three_digits_and_a_unit(amount, text):
    assert short(amount) == text
