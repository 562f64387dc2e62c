"""The settings of a role: the parameters of its requests, checks, and what differs from defaults.

Parameters are declared once here, for agents, judges, sweep files, capabilities, wires and tables.
"""

from collections.abc import Collection, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..cache.address import ABSENT
from ..cache.memo import computed_once

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a model draws by, and how it is served. What is not set is not sent, and is no part of
    any address; what a model or its wire does not take is refused before the run."""

    top_p: float | None = field(default=None, metadata=ABSENT)
    top_k: int | None = field(default=None, metadata=ABSENT)
    min_p: float | None = field(default=None, metadata=ABSENT)
    seed: int | None = field(default=None, metadata=ABSENT)
    stop: tuple[str, ...] = field(default=(), metadata=ABSENT)
    service_tier: str = field(default="", metadata=ABSENT)
    extra_body: str = field(default="", metadata=ABSENT)

    @computed_once
    def parameters(self) -> dict[str, Any]:
        """Those that are set, as fields of a `Request`."""
        named = ((name, getattr(self, name)) for name in PARAMETERS)
        return {name: value for name, value in named if value not in (None, (), "")}


PARAMETERS = tuple(each.name for each in fields(Parameters))
"""Their names, which are fields of `Request` too."""

Reason: TypeAlias = Literal["none", "private", "public"]
"""Whether a model is asked to think before it answers, and whether others may read it."""

REASONING_ROOM = 1024
"""Tokens for thinking before an answer, on top of those for the answer."""

MAX_SETTING_TEXT = 24
"""Characters of a setting that is free text."""


def settings_of(*roles: "type[DataclassInstance] | DataclassInstance") -> "list[Field[Any]]":
    """The fields of roles that can be set: their own, then the parameters of their requests."""
    return [*_settable(*(role if isinstance(role, type) else type(role) for role in roles))]


@cache  # a sweep names each row by its settings, and has many rows of few classes
def _settable(*kinds: "type[DataclassInstance]") -> "tuple[Field[Any], ...]":
    found = (each for kind in kinds for each in fields(kind) if each.init)
    return tuple(sorted(found, key=fields(Parameters).__contains__))


def unusual(settings: "DataclassInstance") -> Iterator[str]:
    """The settings that are not at their default, in the order of `settings_of`.

    A flag is its name, tools are their names, and a tuple of anything but names is its length. A
    field without a default is a role and no setting, and is left out.
    """
    for each in settings_of(settings):
        value = getattr(settings, each.name)
        if each.default is not MISSING and value != each.default:
            yield from _words(each, value)


POSITIVE = {"least": 1.0, "most": None}
"""Metadata of a field whose value is a number from `least` to `most`; None: any above."""


def ranged(default: Any, *, least: float = 1, most: float | None = None) -> Any:
    """A field of a dataclass whose value is a number in that range, or None for no number."""
    return field(default=default, metadata={"least": least, "most": most})


def check_numbers(settings: "DataclassInstance") -> None:
    """ValueError, with the remedy, if a field is out of its range."""
    for each in fields(settings):
        if "least" in each.metadata:
            value, least, most = getattr(settings, each.name), *each.metadata.values()
            if value is None:
                continue
            if most is not None and not least <= value <= most:
                raise ValueError(f"{each.name}: {value} is not from {least:g} to {most:g}")
            if not value >= least:
                raise ValueError(f"{each.name}: {value} is too few; use {least:g} or more")


def require_known(name: str, value: str, options: Collection[str]) -> None:
    """ValueError, with the options, if the setting `name` is none of them."""
    if value not in options:
        raise ValueError(f"{name}: there is no {value!r}; there is {', '.join(options)}")


def _words(of: "Field[Any]", value: Any) -> Iterator[str]:
    name = of.name.replace("_", " ")
    if isinstance(value, bool):
        yield name if value else f"no {name}"
    elif isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        shown = [
            part if part.isprintable() and part.strip() == part else repr(part) for part in value
        ]
        yield from value if name == "tools" else (f"{name} {', '.join(shown)}",)
    elif isinstance(value, tuple):
        yield f"{len(value)} {name}"
    elif isinstance(value, str):
        line = " ".join(value.split())
        cut = line if len(line) <= MAX_SETTING_TEXT else f"{line[:MAX_SETTING_TEXT].rstrip()}…"
        yield f"{name} {cut}"
    elif value is not None:
        yield f"{name} {value}"
