"""A sweep that was made in Python: what its run folder keeps of it, and how it is opened again."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import orjson

from oversight import protocols
from oversight.engine.errors import RunFolderError
from oversight.engine.sweeps.document import Document
from oversight.engine.sweeps.sweepfile import SweepFile, Top
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem

PYTHON_MARK = "# This run was started from Python"
"""First line of the file that takes the place of a sweep file in runs made from Python."""

PARTS_PREFIX = "protocols"
"""Prefix of the name of each built-in part of a protocol. It is written into run folders, so it
must not change; runs of version 0.1 name the part's module here too, which may have moved since."""

JSON_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS

Sections: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The `models` or the `providers` of a sweep file."""


def python_sweep(
    top: Top,
    problems: Iterable[Problem],
    protocols: Iterable[Protocol],
    models: Sections,
    providers: Sections,
) -> SweepFile:
    """The sweep of protocols that exist as objects."""
    made = tuple(protocols)
    told = {
        **{field.name: getattr(top, field.name) for field in fields(Top)},
        "models": models,
        "providers": providers,
        "protocols": _told(made),
    }
    # What cannot be told is some setting that is no good, and is found to be when it is used.
    text = orjson.dumps(told, default=repr, option=JSON_OPTIONS).decode()
    document = Document("Python", f"{PYTHON_MARK}.\n{text}\n", {}, {})
    return SweepFile(document, top, tuple(problems), made, models, providers)


def read_python_sweep(text: str, problems: tuple[Problem, ...]) -> SweepFile:
    """The same again, from what its run folder keeps. RunFolderError where a protocol of it, or a
    part of one, is defined in nobody's package but the user's."""
    try:
        told = orjson.loads(text.partition("\n")[2])
        made = _made(told.pop("protocols"))
        models, providers = told.pop("models"), told.pop("providers")
        return python_sweep(Top(**told), problems, made, models, providers)
    except (ValueError, TypeError, LookupError, AttributeError, ImportError) as exc:
        raise RunFolderError(f"what was made in Python cannot be made again: {exc}") from exc


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    if is_dataclass(value):
        inner = {f.name: _told(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"is": _part(type(value))} | inner
    return value


def _part(kind: type) -> str:
    """`protocols:NAME` for a built-in part, whatever its module; MODULE:NAME for any other."""
    ours = getattr(protocols, kind.__name__, None) is kind
    return f"{PARTS_PREFIX if ours else kind.__module__}:{kind.__qualname__}"


def _made(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(_made(part) for part in told)
    if not isinstance(told, dict):
        return told
    settings = dict(told)
    module, _, name = settings.pop("is").partition(":")
    # The user's own package is none that every reader has; nothing is imported from elsewhere.
    if module.partition(".")[0] != PARTS_PREFIX:
        raise RunFolderError(f"{name} is defined in your own {module}")
    kind = getattr(protocols, name)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise TypeError(f"{name} is nothing that a protocol is made of")
    return kind(**{field: _made(part) for field, part in settings.items()})
