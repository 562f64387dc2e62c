"""Settings that are declared once, as fields of a dataclass: arguments in Python, options on the
command line, and a table of the reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """What an option needs beside the name, the type and the default of its field."""

    help: str
    name: str = ""
    """Where it is not the field's own, e.g. `--from`."""
    metavar: str | None = None
    """RUN is completed with the names of runs."""
    least: float | None = None
    most: float | None = None
    exists: bool = False
    """Whether a path must be there."""
    read: Callable[[str], Any] | None = None
    """Reads a value that is no plain number, name or path. ValueError says what is wrong."""
    hidden: bool = False


FLAG = "flag"
"""Its key in the metadata of a field."""


def flag(help: str, *, default: Any = None, **settings: Any) -> Any:
    """A field that is an option too; the settings are those of a `Flag`."""
    return field(default=default, metadata={FLAG: Flag(help, **settings)})
