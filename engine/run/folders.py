"""Run folders on the disk: where they are, and the lock that the process holds which runs one.

The lock is released however the process ends.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FolderBusy
from ..system.files import open_plain
from .record.schema import RUN_DB

LOCK_FILE = "lock"

RUNS = Path("runs")
"""Where run folders are made, in the working folder."""


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
    others = [each for each in run_folders(folder.parent) if each.name != folder.name]
    return newest_first(others)


def take_lock(folder: Path) -> int:
    """Lock a run folder for this process, until the returned descriptor is closed.

    FolderBusy names the process that has it; OSError if the file cannot be made.
    """
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _locked(lock, fcntl.LOCK_EX):
            if not _locked(lock, fcntl.LOCK_SH):
                raise FolderBusy(
                    f"another process ({_owner(lock)}) is running {folder}. "
                    f"Watch it: oversight status {folder}"
                )
            # Another process only checks for a holder, and is about to let go.
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"pid {os.getpid()}, since {time.strftime('%H:%M')}".encode(), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and let it go at the end."""
    lock = take_lock(folder)
    try:
        yield
    finally:
        os.close(lock)


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
