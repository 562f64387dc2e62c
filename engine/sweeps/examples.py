"""Examples for judges, from a sweep file: decided cases out of a data set."""

from collections.abc import Iterable, Iterator
from typing import Any

from oversight.engine.sweeps.document import Document, Key
from oversight.engine.sweeps.loading import load_problems
from oversight.protocols.judges.shots import Shot
from oversight.protocols.question import Problem


def shots(document: Document, key: Key, value: Any) -> tuple[Shot, ...]:
    """The problems that a setting names, as under `problems`, each as a case that is decided.

    A path must be absolute: a run folder is opened again from elsewhere, without its sweep file.
    """
    found: list[Shot] = []
    for name, settings in document.mapping(key, value).items():
        found += map(Shot.of, load_problems(document, (*key, name), settings, None))
    return tuple(found)


def problems_of(value: object) -> Iterator[Problem]:
    """Every example in a tree of roles and settings, as the problem that it decides: what a
    simulated world has to know beside the problems of the sweep."""
    if isinstance(value, Shot):
        question = value.floor.question
        yield Problem(f"example: {question.text[:60]}", question, value.probs)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for part in value:
            yield from problems_of(part)
    else:
        for name in getattr(value, "__dataclass_fields__", ()):
            yield from problems_of(getattr(value, name))
