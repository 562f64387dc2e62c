import math

import pytest

from oversight.engine.analysis.scoring.sample import Sample, paired


def test_a_sample_knows_its_mean_and_its_deviation() -> None:
    sample = Sample(("a", "b", "c", "d"), (2.0, 4.0, 4.0, 6.0))
    assert sample.mean == 4.0
    assert sample.std == math.sqrt(2)


def test_a_single_question_does_not_deviate() -> None:
    assert Sample(("a",), (0.5,)).std == 0.0


def test_questions_of_one_group_are_one_cluster_and_others_are_each_their_own() -> None:
    sample = Sample(("a", "b", "c", "d"), (1.0,) * 4, ("x", "", "x", ""))
    assert sample.clusters == (("x", ""), ("", "b"), ("x", ""), ("", "d"))
    # A group that is called like a question does not swallow it.
    assert len(set(Sample(("x", "b"), (1.0, 2.0), ("", "x")).clusters)) == 2
    assert Sample(("a", "b"), (1.0, 2.0)) == Sample(("a", "b"), (1.0, 2.0), ("", ""))


@pytest.mark.parametrize(
    ("questions", "values", "groups", "complaint"),
    [
        ((), (), (), "at least one question"),
        (("a", "b"), (1.0,), (), "2 questions with 1 values"),
        (("a", "b"), (1.0, 2.0), ("x",), "and 1 groups"),
        (("a", "b", "a"), (1.0, 2.0, 3.0), (), "question a occurs 2 times"),
        (("a", "b"), (1.0, math.nan), (), "question b has the value nan"),
    ],
)
def test_a_malformed_sample_is_refused(
    questions: tuple[str, ...], values: tuple[float, ...], groups: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Sample(questions, values, groups)


def test_pairs_are_made_by_question_not_by_place() -> None:
    first = Sample(("a", "b", "c"), (1.0, 2.0, 3.0), ("x", "x", ""))
    second = Sample(("c", "d", "a"), (0.5, 9.0, 0.25), ("", "", "x"))
    assert paired(first, second) == Sample(("a", "c"), (0.75, 2.5), ("x", ""))


def test_samples_without_a_question_in_common_or_with_other_groups_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="share no question"):
        paired(Sample(("a",), (1.0,)), Sample(("b",), (1.0,)))
    with pytest.raises(ValueError, match="question a is of group 'x' in one sample and of 'y'"):
        paired(Sample(("a",), (1.0,), ("x",)), Sample(("a",), (1.0,), ("y",)))
