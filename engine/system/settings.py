"""Settings that come from the environment: read once, at the edge, and handed down as values."""

import os
from pathlib import Path

import platformdirs

from ..errors import UsageError

STORE_VARIABLE = "OVERSIGHT_STORE"

SCHEMES = ("postgresql://", "postgres://")


def is_url(named: str) -> bool:
    """Whether the name of a store is the URL of a database."""
    return named.startswith(SCHEMES)


def homely(path: Path) -> str:
    """The absolute path with `~` for the home folder, so that it does not reveal the user."""
    whole, home = path.resolve(), Path.home().resolve()
    return f"~/{whole.relative_to(home)}" if whole.is_relative_to(home) else str(whole)


def store_path(given: Path | None) -> Path:
    """The folder of the store: the one given, else $OVERSIGHT_STORE, else the user's cache."""
    if given is not None:
        return given
    if named := os.environ.get(STORE_VARIABLE):
        if "://" in named:
            raise UsageError(
                f"{STORE_VARIABLE} names a database, and this command works on a folder: name one "
                "with --store"
            )
        return Path(named)
    return platformdirs.user_cache_path("oversight")
