import pytest

from oversight.engine.errors import InvalidRequest
from oversight.engine.extensions.simulation import GroundTruth
from oversight.protocols.question import Answer, Problem, Question


def problem(id: str, values: tuple[float, ...], *answers: str, text: str = "Which?") -> Problem:
    named = tuple(Answer(label, said) for label, said in zip("ABCD", answers, strict=False))
    return Problem(id, Question(text, named), values)


def test_the_truth_is_found_in_any_order_of_presentation():
    world = GroundTruth([problem("p", (-1, 1, -1), "red", "green", "blue")])
    assert world.truth("Which?", ["red", "green", "blue"]) == 1
    assert world.truth("Which?", ["blue", "red", "green"]) == 2


def test_among_fewer_answers_the_truth_is_the_best_of_those_shown():
    world = GroundTruth([problem("p", (0.5, 1, -1), "red", "green", "blue")])
    assert world.truth("Which?", ["blue", "red"]) == 1


def test_of_answers_of_one_value_the_first_of_the_problem_is_the_truth():
    world = GroundTruth([problem("p", (1, 1, -1), "red", "green", "blue")])
    assert world.truth("Which?", ["green", "blue", "red"]) == 2


def test_one_question_may_be_put_with_other_answers():
    world = GroundTruth(
        [problem("p", (1, -1), "red", "all of them"), problem("q", (1, -1), "all of them", "none")]
    )
    assert len(world) == 1
    assert world.truth("Which?", ["red", "all of them"]) == 0
    assert world.truth("Which?", ["none", "all of them"]) == 1


def test_two_truths_about_one_question_are_an_error():
    world = GroundTruth([problem("p", (1, -1), "yes", "no"), problem("q", (-1, 1), "yes", "no")])
    with pytest.raises(InvalidRequest, match="2 truths about the question 'Which\\?'"):
        world.truth("Which?", ["yes", "no"])


def test_unknown_questions_and_answers_are_an_error():
    world = GroundTruth([problem("p", (1, -1), "yes", "no")])
    for text, shown in (("Who?", ["yes", "no"]), ("Which?", ["yes", "maybe"]), ("Which?", [])):
        with pytest.raises(InvalidRequest, match="knows nothing of the question"):
            world.truth(text, shown)
