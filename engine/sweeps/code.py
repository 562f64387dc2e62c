"""The code behind a sweep: what decides, beside its settings, what is asked and how it is read."""

import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oversight.protocols.protocol import Protocol

HOME = "oversight.protocols."
"""How the names of the modules begin in which our own protocols, agents and judges are."""

UNCOUNTED = ("oversight.protocols.scoring", "oversight.protocols.datasets")
"""What reads verdicts and decides none, and what loads problems, which count by their contents.
Scores count: a jury pools by one, and market making asks by one."""

_IMPORTED = re.compile(rf"^[ \t]*(?:from|import)[ \t]+({re.escape(HOME)}[\w.]+)", re.MULTILINE)


def code_digest(protocols: Iterable[Protocol]) -> str:
    """12 hex digits: others once a prompt, a reader or a protocol of it is written otherwise.

    Counted are the modules of the protocols and of their agents and judges, and of ours all that
    those import; by what is in them, so that a module that is only moved changes nothing. What
    reports do with verdicts is not counted, and no other protocol is. Outcomes of other code are
    never taken for those of this one: an edited protocol is a new run, which pays only for calls
    that are new. A class without a source file counts by its name.
    """
    classes = {cls for protocol in protocols for cls in _classes(protocol)}
    modules = {cls.__module__ for cls in classes}
    ours = {name for name in modules if name.startswith(HOME)}
    foreign = sorted(
        (cls.__module__, cls.__qualname__, _source(cls))
        for cls in classes
        if cls.__module__ not in {*ours, "abc", "builtins"}
    )
    counted = sorted(_digest(module) for module in closure(ours))
    told = "\0".join([*counted, *("\0".join(each) for each in foreign)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def closure(modules: Iterable[str]) -> set[str]:
    """Those of our modules, and all that they import of ours, without what is not counted."""
    found: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in found and not f"{module}.".startswith(tuple(f"{u}." for u in UNCOUNTED)):
            found.add(module)
            todo += _imports(module)
    return found


def _classes(value: Any) -> Iterator[type]:
    """The classes of a tree of roles and settings, with all that they inherit from."""
    if isinstance(value, tuple):
        for part in value:
            yield from _classes(part)
    elif is_dataclass(value):
        kind: type = type(value)
        yield from kind.__mro__
        for field in fields(value):
            yield from _classes(getattr(value, field.name))


@cache
def _file(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module} has no source file")
    return Path(spec.origin)


@cache
def _imports(module: str) -> tuple[str, ...]:
    return tuple(_IMPORTED.findall(_file(module).read_text(encoding="utf-8")))


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(_file(module).read_bytes()).hexdigest()


def _source(cls: type) -> str:
    try:
        # The whole module: prompts stand as constants beside the class.
        return inspect.getsource(inspect.getmodule(cls) or cls)
    except (OSError, TypeError):
        return ""
