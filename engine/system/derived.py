"""Derived data in the user's cache folder, which can be computed again at any time.

A value is kept with a stamp of everything that it was computed from, and counts only under an equal
stamp. Nothing depends on it: where the folder cannot be written or read, values are recomputed.
"""

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import platformdirs

from ..errors import RunFolderError
from .files import read_bounded, replace_file

MAX_BYTES = 2**24
"""Size limit of one value."""
MAX_FILES = 200
"""Maximum number of values; the oldest go first."""


def derived(name: str, stamp: str) -> bytes | None:
    """Return the value kept under a name; None if missing or under another stamp."""
    with suppress(OSError, RunFolderError):
        kept_stamp, _, value = read_bounded(_file(name), MAX_BYTES).partition(b"\n")
        if kept_stamp.decode(errors="replace") == stamp:
            return value
    return None


def keep_derived(name: str, stamp: str, value: bytes) -> None:
    """Keep a value under a name. The stamp is one line."""
    with suppress(OSError, RunFolderError):
        file = _file(name)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, [stamp.encode(), b"\n", value], durable=False, mode=0o600)
        files = sorted(file.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for old in files[:-MAX_FILES]:
            old.unlink()


def stamp_of(files: Iterable[Path], *more: object) -> str:
    """Return a digest of the paths, sizes and modification times of files, and of more values. An
    empty file counts as a missing one."""
    states = ((file, _state(file)) for file in files)
    parts = [f"{file}\0{state}" for file, state in states if state[0]]
    return sha256("\n".join([*parts, *map(repr, more)]).encode()).hexdigest()


def _state(file: Path) -> tuple[int, int]:
    """Return the size (bytes) and the modification time (ns); zeros for a missing file."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _file(name: str) -> Path:
    return platformdirs.user_cache_path("oversight-derived") / sha256(name.encode()).hexdigest()
