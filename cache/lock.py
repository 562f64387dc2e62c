"""The lock of a store's folder: writers share it, and who moves the store has it alone.

It is the system's (flock), so it ends with its process, however that ends. It is on the folder
itself: a file of its own would be one more thing to lose, and SQLite's locks on its file end when
anybody in the process closes that file.
"""

import errno
import fcntl
import os
from pathlib import Path

from oversight.cache.errors import StoreError

_TRIES = 100
"""How often a folder that is replaced while it is being locked is locked once more."""


def share_lock(folder: Path) -> int:
    """Keep the store where it is until what is returned is closed. StoreError, OSError."""
    return _lock(folder, fcntl.LOCK_SH, "another process is salvaging it; wait for its end")


def own(folder: Path) -> int:
    """Keep everybody else from writing until what is returned is closed. StoreError, OSError."""
    return _lock(
        folder, fcntl.LOCK_EX, "a run, or another command, is using it; stop that, then try again"
    )


def _lock(folder: Path, kind: int, refusal: str) -> int:
    for _ in range(_TRIES):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), os.stat(folder)):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"{folder}: {refusal}") from None
        except FileNotFoundError:
            # Moved away between the two; whoever needs it will make a new one.
            os.close(lock)
            raise
        except OSError as exc:
            if exc.errno in (errno.EBADF, errno.ENOTSUP, errno.ENOLCK) and kind == fcntl.LOCK_SH:
                # A file system without locks on folders: runs go on there, nothing is salvaged.
                return lock
            os.close(lock)
            raise
        os.close(lock)
    raise StoreError(f"{folder} is replaced again and again by another process")
