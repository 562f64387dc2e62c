"""Settings by name, checked against the fields of the frozen dataclass that they are for."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from oversight.cache.address import MAX_EXACT_INTEGER
from oversight.engine.sweeps.node import Node

_Filled = TypeVar("_Filled")


def filled(node: Node, cls: type[_Filled]) -> _Filled:
    """A `cls` of a mapping. UsageError names place, value and mend of what does not fit."""
    known = fields_of(cls)
    settings = node.settings()
    for name, setting in settings.items():
        if name not in known:
            raise setting.unknown(known)
    made = {name: checked_value(setting, known[name]) for name, setting in settings.items()}
    return made_of(node, cls, made)


def checked_value(node: Node, type_: Any) -> Any:
    """The value as this type, numbers finite and names as a tuple. UsageError for another type."""
    given = value = node.value
    if get_origin(type_) is tuple:
        # `none`, one name, or a list of names: what a list within an axis stands for.
        names = [] if value in (None, "none") else [value] if isinstance(value, str) else value
        given = tuple(names) if isinstance(names, list) else names
    try:
        made = TypeAdapter(type_, config=ConfigDict(strict=True)).validate_python(given)
    except ValidationError:
        raise node.fault(f"{value!r} is not {_expected(type_)}") from None
    if isinstance(made, float) and not math.isfinite(made):
        raise node.fault(f"{made} is not a finite number")
    if isinstance(made, int) and abs(made) > MAX_EXACT_INTEGER:
        raise node.fault(f"{made:.3g} is too large")
    return made


def _expected(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(type_))
    if get_origin(type_) in (Union, types.UnionType):
        return " or ".join(_expected(part) for part in get_args(type_))
    if get_origin(type_) is tuple:
        return "a list of numbers" if get_args(type_)[0] is float else "a list of names"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return "nothing (null)" if type_ is type(None) else names.get(type_, str(type_))


def made_of(node: Node, cls: type[_Filled], settings: Mapping[str, Any]) -> _Filled:
    """The role; what its own checks refuse is reported with its place in the file."""
    try:
        return cls(**settings)
    except ValueError as exc:
        name, _, message = str(exc).partition(": ")
        if name in settings:
            raise node.child(name, settings[name]).fault(message) from None
        raise node.fault(str(exc)) from None


def required_of(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a role that have no default."""
    return tuple(each.name for each in fields(cls) if each.default is MISSING)


def fields_of(cls: type[Any]) -> dict[str, Any]:
    """Name -> type of every field of a role."""
    hints = get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls) if each.init}
