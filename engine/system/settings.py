"""Settings declared once, as dataclass fields: Python arguments, options, and reference tables.

Commands declare their other parameters in the same way, as defaults of their functions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin

from annotated_types import Interval

from ...protocols.settings import out_of_range
from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class Flag:
    """Properties of an option in addition to the name, type and default of its field."""

    help: str
    name: str = ""
    """Option names, if not the field's, separated by spaces: `--run-folder`."""
    metavar: str | None = None
    """`RUN` is completed with the names of runs."""
    within: Interval | None = None
    """Range of accepted numbers; None for any."""
    exists: bool = False
    read: Callable[[Any], Any] | None = None
    """Converts a value other than a plain number, name or path, or all values of a repeatable
    option (default ()). ValueError describes the fault."""
    required: bool = False
    argument: bool = False
    """Whether it is positional, without a name."""
    type: Any = None
    """The click type, if the field's type does not determine it."""
    complete: Callable[..., Any] | None = None
    """Shell completion, if the metavar does not determine it."""
    json: bool = False
    under: str = "Options"
    """Heading of the help for this option."""
    rare: bool = False
    """Shown only by `--help-all`."""


FLAG = "flag"


def flag(help: str, *, default: Any = None, **settings: Any) -> Any:
    """A field that is also an option; `settings` are fields of `Flag`."""
    return field(default=default, metadata={FLAG: Flag(help, **settings)})


def argument(metavar: str | None = None, *, default: Any = None, **settings: Any) -> Any:
    """A positional parameter; optional if its type allows None."""
    return flag("", default=default, metavar=metavar, argument=True, **settings)


def check_flags(settings: Any) -> None:
    """Raise UsageError, with all faults, for values that no option would accept; for
    `__post_init__`. Converts values that options read from text."""
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
