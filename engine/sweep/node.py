"""Values of a sweep file: each with its place, checked against the fields of a frozen dataclass;
all faults of a file are told at once."""

import math
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ...cache.call import MAX_EXACT_INTEGER
from ...protocols.errors import DatasetError
from ...protocols.settings import settings_of
from ..errors import UsageError
from .document import Document, Key


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document with its key, so that each error can name its line."""

    document: Document
    key: Key
    value: Any

    @classmethod
    def section(cls, document: Document, name: str) -> "Node":
        """A section of the document; its value is None where it is missing."""
        return cls(document, (name,), document.value.get(name))

    @property
    def name(self) -> str:
        """The last part of its key."""
        return str(self.key[-1])

    def child(self, name: str | int, value: Any) -> "Node":
        """A value within this one."""
        return Node(self.document, (*self.key, name), value)

    def replaced(self, value: Any) -> "Node":
        """A node with the same key and another value."""
        return Node(self.document, self.key, value)

    def settings(self) -> "dict[str, Node]":
        """The parts of a mapping by name; None has none. UsageError for any other value."""
        named = self.document.mapping(self.key, self.value)
        return {name: self.child(name, value) for name, value in named.items()}

    def alternatives(self) -> "Iterator[Node]":
        """Each part of a list; any other value is its only alternative."""
        if not isinstance(self.value, list):
            yield self
            return
        for index, value in enumerate(self.value):
            yield self.child(index, value)

    def fault(self, message: str, hint: str = "") -> UsageError:
        """An error about this value: its line, its name, what is wrong, and how to fix it."""
        return self.document.fault(self.key, message, hint)

    def unknown(
        self, known: Iterable[str], what: str = "setting", all: str = "", shown: str = ""
    ) -> UsageError:
        """An error about this name, which is unknown; see `Document.unknown`."""
        return self.document.unknown(self.key, known, what, all, shown)


class Faults:
    """What is wrong with the parts of something that is checked part by part."""

    def __init__(self) -> None:
        self._found: list[UsageError | DatasetError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keeps the fault that ends the body, so that the next part is checked as well."""
        try:
            yield
        except (UsageError, DatasetError) as fault:
            self._found.append(fault)

    def settle(self) -> None:
        """Raise what was found: the fault itself if it is one, else all as a UsageError."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise UsageError("\n".join(dict.fromkeys(map(str, self._found))))


_Filled = TypeVar("_Filled")


def filled(node: Node, cls: type[_Filled]) -> _Filled:
    """A `cls` with the settings of a mapping. UsageError names line, value and remedy."""
    known = fields_of(cls)
    faults, values = Faults(), {}
    for name, setting in node.settings().items():
        with faults.noted():
            if name not in known:
                raise setting.unknown(known)
            values[name] = checked_value(setting, known[name])
    faults.settle()
    return made_of(node, cls, values)


def checked_value(node: Node, type_: Any) -> Any:
    """The value, validated as a type; lists become tuples, and numbers must be finite.
    UsageError for any other value."""
    given = value = node.value
    if get_origin(type_) is tuple:
        # Within an axis, one alternative of a list field is `none`, one name or a list of names.
        names = [] if value in (None, "none") else [value] if isinstance(value, str) else value
        given = tuple(names) if isinstance(names, list) else names
    try:
        checked = TypeAdapter(type_, config=ConfigDict(strict=True)).validate_python(given)
    except ValidationError:
        # YAML 1.1 has four words for false, three of which are settings of somebody's.
        why = "YAML reads off, no, on and yes as false and true: write none, or use quotes"
        hint = why if isinstance(value, bool) and str in _types(type_) else ""
        raise node.fault(f"{value!r} is not {_expected(type_)}", hint) from None
    if isinstance(checked, float) and not math.isfinite(checked):
        raise node.fault(f"{checked} is not a finite number")
    if isinstance(checked, int) and abs(checked) > MAX_EXACT_INTEGER:
        raise node.fault(f"{checked:.3g} is too large")
    return checked


def _expected(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(type_))
    if get_origin(type_) in (Union, types.UnionType):
        return " or ".join(_expected(part) for part in get_args(type_))
    if get_origin(type_) is tuple:
        return "a list of numbers" if get_args(type_)[0] is float else "a list of names"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return "nothing (null)" if type_ is type(None) else names.get(type_, str(type_))


def _types(type_: Any) -> set[type]:
    """The types of the values that a type admits, as far as they are plain."""
    if get_origin(type_) is Literal:
        return {type(choice) for choice in get_args(type_)}
    return {kind for part in get_args(type_) for kind in _types(part)} or {type_}


def made_of(node: Node, cls: type[_Filled], settings: Mapping[str, Any]) -> _Filled:
    """A `cls` with these settings; a ValueError of its own checks becomes a UsageError with the
    line."""
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


def fields_of(*classes: type[Any]) -> dict[str, Any]:
    """Name -> type of every field of a role, which may consist of several classes."""
    hints = {name: type_ for cls in classes for name, type_ in get_type_hints(cls).items()}
    return {each.name: hints[each.name] for each in settings_of(*classes)}
