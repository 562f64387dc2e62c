"""The lock of a store's folder: shared by writers, exclusive for a process that moves the store.

It is the system's (flock), so it ends with its process, however that ends. It is on the folder
itself: a file of its own would be one more thing to lose, and SQLite's locks on its file end when
any part of the process closes that file.
"""

import errno
import fcntl
import os
from pathlib import Path

from .errors import StoreError

_MAX_TRIES = 100
"""Attempts to lock a folder that other processes keep replacing."""


def share_lock(folder: Path) -> int:
    """Keep the store in its place until the returned descriptor is closed. StoreError, OSError."""
    return _lock(folder, fcntl.LOCK_SH, "another process is salvaging it; wait for its end")


def exclusive_lock(folder: Path) -> int:
    """Keep all others from writing until the returned descriptor is closed.

    Raises: StoreError, OSError.
    """
    return _lock(
        folder, fcntl.LOCK_EX, "a run, or another command, is using it; stop that, then try again"
    )


def _lock(folder: Path, kind: int, refusal: str) -> int:
    for _ in range(_MAX_TRIES):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), os.stat(folder)):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"{folder}: {refusal}") from None
        except OSError as exc:
            if exc.errno in (errno.EBADF, errno.ENOTSUP, errno.ENOLCK) and kind == fcntl.LOCK_SH:
                # A file system without locks on folders: runs go on there, nothing is recovered.
                return lock
            os.close(lock)
            raise
        os.close(lock)
    raise StoreError(f"{folder} is replaced again and again by another process")
