"""Addresses of settings and problems that stay what they are when a later version adds a setting.

A setting that version 0.1 did not have counts once it is not at its default: cells that were run
before it existed keep their ids. What the default then does is the code's to tell, and so is what
a default does that has changed since (`Protocol.former_defaults`).
"""

from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from ...cache.address import digest, plain

TABLE = "settings-0.1.json"


def settled(value: Any) -> Any:
    """The tree of `oversight.cache.address.plain`, without later settings that are at their
    default. AddressError for what has no address."""
    return _settled(value, plain(value))


def settled_address(value: Any) -> str:
    """Digest of `settled`, 64 hex digits."""
    return digest(settled(value))


def _settled(value: Any, tree: Any) -> Any:
    """value: what `tree` was made of."""
    if isinstance(value, tuple):
        return [_settled(*parts) for parts in zip(value, tree, strict=True)]
    if not isinstance(tree, dict) or not is_dataclass(value):
        return tree
    kept = {"is": tree["is"]}
    former = getattr(value, "former_defaults", {})
    for setting, later in _fields(value.__class__, tree["is"]):
        name = setting.name
        of = getattr(value, name)
        if later and of == _default(setting):
            continue
        # Texts and numbers, which are most of it, are the tree as they stand.
        inner = tree[name] if isinstance(of, str | int | float) else _settled(of, tree[name])
        kept[name] = _as_then(former[name], setting, inner) if name in former else inner
    return kept


def _as_then(former: Any, setting: "Field[Any]", tree: Any) -> Any:
    """The setting as version 0.1 had it, where its default has changed since: what is now the
    default has the address of the former one, and the former one that of what is now."""
    pair = (former, _default(setting))
    return pair[1 - pair.index(tree)] if tree in pair and pair[0] != pair[1] else tree


@cache
def _fields(kind: type, name: str) -> tuple[tuple["Field[Any]", bool], ...]:
    """The fields of a dataclass, each with whether it was added after version 0.1. name: under
    which the class counts."""
    then = _settings().get(name)
    return tuple((each, then is not None and each.name not in then) for each in fields(kind))


def _default(setting: "Field[Any]") -> Any:
    if setting.default_factory is not MISSING:
        return setting.default_factory()
    return setting.default


@cache
def _settings() -> dict[str, frozenset[str]]:
    """The settings of each class of version 0.1, by its name."""
    text = files("oversight.engine").joinpath("data", TABLE).read_bytes()
    return {name: frozenset(settings) for name, settings in orjson.loads(text).items()}
