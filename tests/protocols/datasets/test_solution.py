"""Worked solutions in one format, whoever wrote them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.datasets.solution import closing, laid_out, number, number_text, steps


def test_the_same_solution_in_two_hands_becomes_the_same_text():
    person = (
        "She has 3*$1,250.00=$<<3*1250.00=3750.00>>3,750.00 in the bank. So she can spend "
        "3750\u22122500=<<3750-2500=1250>>1250\n\n#### 1,250"
    )
    model = (
        "1. she has 3 x 1250 = $<<3*1250=3750>>3750 in the bank\n"
        "2. so she can spend 3750.0 - 2500 = <<3750-2500=1250.0>>1250.0.\n"
        "A: 1250.0"
    )
    both = {laid_out(steps(text), number_text(closing(text))) for text in (person, model)}
    assert both == {
        "She has 3 * 1250 = 3750 in the bank.\n"
        "So she can spend 3750 - 2500 = 1250.\n"
        "The answer is 1250."
    }


@pytest.mark.parametrize(
    ("written", "step"),
    [
        ("he pays 2*$.50=$1.00 a day", "He pays 2 * 0.5 = 1 a day."),
        ("that is 48÷4 = 12 eggs;", "That is 48/4 = 12 eggs."),
        ("it is now 4 - 10=-6 degrees", "It is now 4 - 10 = -6 degrees."),
        ("the share is 0.47119999999999995", "The share is 0.4712."),
        ("four-fifths of a 10-year-old tree", "Four-fifths of a 10-year-old tree."),
        ("at 10:05 he has 1,2 and 3", "At 10:05 he has 1,2 and 3."),
        ("20% of 40 is .2 * 40 = 8", "20% of 40 is 0.2 * 40 = 8."),
        ("x boxes at 3 x 4 each", "X boxes at 3 * 4 each."),
        ("(5+3)*2=16", "(5 + 3) * 2 = 16."),
        ("so 5 people x 3 = 15", "So 5 people * 3 = 15."),
        ("the bank holds 1234567890123456789012345.50", None),
    ],
)
def test_a_step_is_written_in_one_notation(written, step):
    expected = step or written[0].upper() + written[1:] + "."
    assert steps(written) == (expected,)


def test_each_sentence_is_a_step_and_titles_end_none():
    assert steps("Mr. Lee has 2 cows. He buys 1. Now he has 3.") == (
        "Mr. Lee has 2 cows.",
        "He buys 1.",
        "Now he has 3.",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", "18"),
        (" $1,248.00 ", "1248"),
        ("-$3", "-3"),
        ("\u22123.5", "-3.5"),
        (".5", "0.5"),
        ("40%", "40"),
        ("18.", "18"),
        ("1,2", None),
        ("1e9", None),
        ("", None),
        ("-", None),
        (".", None),
        ("18 eggs", None),
        ("\u0663", None),
        ("9" * 25, None),
    ],
)
def test_a_number_is_read_exactly_or_not_at_all(text, value):
    assert number(text) == (None if value is None else Decimal(value))


@given(st.decimals(-(10**17), 10**17, places=4))
def test_a_shown_number_reads_as_itself_and_has_no_trailing_zeros(value):
    text = number_text(value)
    assert number(text) == value
    assert not ("." in text and text.endswith(("0", ".")))
    assert text != "-0"


@pytest.mark.parametrize(
    ("text", "value"),
    [("a\n#### 7", 7), ("a\nA: 1,000", 1000), ("The answer is $5.", 5), ("a\n#### x", None)],
)
def test_the_closing_line_names_the_final_number(text, value):
    assert closing(text) == value


@given(st.text())
def test_any_text_can_be_laid_out(text):
    for step in steps(text):
        assert step.endswith(".")
        assert step == " ".join(step.split())


TOKENS = ("she", "has", "Then", "eggs", "12", "1,250.00", ".5", "$3", "40%")
OPERATORS = ("+", "-", "*", "/", "x", "=", "\u00f7")


@given(
    st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from((" ", ". ", "\nSo ", *OPERATORS)))),
    st.sampled_from(("", " ")),
)
def test_laying_out_what_is_laid_out_changes_nothing(parts, space):
    once = steps("So " + space.join(token + space + joint for token, joint in parts))
    assert steps("\n".join(once)) == once
