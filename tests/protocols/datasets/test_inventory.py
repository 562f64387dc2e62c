"""What a data set holds, counted."""

from oversight.protocols.datasets.inventory import Inventory, inventory
from oversight.protocols.question import Answer, Problem, Question


def problem(id, text, best=0, count=2, passage="", group=""):
    answers = tuple(Answer("ABCD"[n], f"answer {n}") for n in range(count))
    values = tuple(1.0 if n == best else -1.0 for n in range(count))
    return Problem(id, Question(text, answers, passage), values, group)


def test_problems_answers_labels_passages_and_groups_are_counted():
    held = inventory(
        [
            problem("a", "Who?", best=1, passage="One.", group="1"),
            problem("b", "What?", best=1, passage="One.", group="1"),
            problem("c", "Where?", count=4, passage="Two."),
            problem("d", "When?"),
        ]
    )
    assert held == Inventory(4, ((2, 3), (4, 1)), (("A", 2), ("B", 2)), 2, 3, ())


def test_a_question_that_stands_twice_is_found_but_for_case_and_spaces():
    problems = [
        problem("a", "Who came?"),
        problem("b", "Who went?"),
        problem("c", " who  CAME?", best=1),
        problem("d", "Who came?", passage="Another story."),
        problem("e", "Who came?"),
    ]
    assert inventory(problems).duplicates == (("a", "c", "e"),)
