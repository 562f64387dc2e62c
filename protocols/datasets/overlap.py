"""Overlap of examples and problems: a judge shown its own case as an example knows the answer."""

from collections.abc import Iterable

from ..question import Problem
from .solution import sense


def overlap(
    problems: Iterable[Problem], examples: Iterable[Problem]
) -> tuple[tuple[str, str], ...]:
    """(problem id, example id) of each pair that is one question: by id, or by text and passage,
    ignoring case and spaces."""
    ids: dict[str, str] = {}
    texts: dict[object, str] = {}
    for problem in problems:
        ids[problem.id] = problem.id
        texts.setdefault(_text(problem), problem.id)
    pairs = []
    for example in examples:
        problem_id = ids.get(example.id) or texts.get(_text(example))
        if problem_id is not None:
            pairs.append((problem_id, example.id))
    return tuple(pairs)


def _text(problem: Problem) -> object:
    return sense(problem.question.text), sense(problem.question.passage)
