"""Equal questions: copies within a data set, and overlap of examples and problems.

A judge shown its own case as an example knows the answer, and copies of a question are one
observation.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ..question import Problem
from .columns import seen
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


def content(problem: Problem) -> tuple[str, ...]:
    """Key of a question: equal for copies of a question under other ids and letters."""
    question = problem.question
    options = sorted(seen(answer.whole) for answer in question.answers)
    return seen(question.text), seen(question.passage), question.environment, *options


def grouped(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, copies of one question in one group: equal text, passage and answers are one
    observation. A group that a copy has is kept."""
    known = tuple(problems)
    keys = [content(problem) for problem in known]
    copies = Counter(keys)
    groups = {key: problem.group for key, problem in zip(keys, known, strict=True) if problem.group}
    return tuple(
        problem
        if problem.group or copies[key] == 1
        else replace(problem, group=groups.get(key) or digest("\0".join(key)))
        for key, problem in zip(keys, known, strict=True)
    )


def copies_line(problems: Sequence[Problem]) -> Iterator[str]:
    """A line for people if some problems ask the same question."""
    different = len({content(problem) for problem in problems})
    if different < len(problems):
        yield (
            f"{len(problems):,} problems, {different:,} different questions: copies with equal "
            "answers and passage count as one group in intervals"
        )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
