"""What there is by name, of which each module is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from .errors import ProtocolError

T = TypeVar("T")


class LazyRegistry(Mapping[str, T]):
    """A catalogue: a run of two protocols imports two, and listing the names imports none."""

    def __init__(self, kind: type | str, places: Mapping[str, str]) -> None:
        """kind: what all of them are, or are subclasses of; as `module:Name` below this package, as
        all places are, it is imported with the first of them."""
        self._kind, self._places = kind, dict(places)
        self._found: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._found:
            kind = _found(self._kind) if isinstance(self._kind, str) else self._kind
            found = _found(self._places[name])
            if not (isinstance(found, kind) or issubclass(found, kind)):
                raise ProtocolError(f"{name}: {found!r} is no {kind.__name__}")
            self._found[name] = found
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _found(place: str) -> Any:
    module, _, called = place.partition(":")
    return getattr(import_module(f".{module}", __package__), called)
