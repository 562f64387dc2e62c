"""A registry that imports its entries on first use."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from .errors import ProtocolError

T = TypeVar("T")


class LazyRegistry(Mapping[str, T]):
    """Entries by name. Listing the names imports nothing."""

    def __init__(self, kind: type | str, places: Mapping[str, str]) -> None:
        """kind: the class of all entries, or their base class. It may be written like `places`, as
        `module:Name` below this package, and is then imported with the first entry."""
        self._kind, self._places = kind, dict(places)
        self._found: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._found:
            kind = _found(self._kind) if isinstance(self._kind, str) else self._kind
            entry = _found(self._places[name])
            if not (isinstance(entry, kind) or issubclass(entry, kind)):
                raise ProtocolError(f"{name}: {entry!r} is not a {kind.__name__}")
            self._found[name] = entry
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _found(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f".{module}", __package__), attribute)
