"""The environment and `.env`, which are read in this module only."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..errors import UsageError

ALLOW_ADDRESS = "OVERSIGHT_ALLOW_ADDRESS"
"""Variable with providers, between commas, whose keys may go to an address, or through a proxy,
that `.env` names."""
VOUCH = "OVERSIGHT_VOUCH"
"""Variable with providers, between commas, whose address is a gateway to a vendor."""
USERS_OWN = (ALLOW_ADDRESS, VOUCH)
"""Variables that `.env` may not set."""


class Environment(dict[str, str]):
    """Variables by name."""

    beside: frozenset[str] = frozenset()
    """Names of those that are from `.env`, a file that anybody may have put beside a sweep."""
    unread: Mapping[str, str] = MappingProxyType({})
    """By a key's variable, why the file that is to hold it could not be read."""


KEY, KEY_FILE = "_API_KEY", "_API_KEY_FILE"
MAX_KEY = 65_536
"""Characters that are read of a file with a key."""


def environment(folder: Path) -> Environment:
    """The process's environment, which overrides `.env` in the folder, if there is one.

    Where the process's environment has X_API_KEY_FILE and no X_API_KEY, as where secrets are
    mounted into a container, that file holds the key. One that cannot be read is an error only
    where that key is needed: the variable may be another program's. In `.env` it names no file:
    anybody may have put that beside a sweep.
    """
    found: Mapping[str, str | None] = {}
    if (file := folder / ".env").exists():
        # Here, as most runs have none.
        from dotenv import dotenv_values

        found = dotenv_values(file)
    beside = {
        name: value or ""
        for name, value in found.items()
        if name not in USERS_OWN and not name.endswith(KEY_FILE)
    }
    users, unread = dict(os.environ), dict[str, str]()
    for variable, value in os.environ.items():
        key = variable.removesuffix(KEY_FILE) + KEY
        if variable.endswith(KEY_FILE) and value and not users.get(key):
            try:
                users[key] = _key_in(variable, Path(value))
            except UsageError as fault:
                unread[key] = str(fault)
    variables = Environment(beside | users)
    variables.unread = unread
    variables.beside = frozenset(beside.keys() - users.keys())
    return variables


def _key_in(variable: str, file: Path) -> str:
    try:
        # A secret that Kubernetes mounts is a link. A pipe could be waited for without an end, and
        # be read but once.
        if file.exists() and not file.is_file():
            raise UsageError(f"{variable}={file}: the key cannot be read: it is no regular file")
        with file.open(encoding="ascii") as opened:
            key = opened.read(MAX_KEY).strip()
    except (OSError, UnicodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it holds a character that no key has"
        raise UsageError(f"{variable}={file}: the key cannot be read: {why}") from None
    if not key:
        raise UsageError(f"{variable}={file}: the key cannot be read: the file is empty")
    return key
