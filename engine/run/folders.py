"""Run folders on the disk: where they are, the lock that the process holds which runs one, and what
this machine knows of those that were made on it.

The lock is released however the process ends. A run folder may come back from elsewhere with other
content, and may name any store. So how this machine left it, and its store, are noted in the user's
data folder, under the id of the run, and no folder carries the note along.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import platformdirs

from ..errors import FolderBusy, RunFolderError
from ..system.files import is_open_as, open_plain, read_bounded, replace_file
from .manifest import read_manifest
from .record.schema import RUN_DB

LOCK_FILE = "lock"

RUNS = Path("runs")
"""Where run folders are made, in the working folder."""

MAX_NOTE = 2**16


def run_folders(place: Path) -> Iterator[Path]:
    """The run folders that stand in a folder, by name; none if there is no such folder."""
    if place.is_dir():
        yield from sorted(each for each in place.iterdir() if is_run(each))


def is_run(folder: Path) -> bool:
    """Whether it is a run folder, sound or not."""
    return (folder / RUN_DB).is_file()


def touched(folder: Path) -> float:
    """When a run was last written to; seconds since 1970."""
    files = (folder / RUN_DB, folder / f"{RUN_DB}-wal")
    return max(file.stat().st_mtime for file in files if file.exists())


def newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=touched, reverse=True)


def beside(folder: Path) -> list[Path]:
    """The other run folders beside one in `runs/`, the newest first; none for one elsewhere."""
    if folder.parent.resolve() != RUNS.resolve():
        return []
    return newest_first(each for each in run_folders(folder.parent) if each.name != folder.name)


def take_lock(folder: Path) -> int:
    """Lock a run folder for this process, until `let_go`.

    FolderBusy names the process that has it; OSError if the file cannot be made.
    """
    path = folder / LOCK_FILE
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _locked(lock, fcntl.LOCK_EX):
                if not _locked(lock, fcntl.LOCK_SH):
                    raise FolderBusy(
                        f"another process ({_owner(lock)}) is running {folder}. "
                        f"Watch it: oversight status {folder}"
                    )
                # Another process only checks for a holder, and is about to let go. To wait in line
                # for it, or with its lock kept, would be to wait for others who wait, too.
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.001)
            elif is_open_as(path, lock):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"pid {os.getpid()}, since {time.strftime('%H:%M')}".encode(), 0)
                return lock
        except BaseException:
            os.close(lock)
            raise
        # Or whoever had it has let go meanwhile, and taken the file away.
        os.close(lock)


def let_go(folder: Path, lock: int) -> None:
    """Unlock a folder, and leave no file of it behind."""
    path = folder / LOCK_FILE
    with suppress(OSError):
        # A folder that was moved away meanwhile may have left its name to another run.
        if is_open_as(path, lock):
            path.unlink()
    os.close(lock)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and let it go at the end."""
    lock = take_lock(folder)
    try:
        yield
    finally:
        let_go(folder, lock)


def holder(folder: Path) -> str | None:
    """The process that is running the folder, as `pid 4121, since 14:02`; None if there is none.
    RunFolderError for a lock that is no file."""
    try:
        with open_plain(folder / LOCK_FILE) as file:
            return None if _locked(file.fileno(), fcntl.LOCK_SH) else _owner(file.fileno())
    except FileNotFoundError:
        return None


def _locked(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(lock: int) -> str:
    return os.pread(lock, 100, 0).decode(errors="replace") or "pid unknown"


class _Note(msgspec.Struct, frozen=True):
    store: str
    """Where the replies of the run are kept."""
    digest: str = ""
    """Of its database; empty while the run is under way, or if others have changed it."""


def note_run(folder: Path, id: str, store: str, *, left: bool = False) -> None:
    """Note the store of a run, by its id. left: whether its database is as this machine has
    written it. Where nothing can be noted, nothing is taken over from the run unasked."""
    with suppress(OSError, RunFolderError):
        file = _file(folder, id)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = _Note(store, _digest(folder) if left else "")
        replace_file(file, [msgspec.json.encode(told)], durable=False)


def is_as_left(folder: Path) -> bool:
    """Whether the database of a run is as this machine left it."""
    known = _noted(folder).digest
    return bool(known) and known == _digest(folder)


@contextmanager
def kept_as_left(folder: Path) -> Iterator[None]:
    """Change a run: where it is as this machine left it, it is so with the change too."""
    left = is_as_left(folder)
    yield
    if left:
        note_run(folder, read_manifest(folder).id, store_noted(folder), left=True)


def store_noted(folder: Path) -> str:
    """The store in which this machine keeps the replies of a run; empty if it made no such run."""
    return _noted(folder).store


def _noted(folder: Path) -> _Note:
    try:
        file = _file(folder, read_manifest(folder).id)
        return msgspec.json.decode(read_bounded(file, MAX_NOTE), type=_Note)
    except (OSError, RunFolderError, msgspec.DecodeError):
        return _Note("")


def _file(folder: Path, id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{16}", id):
        raise RunFolderError(f"{folder}: {id!r} is no id of a run")
    return platformdirs.user_data_path("oversight") / "runs" / id


def _digest(folder: Path) -> str:
    with open_plain(folder / RUN_DB) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
