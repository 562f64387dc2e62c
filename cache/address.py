"""One address for each value: sha256 over canonical JSON."""

import hashlib
import math
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import orjson
from msgspec import Struct

from .errors import AddressError

ABSENT = MappingProxyType({"absent": True})
"""Metadata of a dataclass's field that is no part of an address while it has its default."""

MAX_EXACT_INTEGER = 2**53
"""Whole numbers beyond this are not the same in every program."""


def store_key(address: str, identity: str) -> str:
    """The key under which a store keeps the reply of one endpoint to the call at `address`.

    identity: the endpoint's; two servers of one model name differ in it, and share nothing.
    """
    return address + endpoint_tag(identity)


@lru_cache(maxsize=1024)
def endpoint_tag(identity: str) -> str:
    """A full stop and 16 hex digits, the second half of a store's key."""
    return "." + hashlib.sha256(identity.encode()).hexdigest()[:16]


def value_address(value: Any) -> str:
    """64 hex digits for a tree of structs, dataclasses, tuples, strings, numbers, bools and None.

    The class name counts: two protocols with the same settings differ. AddressError for
    anything else, since a function or an object with a default repr has no stable form.
    """
    return digest(plain(value))


def digest(tree: Any) -> str:
    """The address of a value from its `plain` tree, which may have been stored as JSON."""
    return hashlib.sha256(orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)).hexdigest()


def plain(value: Any, path: str = "") -> Any:
    """As dicts, lists and scalars; a struct or dataclass becomes {"is": its name, its fields…}."""
    if (names := _field_names(value.__class__)) is not None:
        inner = {name: plain(getattr(value, name), f"{path}.{name}") for name in names}
        for name, default in _absent(value.__class__):
            if getattr(value, name) == default:
                del inner[name]
        return {"is": type(value).__name__} | inner
    if isinstance(value, tuple):
        return [plain(part, f"{path}[{n}]") for n, part in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AddressError(path.lstrip("."), f"{value} is not a finite number")
        # 1 and 1.0 are equal and must have one address.
        return int(value) if value.is_integer() and abs(value) < MAX_EXACT_INTEGER else value
    if isinstance(value, str):
        if not value.isascii():
            _refuse_surrogates(value, path)
        return value
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        raise AddressError(path.lstrip("."), f"{value:.3g} is too large a whole number")
    if value is None or isinstance(value, (bool, int)):
        return value
    raise AddressError(path.lstrip("."), f"a {type(value).__name__} has no address")


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of frozen values; None for another class."""
    names: tuple[str, ...] | None = _field_names(kind)
    return names


@cache
def _absent(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass that are left out at their defaults, which come with them."""
    every = fields(kind) if is_dataclass(kind) else ()
    return tuple((each.name, each.default) for each in every if "absent" in each.metadata)


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    if issubclass(kind, Struct):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def unaddressable(value: Any) -> AddressError:
    """The error that names the part of a value that has no canonical form."""
    try:
        plain(value)
    except AddressError as exc:
        return exc
    return AddressError("call", "has no canonical form")


def _refuse_surrogates(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        at = exc.start
        raise AddressError(
            path.lstrip("."), f"lone surrogate {text[at]!a} at character {at}; it is no valid text"
        ) from exc
