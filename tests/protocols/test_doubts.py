"""What unread ratings leave open, against counting all that they could have been."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.doubts import around, choices, hull, mean_spans, shifted

TENTH = st.integers(0, 10).map(lambda n: n / 10)
SPAN = st.one_of(
    TENTH.map(lambda p: (p, p)),
    st.tuples(TENTH, TENTH).map(lambda ends: (min(ends), max(ends))),
)
SPANS = st.lists(SPAN, min_size=1, max_size=5)


@given(SPANS, st.integers(1, 4))
def test_every_choice_that_ratings_allow_is_found(spans: list[tuple[float, float]], most: int):
    """The known truth: whatever the ratings are within their spans, here at either end, the highest
    of them, the first of equals, are among the choices; and where all are exact they are the only
    one, best first."""
    found = choices(spans, most)
    for ratings in product(*spans):
        best = sorted(range(len(spans)), key=lambda n: (-ratings[n], n))[:most]
        assert set(best) in map(set, found)
    if all(low == high for low, high in spans):
        assert found == [tuple(sorted(range(len(spans)), key=lambda n: (-spans[n][0], n))[:most])]


@given(SPANS)
def test_means_and_hulls_contain_what_they_are_of_and_no_more(spans: list[tuple[float, float]]):
    """The known truth: the mean of numbers within spans lies between the means of their ends, and a
    hull ends where one of its rows does."""
    rows, share = [(span,) for span in spans], [1 / len(spans)] * len(spans)
    ((low, high),) = mean_spans(rows, share)
    means = [sum(ratings) / len(spans) for ratings in product(*spans)]
    assert abs(min(means) - low) < 1e-9 and abs(max(means) - high) < 1e-9
    assert hull(rows) == ((min(low for low, _ in spans), max(high for _, high in spans)),)


@given(SPAN, st.integers(2, 4), st.integers(0, 3))
def test_what_one_answer_leaves_the_others_share(
    span: tuple[float, float], answers: int, place: int
):
    """The known truth: probabilities sum to 1, so that with p on one answer another has from 0, or
    of two answers just the rest, to the rest; what is moved keeps the others' proportions."""
    place %= answers
    low, high = span
    bounds = around(span, place, answers)
    assert bounds[place] == span
    for n, ends in enumerate(bounds):
        assert n == place or ends == (1 - high if answers == 2 else 0.0, 1 - low)
    probs = [(n + 1) / (answers * (answers + 1) / 2) for n in range(answers)]
    moved = shifted(probs, place, low)
    assert moved[place] == low and abs(sum(moved) - 1) < 1e-9
    one, other = next(n for n in range(answers) if n != place), (place - 1) % answers
    assert abs(moved[one] * probs[other] - moved[other] * probs[one]) < 1e-9
    certain = shifted([float(n == place) for n in range(answers)], place, low)
    assert all(
        n == place or abs(p - (1 - low) / (answers - 1)) < 1e-9 for n, p in enumerate(certain)
    )
