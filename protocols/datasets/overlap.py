"""Examples that are problems as well: a judge who is shown them is told the truth of its case."""

from collections.abc import Iterable

from oversight.protocols.datasets.solution import sense
from oversight.protocols.question import Problem


def overlap(
    problems: Iterable[Problem], examples: Iterable[Problem]
) -> tuple[tuple[str, str], ...]:
    """(id of a problem, id of an example) of all that are one question: by id, or by text, but for
    case and spaces, about one passage."""
    ids: dict[str, str] = {}
    texts: dict[object, str] = {}
    for problem in problems:
        ids[problem.id] = problem.id
        texts.setdefault(_text(problem), problem.id)
    found = []
    for example in examples:
        same = ids.get(example.id) or texts.get(_text(example))
        if same is not None:
            found.append((same, example.id))
    return tuple(found)


def _text(problem: Problem) -> object:
    return sense(problem.question.text), sense(problem.question.passage)
