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
    ("amount", "told"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1.00k"),
        (2_800, "2.80k"),
        (9_996, "10.0k"),
        (43_600, "43.6k"),
        (99_960, "100k"),
        (999_400, "999k"),
        (999_600, "1.00M"),
        (2.5e9, "2.50G"),
    ],
)
def test_amounts_have_three_digits_whatever_their_size(amount: float, told: str) -> None:
    assert short(amount) == told
