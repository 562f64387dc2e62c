"""Run folders on the disk: where they are, and what this machine knows of those that it made.

A run folder from elsewhere may name any store and any address. So this machine notes both for each
run that it makes, in the user's data folder under the run's id, and uses no others.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from ..errors import RunFolderError
from ..system.files import read_bounded, replace_file
from .manifest import read_manifest
from .record.schema import RUN_DB

RUNS = Path("runs")
"""Where run folders are made, in the working folder."""

MAX_NOTE = 2**16


def run_folders(place: Path) -> Iterator[Path]:
    """Yield the run folders in a folder, by name; none if the folder does not exist."""
    if place.is_dir():
        yield from sorted(folder for folder in place.iterdir() if is_run(folder))


def is_run(folder: Path) -> bool:
    """Whether it is a run folder, sound or not."""
    return os.path.lexists(folder / RUN_DB)


def touched(folder: Path) -> float:
    """When a run was last written to; seconds since 1970."""
    files = (folder / RUN_DB, folder / f"{RUN_DB}-wal")
    return max((file.lstat().st_mtime for file in files if os.path.lexists(file)), default=0.0)


def newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=touched, reverse=True)


def runs_of(sweep: str, start: str = "") -> list[Path]:
    """The runs in `runs/` of sweeps of this name, the newest first; start: of the folder's name.

    A run that cannot be read is left out: commands that name it say what is wrong.
    """
    runs = []
    for folder in run_folders(RUNS):
        with suppress(RunFolderError, OSError):
            if folder.name.startswith(start) and read_manifest(folder).name == sweep:
                runs.append(folder)
    return newest_first(runs)


def sibling_runs(folder: Path) -> list[Path]:
    """Return the other run folders in `runs/`, the newest first; none for a folder elsewhere."""
    if folder.parent.resolve() != RUNS.resolve():
        return []
    return newest_first(other for other in run_folders(folder.parent) if other.name != folder.name)


class _Note(msgspec.Struct, frozen=True):
    store: str
    addresses: tuple[str, ...] = ()
    """Those that the user's sweep file gave to providers."""


def remember_run(folder: Path, id: str, store: str, addresses: tuple[str, ...] = ()) -> None:
    """Note the store and the addresses of a run under its id. Commands use the user's store where
    this fails."""
    with suppress(OSError, RunFolderError):
        file = _file(folder, id)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, [msgspec.json.encode(_Note(store, addresses))], durable=False)


def remembered_store(folder: Path, id: str | None = None) -> str:
    """The store in which this machine keeps the replies of a run; empty if it made no such run.

    id: the run's; None to read it from the folder.
    """
    return _noted(folder, id).store


def remembered_addresses(folder: Path) -> tuple[str, ...]:
    """The addresses that the user named when this machine made a run; none if it did not."""
    return _noted(folder).addresses


def _noted(folder: Path, id: str | None = None) -> _Note:
    try:
        file = _file(folder, read_manifest(folder).id if id is None else id)
        return msgspec.json.decode(read_bounded(file, MAX_NOTE), type=_Note)
    except (OSError, RunFolderError, msgspec.DecodeError):
        return _Note("")


def _file(folder: Path, id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{16}", id):
        raise RunFolderError(f"{folder}: {id!r} is not the id of a run")
    return platformdirs.user_data_path("oversight") / "runs" / id
