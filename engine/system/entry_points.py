"""What extensions and installed packages register under our entry point groups.

Each folder below `engine/extensions` says what it registers in its `extension.toml`, by group and
name, in the words that a package's metadata has. A command says besides under which heading of the
help it stands, and what it does.
"""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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

_EXTENSIONS = Path(__file__).parents[1] / "extensions"

Kind = TypeVar("Kind")


@cache
def extensions() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """What each extension says that it registers, by its folder's name and by group. Read once."""
    files = sorted(_EXTENSIONS.glob("*/extension.toml"))
    return {file.parent.name: tomllib.loads(file.read_text(encoding="utf-8")) for file in files}


@cache
def registered(group: str) -> "Mapping[str, EntryPoint]":
    """The entry points of a group by name. They are listed only: nothing is imported."""
    # The help of the command line lists what is registered without it.
    from importlib.metadata import EntryPoint, entry_points

    ours: dict[str, EntryPoint] = {}
    for extension, groups in extensions().items():
        for name, point in groups.get(group, {}).items():
            place = point["is"] if isinstance(point, dict) else point
            value = f"oversight.engine.extensions.{extension}.{place}"
            ours[name] = EntryPoint(name, value, group)
    return ours | {point.name: point for point in entry_points(group=group)}


def load_function(group: str, name: str) -> Callable[..., Any]:
    """As `load_registered`, for a group of functions. UsageError if it is none."""
    found = load_registered(group, name)
    if not callable(found):
        raise UsageError(f"{name}: {found!r}, which is registered under {group}, is no function")
    return found


def load_one(group: str, name: str, kind: type[Kind]) -> Kind:
    """As `load_registered`, for a group of one kind. UsageError if it is none of it."""
    found = load_registered(group, name)
    if not isinstance(found, kind):
        raise UsageError(f"{name}: {found!r}, which is registered, is no {kind.__name__}")
    return found


def load_registered(group: str, name: str) -> object:
    """What a package registered under a name that `registered` lists.

    UsageError, naming package and import, if it cannot be imported.
    """
    point = registered(group)[name]
    try:
        return point.load()
    except UsageError:
        raise  # it says which extra it needs
    except Exception as exc:
        package = point.dist.name if point.dist else "a package"
        raise UsageError(
            f"{name}: {package} registers it as {point.value} under {group}, and its import "
            f"failed: {type(exc).__name__}: {exc}"
        ) from exc
