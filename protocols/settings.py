"""Settings of roles, suggestions for mistyped names, and a registry that imports on first use.

The request parameters of a role, their checks and their names in reports are declared once here,
for agents, judges, sweep files, capabilities, wires and tables."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

from annotated_types import Interval

from ..cache.cached_attribute import cached_attribute
from ..cache.call import ABSENT
from .errors import ProtocolError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Sampling and serving parameters of a model. Unset ones are not sent and not part of
    addresses. A parameter that the model or its wire does not take is refused before the run."""

    top_p: float | None = field(default=None, metadata=ABSENT)
    top_k: int | None = field(default=None, metadata=ABSENT)
    min_p: float | None = field(default=None, metadata=ABSENT)
    seed: int | None = field(default=None, metadata=ABSENT)
    stop: tuple[str, ...] = field(default=(), metadata=ABSENT)
    service_tier: str = field(default="", metadata=ABSENT)
    extra_body: str = field(default="", metadata=ABSENT)
    thinking_tokens: int | None = field(default=None, metadata=ABSENT)

    @cached_attribute
    def parameters(self) -> dict[str, Any]:
        """The parameters that are set, as fields of a `Request`."""
        values = ((name, getattr(self, name)) for name in PARAMETERS)
        return {name: value for name, value in values if value not in (None, (), "")}


PARAMETERS = tuple(parameter.name for parameter in fields(Parameters))
"""Names of the parameters, which are also fields of `Request`."""

Count: TypeAlias = Annotated[int, Interval(ge=1)]
CountFromZero: TypeAlias = Annotated[int, Interval(ge=0)]
Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]

Reason: TypeAlias = Literal["none", "private", "public"]
"""Whether a model is asked to think before it answers, and whether others may read that."""

REASONING_ROOM = 1024
"""Tokens for thinking before an answer, added to those for the answer."""

MAX_SETTING_TEXT = 24
"""Maximum characters shown of a free-text setting."""


def settings_of(*roles: "type[DataclassInstance] | DataclassInstance") -> "list[Field[Any]]":
    """The fields of roles that can be set, followed by the parameters of their requests."""
    return [*_settable(*(role if isinstance(role, type) else type(role) for role in roles))]


@cache  # a sweep names each row by its settings, and has many rows of few classes
def _settable(*kinds: "type[DataclassInstance]") -> "tuple[Field[Any], ...]":
    settable = (setting for kind in kinds for setting in fields(kind) if setting.init)
    return tuple(sorted(settable, key=fields(Parameters).__contains__))


def unusual(settings: "DataclassInstance") -> Iterator[str]:
    """The settings that differ from their defaults, in the order of `settings_of`. Flags and tools
    are shown by name, other tuples by length. Fields without a default are roles, not settings, and
    are left out."""
    for setting in settings_of(settings):
        value = getattr(settings, setting.name)
        if setting.default is not MISSING and value != setting.default:
            yield from _words(setting, value)


def ends(interval: Interval | None) -> tuple[float | None, float | None]:
    """The ends of an interval, whether they belong to it or not; None where it has no end."""
    if interval is None:
        return None, None
    least = interval.ge if interval.gt is None else interval.gt
    most = interval.le if interval.lt is None else interval.lt
    return cast("tuple[float | None, float | None]", (least, most))


def out_of_range(value: float, interval: Interval | None) -> str:
    """The fault of a number outside of its interval; empty for one within."""
    least, most = ends(interval)
    above, below = (interval and interval.gt) is not None, (interval and interval.lt) is not None
    is_enough = least is None or (value > least if above else value >= least)
    if is_enough and (most is None or (value < most if below else value <= most)):
        return ""
    if most is None:
        return f"{value} is too few; use {'more than ' * above}{least:g}{' or more' * (not above)}"
    return f"{value} is not from {'above ' * above}{least or 0:g} to {'below ' * below}{most:g}"


def check_ranges(settings: "DataclassInstance") -> None:
    """Raise ValueError, with the range, if a number is outside of the interval of its type."""
    for name, interval in _intervals(type(settings)):
        value = getattr(settings, name)
        if value is not None and (fault := out_of_range(value, interval)):
            raise ValueError(f"{name}: {fault}")


@cache
def _intervals(kind: "type[DataclassInstance]") -> tuple[tuple[str, Interval], ...]:
    hints = {setting.name: setting.type for setting in fields(kind)}
    if any(isinstance(hint, str) for hint in hints.values()):
        hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (name, part)
        for name, hint in hints.items()
        for type_ in (hint, *get_args(hint))
        for part in getattr(type_, "__metadata__", ())
        if isinstance(part, Interval)
    )


def require_known(name: str, value: str, options: Collection[str]) -> None:
    """Raise ValueError, with the options, if the setting `name` has another value."""
    if value not in options:
        raise ValueError(f"{name}: unknown value {value!r}; choose from {', '.join(options)}")


def _words(setting: "Field[Any]", value: Any) -> Iterator[str]:
    name = setting.name.replace("_", " ")
    if isinstance(value, bool):
        yield name if value else f"no {name}"
    elif isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        parts = [
            part if part.isprintable() and part.strip() == part else repr(part) for part in value
        ]
        yield from value if name == "tools" else (f"{name} {', '.join(parts)}",)
    elif isinstance(value, tuple):
        yield f"{len(value)} {name}"
    elif isinstance(value, str):
        line = " ".join(value.split())
        cut = line if len(line) <= MAX_SETTING_TEXT else f"{line[:MAX_SETTING_TEXT].rstrip()}…"
        yield f"{name} {cut}"
    elif value is not None:
        yield f"{name} {value}"


def suggestion(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`; did you mean 'debate'?`, for the end of an error, or an empty string. cutoff: minimum
    similarity of the names, from 0 to 1, as difflib measures it."""
    near = get_close_matches(word, list(names), 1, cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(kind: str, word: str, names: Iterable[str]) -> str:
    """`unknown protocol 'debat': did you mean 'debate'? Choose from a, b`, for an error. kind: says
    which names they are, such as `protocol`."""
    if not (known := list(names)):
        return f"unknown {kind} {word!r}"
    near = suggestion(word, known).removeprefix("; ")
    choose = f"{near} Choose" if near else "choose"
    return f"unknown {kind} {word!r}: {choose} from {', '.join(known)}"


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
