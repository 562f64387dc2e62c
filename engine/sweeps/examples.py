"""Examples for judges, from a sweep file: decided cases out of a data set."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from oversight.engine.sweeps.loading import load_named
from oversight.engine.sweeps.node import Node
from oversight.protocols.judges.shots import Shot
from oversight.protocols.question import Problem


def shots(node: Node) -> tuple[Shot, ...]:
    """The problems that a setting names, as under `problems`, each as a case that is decided.

    A path must be absolute: a run folder is opened again from elsewhere, without its sweep file.
    """
    found: list[Shot] = []
    for data_set in node.settings().values():
        problems, named = load_named(data_set, None)
        decided = map(Shot.of, problems)
        found += decided if named else (replace(each, id="") for each in decided)
    return tuple(found)


def problems_of(value: object) -> Iterator[Problem]:
    """Every example in a tree of roles and settings, as the problem that it decides: what a
    simulated world has to know beside the problems of the sweep."""
    if isinstance(value, Shot):
        question = value.floor.question
        yield Problem(value.id or f"example: {question.text[:60]}", question, value.probs)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for part in value:
            yield from problems_of(part)
    else:
        for name in getattr(value, "__dataclass_fields__", ()):
            yield from problems_of(getattr(value, name))
