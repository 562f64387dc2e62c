"""The environment and `.env`, which are read in this module only."""

import codecs
import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from ..errors import UsageError

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order mark -> encoding. Some Windows shells write `.env` as UTF-16."""


class Environment(dict[str, str]):
    """Variables by name."""

    beside: frozenset[str] = frozenset()
    """Names of those that are from `.env`, a file that anybody may have put beside a sweep."""


def environment(folder: Path) -> Environment:
    """The process's environment, which overrides `.env` in the folder, if there is one.

    Raises UsageError if `.env` cannot be read or is not text.
    """
    found: Mapping[str, str | None] = {}
    if (file := folder / ".env").exists():
        # Here, as most runs have none.
        from dotenv import dotenv_values

        found = dotenv_values(stream=StringIO(_text(file)))
    variables = Environment({name: value or "" for name, value in found.items()} | os.environ)
    variables.beside = frozenset(found.keys() - os.environ.keys())
    return variables


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
    except OSError as exc:
        raise UsageError(f"{file} cannot be read: {exc.strerror}") from None
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise UsageError(
            f"{file}, line {line}: this is not {encoding.upper()} text; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{file} contains zero bytes; save it as UTF-8 text")
    return text
