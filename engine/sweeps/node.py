"""A cursor in a sweep file: a value with its place in the file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from oversight.engine.errors import UsageError
from oversight.engine.sweeps.document import Document, Key


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document. Readers are given nodes, so that each error names its place."""

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
        """The same place with another value."""
        return Node(self.document, self.key, value)

    def settings(self) -> "dict[str, Node]":
        """The parts of a mapping by name, or of None, which has none. UsageError otherwise."""
        named = self.document.mapping(self.key, self.value)
        return {name: self.child(name, value) for name, value in named.items()}

    def alternatives(self) -> "Iterator[Node]":
        """Each part of a list; any other value is its only alternative."""
        if not isinstance(self.value, list):
            yield self
            return
        for place, value in enumerate(self.value):
            yield self.child(place, value)

    def from_flag(self) -> bool:
        """Whether it was set on the command line."""
        return self.document.from_flag(self.key)

    def fault(self, message: str, hint: str = "") -> UsageError:
        """The error for this value: its place, its name, what is wrong, and how to mend it."""
        return self.document.fault(self.key, message, hint)

    def unknown(
        self, known: Iterable[str], what: str = "setting", all: str = "", shown: str = ""
    ) -> UsageError:
        """The error for a name that means nothing here, with the one that was perhaps meant.

        all: what the list of known names is headed by; if empty, `settings of` their owner.
        shown: in place of that list.
        """
        return self.document.unknown(self.key, known, what, all, shown)
