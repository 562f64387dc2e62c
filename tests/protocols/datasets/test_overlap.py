from oversight.protocols.datasets.overlap import overlap
from oversight.protocols.question import Problem, labelled

PAIR = [("yes", "", 1.0), ("no", "", -1.0)]


def problem(id: str, text: str, passage: str = "") -> Problem:
    return labelled(id, text, PAIR, passage=passage)


def test_an_example_that_is_a_problem_is_named_with_it_by_id_or_by_text():
    problems = [problem("a", "Is it?"), problem("b", "Was it?"), problem("c", "Will it be?")]
    examples = [problem("b", "In other words?"), problem("x", " is  IT? "), problem("y", "No?")]
    assert overlap(problems, examples) == (("b", "b"), ("a", "x"))


def test_one_question_about_two_passages_is_two():
    assert overlap([problem("a", "Why?", "One.")], [problem("b", "Why?", "Two.")]) == ()
    assert overlap([problem("a", "Why?", "One.")], [problem("b", "Why?", "one.")]) == (("a", "b"),)


def test_what_has_no_text_in_common_does_not_overlap():
    assert overlap([], [problem("a", "Is it?")]) == overlap([problem("a", "Is it?")], []) == ()
