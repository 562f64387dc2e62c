"""Settings that are declared once, as fields of a dataclass: arguments in Python, options on the
command line, and a table of the reference. Commands declare the parameters that are theirs alone in
the same way, as defaults of their functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin

from annotated_types import Interval

from ...protocols.settings import out_of_range
from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class Flag:
    """What an option needs beside the name, the type and the default of its field."""

    help: str
    name: str = ""
    """Where it is not the field's own, e.g. `--run-folder`; several have a space between them."""
    metavar: str | None = None
    """RUN is completed with the names of runs."""
    within: Interval | None = None
    """The numbers that it takes; None for any."""
    exists: bool = False
    """Whether a path must be there."""
    read: Callable[[Any], Any] | None = None
    """Reads a value that is no plain number, name or path, or all values of an option that is
    repeatable, as its default () says. ValueError says what is wrong."""
    required: bool = False
    argument: bool = False
    """Whether it is given by its place on the line, without a name."""
    type: Any = None
    """The type of click, where that of the field does not tell it."""
    complete: Callable[..., Any] | None = None
    """What the shell offers on TAB, where the metavar does not tell it."""
    json: bool = False
    """Whether `--json` gives it the value json."""
    under: str = "Options"
    """The heading of the help that it stands under."""
    rare: bool = False
    """Whether only `--help-all` shows it."""


FLAG = "flag"
"""Its key in the metadata of a field."""


def flag(help: str, *, default: Any = None, **settings: Any) -> Any:
    """A field that is an option too; the settings are those of a `Flag`."""
    return field(default=default, metadata={FLAG: Flag(help, **settings)})


def argument(metavar: str | None = None, *, default: Any = None, **settings: Any) -> Any:
    """A parameter that is given by its place; one whose type allows None may be left out."""
    return flag("", default=default, metavar=metavar, argument=True, **settings)


def check_flags(settings: Any) -> None:
    """UsageError, with all that is wrong, for settings that no option would take; for an
    `__post_init__`. Values that an option reads from text are read here too."""
    faults = []
    for setting in fields(settings):
        declared: Flag | None = setting.metadata.get(FLAG)
        value = getattr(settings, setting.name)
        if declared is None or value == setting.default:
            continue
        choices = get_args(setting.type) if get_origin(setting.type) is Literal else ()
        if declared.read is not None and isinstance(value, str):
            try:
                object.__setattr__(settings, setting.name, declared.read(value))
            except ValueError as exc:
                faults.append(f"{setting.name}: {exc}")
        elif choices and value not in choices:
            faults.append(
                f"{setting.name}: {value!r} is not one of {', '.join(map(repr, choices))}"
            )
        elif isinstance(value, (int, float)):
            finite = math.isfinite(value)
            fault = out_of_range(value, declared.within) if finite else f"{value} is not finite"
            faults += [f"{setting.name}: {fault}"] if fault else []
    if faults:
        raise UsageError("\n".join(faults))
