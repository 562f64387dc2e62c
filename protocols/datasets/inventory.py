"""Counts of what a data set holds: problems, answers, passages, and duplicate questions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..question import Problem
from .solution import sense

Countable = TypeVar("Countable", int, str)


@dataclass(frozen=True, slots=True)
class Inventory:
    problems: int
    answers: tuple[tuple[int, int], ...]
    """(number of answers, problems with that many), ascending."""
    best: tuple[tuple[str, int], ...]
    """(label, problems whose best answer has it), by label; ties count for the first answer."""
    passages: int
    """Number of distinct passages."""
    groups: int
    """Number of distinct groups; a problem without one is a group of its own."""
    duplicates: tuple[tuple[str, ...], ...]
    """Ids of problems that ask the same question about the same passage."""


def inventory(problems: Iterable[Problem]) -> Inventory:
    problems = tuple(problems)
    same: dict[object, list[str]] = {}
    for problem in problems:
        question = problem.question
        same.setdefault((sense(question.text), question.passage), []).append(problem.id)
    return Inventory(
        len(problems),
        _counted(len(problem.values) for problem in problems),
        _counted(problem.question.answers[problem.best].label for problem in problems),
        len({problem.question.passage for problem in problems} - {""}),
        len({(problem.group, "" if problem.group else problem.id) for problem in problems}),
        tuple(tuple(ids) for ids in same.values() if len(ids) > 1),
    )


def _counted(values: Iterable[Countable]) -> tuple[tuple[Countable, int], ...]:
    return tuple(sorted(Counter(values).items()))
