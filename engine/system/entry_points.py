"""What installed packages register under our entry point groups."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ..errors import UsageError

PROTOCOLS_GROUP = "oversight.protocols"
JUDGES_GROUP = "oversight.judges"
AGENTS_GROUP = "oversight.agents"
DATASETS_GROUP = "oversight.datasets"
PROVIDERS_GROUP = "oversight.providers"


@cache
def registered(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name. They are listed only: nothing is imported."""
    return {point.name: point for point in entry_points(group=group)}


def load_registered(group: str, name: str) -> object:
    """What a package registered under a name that `registered` lists.

    UsageError, naming package and import, if it cannot be imported.
    """
    point = registered(group)[name]
    try:
        return point.load()
    except Exception as exc:
        package = point.dist.name if point.dist else "a package"
        raise UsageError(
            f"{name}: {package} registers it as {point.value} under {group}, and its import "
            f"failed: {type(exc).__name__}: {exc}"
        ) from exc
