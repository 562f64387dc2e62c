"""Open answers: one proposed answer, to be accepted or rejected, in place of a choice.

A judge who is shown a right and a wrong answer side by side can tell them apart by comparing; one
who oversees a model sees what the model proposes and nothing else.
"""

from collections.abc import Iterable, Iterator

from ..question import Answer, Problem, Question, is_graded, labelled, randomness
from .overlap import content

ACCEPT = "The proposed answer is right."
REJECT = "The proposed answer is not right."


def proposals(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """Two proposals per problem: its right answer, and a wrong one drawn from the seed and from
    the text of the problem.

    So proposals are as often right as wrong. Both are in one group, which a bootstrap keeps
    together. ValueError for answers that differ in degree: none of them can be accepted.
    """
    for problem in problems:
        question, best = problem.question, problem.best
        if question.graded or is_graded(problem.values):
            raise ValueError(
                f"{problem.id}: its answers differ in degree, so none can be accepted or rejected; "
                "leave proposals out"
            )
        wrong = [place for place in range(len(problem.values)) if place != best]
        about = "\0".join(content(problem))
        drawn = randomness(seed, about, "proposal").choice(
            sorted(wrong, key=lambda place: question.answers[place].whole)
        )
        group = problem.group or problem.id
        for place in sorted((best, drawn)):
            answer = question.answers[place]
            id = f"{problem.id}-{answer.label}"
            yield proposal(id, question, answer, place == best, group=group)


def proposal(id: str, question: Question, answer: Answer, right: bool, *, group: str) -> Problem:
    """One answer to a question, to be accepted or rejected; its labels are not drawn yet."""
    value = 1.0 if right else -1.0
    return labelled(
        id,
        f"{question.text}\n\nProposed answer: {answer.whole}",
        [(ACCEPT, "", value), (REJECT, "", -value)],
        seed=None,
        passage=question.passage,
        group=group,
        environment=question.environment,
    )
