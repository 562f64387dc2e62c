"""Settings that come from the environment: read once, at the edge, and handed down as values."""

import os
import re
from pathlib import Path

import platformdirs

from ..errors import UsageError

STORE_VARIABLE = "OVERSIGHT_STORE"

SCHEMES = ("postgresql://", "postgres://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_KEYWORDS = re.compile(
    r"\b(host|hostaddr|dbname|user|password|passfile|port|service|sslmode)\s*=", re.IGNORECASE
)


def is_url(named: str) -> bool:
    """Whether the name of a store is the URL of a database."""
    return named.startswith(SCHEMES)


def checked_name(named: str) -> str:
    """The name of a store, as it is written down. UsageError for what is neither the URL of a
    database nor the name of a folder, which may hold a password and is not repeated."""
    name = named.strip()
    scheme = _SCHEME.match(name)
    if scheme is None:
        if _KEYWORDS.search(name):
            raise UsageError(
                "the store is given in libpq's keywords: write postgresql://USER@HOST/DATABASE, "
                "and put the password into ~/.pgpass, or into the variable PGPASSWORD"
            )
        return named
    lower = scheme[1].lower() + name[scheme.end(1) :]
    if is_url(lower):
        return lower
    raise UsageError(
        f"the store begins with {scheme[1]}:, which names no database that can be a store: write "
        "postgresql://USER@HOST/DATABASE, or the name of a folder"
    )


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
