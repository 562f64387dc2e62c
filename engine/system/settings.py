"""Settings that come from the environment: read once, at the edge, and handed down as values."""

import os
from pathlib import Path

import platformdirs

from oversight.engine.errors import UsageError

STORE_VARIABLE = "OVERSIGHT_STORE"

SCHEMES = ("postgresql://", "postgres://")


def is_url(named: str) -> bool:
    """Whether a store is named by the URL of a database."""
    return named.startswith(SCHEMES)


def homely(path: Path) -> str:
    """A path that tells nobody who its owner is: whole, with `~` for the home folder."""
    whole, home = path.resolve(), Path.home().resolve()
    return f"~/{whole.relative_to(home)}" if whole.is_relative_to(home) else str(whole)


def store_path(given: Path | None) -> Path:
    """The folder of the store: the one given, else $OVERSIGHT_STORE, else the user's cache."""
    if given is not None:
        return given
    if named := os.environ.get(STORE_VARIABLE):
        if "://" in named:
            raise UsageError(
                f"{STORE_VARIABLE} names a database, and this works on a folder: name one with "
                "--store"
            )
        return Path(named)
    return platformdirs.user_cache_path("oversight")
