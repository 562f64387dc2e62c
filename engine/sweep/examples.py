"""Few-shot examples of judges, loaded from the data sets that a sweep file names."""

from collections.abc import Iterator

from msgspec.structs import replace

from ...protocols.judges.shots import Shot
from ...protocols.question import Problem
from .loading import load_problems
from .node import Node
from .sweep import dataclasses_in


def shots(node: Node) -> tuple[Shot, ...]:
    """Examples from the data sets of a setting, which is written like `problems`.

    Paths must be absolute: a run folder is reopened without the folder of its sweep file.
    """
    examples: list[Shot] = []
    for data_set in node.settings().values():
        loaded = load_problems(data_set, None)
        decided = map(Shot.of, loaded.problems)
        examples += decided if loaded.names_rows else (replace(each, id="") for each in decided)
    return tuple(examples)


def problems_of(value: object) -> Iterator[Problem]:
    """Every example in a tree of roles and settings, as a problem with its answer; simulated models
    need its truth as well as that of the sweep's problems."""
    for part in dataclasses_in(value):
        if isinstance(part, Shot):
            question = part.floor.question
            yield Problem(part.id or f"example: {question.text[:60]}", question, part.probs)
