"""Sweeps defined in Python: how a run folder stores and reopens them."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

import orjson

from ... import protocols
from ...cache.call import field_names
from ...protocols.protocol import Protocol
from ...protocols.question import Problem
from ..errors import RunFolderError
from ..providers.catalogue import provider_of
from ..providers.simulated import PREFIX
from .document import Document
from .roles import endpoint_of, uses_temperature
from .sweepfile import SweepFile, Top

PYTHON_MARK = "# This run was started from Python"
"""First line of the file that stands in for the sweep file in runs started from Python."""

PARTS_PREFIX = "protocols"
"""Prefix of the name of each built-in part of a protocol. Run folders store it."""

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
    """A sweep of protocol objects, with the text that its run folder will keep."""
    listed = tuple(_without_refused(protocol, {**providers, **models}) for protocol in protocols)
    contents = {
        **{field.name: getattr(top, field.name) for field in fields(Top)},
        "models": models,
        "providers": providers,
        "protocols": _told(listed),
    }
    # A value that JSON cannot hold is an invalid setting, and is reported where it is used.
    text = orjson.dumps(contents, default=repr, option=JSON_OPTIONS).decode()
    document = Document("Python", f"{PYTHON_MARK}.\n{text}\n", {}, {})
    return SweepFile(document, top, tuple(problems), listed, models, providers)


def read_python_sweep(text: str, problems: tuple[Problem, ...]) -> SweepFile:
    """A sweep from the text that `python_sweep` wrote. RunFolderError if a part of a protocol is
    defined in the user's own package, or if the text cannot be read."""
    try:
        contents = orjson.loads(text.partition("\n")[2])
        rebuilt = _made(contents.pop("protocols"))
        models, providers = contents.pop("models"), contents.pop("providers")
        return python_sweep(Top(**contents), problems, rebuilt, models, providers)
    except (ValueError, TypeError, LookupError, AttributeError, ImportError) as exc:
        raise RunFolderError(f"objects made in Python cannot be rebuilt: {exc}") from exc


def _without_refused(part: Any, settings: Sections) -> Any:
    """Return a role without our default temperature if its model accepts none, as `auto` does.
    Another value is kept, and refused later with the reason."""
    if isinstance(part, tuple):
        return tuple(_without_refused(item, settings) for item in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed: dict[str, Any] = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if item.init and (without := _without_refused(value, settings)) != value:
            changed[item.name] = without
        if item.name == "temperature" and value is not None and value == item.default:
            agent = part if hasattr(part, "model") else getattr(part, "base_agent", None)
            if agent is not None and _refuses_temperature(agent, settings):
                changed[item.name] = None
    return replace(part, **changed) if changed else part


def _refuses_temperature(agent: Any, settings: Sections) -> bool:
    model = str(agent.model)
    if model.startswith(PREFIX) or "/" not in model:
        return False
    reach = endpoint_of(model, settings.get(model, {}), settings.get(provider_of(model), {}))
    names = ("model", "effort", "thinking_tokens", "top_p")
    stated = {name: value for name in names if (value := getattr(agent, name, None)) is not None}
    return not uses_temperature(stated, reach)


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    if (names := field_names(type(value))) is not None:
        return {"is": _part(type(value))} | {name: _told(getattr(value, name)) for name in names}
    return value


def _part(kind: type) -> str:
    """`protocols:NAME` for a built-in part, whatever its module; MODULE:NAME for any other."""
    ours = getattr(protocols, kind.__name__, None) is kind
    return f"{PARTS_PREFIX if ours else kind.__module__}:{kind.__qualname__}"


def _made(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(_made(part) for part in stored)
    if not isinstance(stored, dict):
        return stored
    settings = dict(stored)
    module, _, name = settings.pop("is").partition(":")
    # Only built-in parts are imported: readers may not have the user's own package.
    if module != PARTS_PREFIX:
        raise RunFolderError(f"{name} is defined in your own {module}")
    kind = getattr(protocols, name)
    if not isinstance(kind, type) or field_names(kind) is None:
        raise TypeError(f"{name} is nothing that a protocol is made of")
    return kind(**{field: _made(part) for field, part in settings.items()})
