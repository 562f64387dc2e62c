"""The environment and `.env`, which are read in this module only."""

import os
from collections.abc import Mapping
from pathlib import Path


class Environment(dict[str, str]):
    """Variables by name."""

    beside: frozenset[str] = frozenset()
    """Names of those that are from `.env`, a file that anybody may have put beside a sweep."""


def environment(folder: Path) -> Environment:
    """The process's environment, which overrides `.env` in the folder, if there is one."""
    found: Mapping[str, str | None] = {}
    if (file := folder / ".env").exists():
        # Here, as most runs have none.
        from dotenv import dotenv_values

        found = dotenv_values(file)
    variables = Environment({name: value or "" for name, value in found.items()} | os.environ)
    variables.beside = frozenset(found.keys() - os.environ.keys())
    return variables
