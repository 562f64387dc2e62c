"""This process: event loop, garbage collector, open files, and registered extensions.

Each folder in `engine/extensions` registers names by group in its `extension.toml`, like the entry
points of a package. A command also states its heading and summary for the help."""

import gc
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from importlib.metadata import EntryPoint

YOUNG = 50_000
"""Net allocations between two collections of the youngest generation. Python's default of 700 took
a sixth of all time, since every call in flight is traversed again and again."""

LOADING = 3 * YOUNG
"""The same while a command is loaded and prepared. About 60,000 lasting objects are created, and
one traversal takes a twentieth of the time to the first request."""

KEPT = 32
"""Descriptors that connections never take: for the store and its threads (three per database),
ledger, outcomes, quarantine, name lookup, and later imports."""

_MOST = 2**16
"""Maximum that is ever needed; some systems refuse more, or no limit at all."""


def event_loop() -> "Callable[[], asyncio.AbstractEventLoop]":
    """The factory of event loops: uvloop's, or asyncio's if that is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        import asyncio

        return asyncio.new_event_loop
    return uvloop.new_event_loop


@contextmanager
def gc_relaxed(young: int = YOUNG) -> Iterator[None]:
    """During the body, freeze existing objects, and collect new ones rarely. young: net allocations
    between two collections of the youngest generation. The previous settings of the process are
    restored afterwards."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def raise_limit() -> None:
    """Raise the limit of open files as far as the system permits; macOS shells start with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    # macOS may enforce a lower limit: then the current one stays.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def require_room() -> None:
    """Raise UsageError if too few descriptors are free to ask models and store their replies."""
    if _room() < 1:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        raise UsageError(
            f"this process may have {allowed} open files, which is too few to ask models and store "
            "their replies: allow more, as with ulimit -n 256. Nothing was sent."
        )


def left() -> int:
    """Number of connections that may still be opened; at least one."""
    return max(_room(), 1)


def _room() -> int:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST
    return allowed - len(os.listdir("/dev/fd")) - KEPT


PROTOCOLS_GROUP = "oversight.protocols"
JUDGES_GROUP = "oversight.judges"
AGENTS_GROUP = "oversight.agents"
DATASETS_GROUP = "oversight.datasets"
PROVIDERS_GROUP = "oversight.providers"
SIMULATION_GROUP = "oversight.simulation"
COMMANDS_GROUP = "oversight.commands"
EXECUTION_GROUP = "oversight.execution"
JUDGEMENTS_GROUP = "oversight.judgements"
SCORES_GROUP = "oversight.scores"
WORKERS_GROUP = "oversight.workers"
STORES_GROUP = "oversight.stores"
OPENERS_GROUP = "oversight.openers"
ANALYSES_GROUP = "oversight.analyses"

_EXTENSIONS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")

Kind = TypeVar("Kind")


@cache
def extensions() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Registrations of each extension, by its folder's name and by group. Read once."""
    import tomllib

    groups = {}
    for name in sorted(os.listdir(_EXTENSIONS)):
        file = os.path.join(_EXTENSIONS, name, "extension.toml")
        if os.path.isfile(file):
            with open(file, "rb") as text:
                groups[name] = tomllib.load(text)
    return groups


@cache
def package_points() -> Any:
    """The entry points of all installed packages, read once: that takes 7 ms."""
    from importlib.metadata import entry_points

    return entry_points()


@cache
def registered(group: str) -> "Mapping[str, EntryPoint]":
    """The entry points of a group by name. Nothing is imported."""
    # Imported late: the help does not need it.
    from importlib.metadata import EntryPoint

    ours: dict[str, EntryPoint] = {}
    for extension, groups in extensions().items():
        for name, point in groups.get(group, {}).items():
            place = point["is"] if isinstance(point, dict) else point
            value = f"oversight.engine.extensions.{extension}.{place}"
            ours[name] = EntryPoint(name, value, group)
    return ours | {point.name: point for point in package_points().select(group=group)}


def load_function(group: str, name: str) -> Callable[..., Any]:
    """As `load_registered`, for functions. UsageError for other values."""
    function = load_registered(group, name)
    if not callable(function):
        raise UsageError(f"{name}, registered under {group}, is not a function: {function!r}")
    return function


def load_one(group: str, name: str, kind: type[Kind]) -> Kind:
    """As `load_registered`, for values of a class. UsageError for other values."""
    value = load_registered(group, name)
    if not isinstance(value, kind):
        raise UsageError(f"{name}: {value!r}, which is registered, is not a {kind.__name__}")
    return value


def load_registered(group: str, name: str) -> object:
    """Import a registered value by name. UsageError, with package and import, if that fails."""
    point = registered(group)[name]
    try:
        return point.load()
    except UsageError:
        raise  # it names the missing extra
    except Exception as exc:
        package = point.dist.name if point.dist else "a package"
        raise UsageError(
            f"{name}: {package} registers it as {point.value} under {group}, and its import "
            f"failed: {type(exc).__name__}: {exc}"
        ) from exc
