"""A copy of a store at one moment, while runs go on writing to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from .errors import StoreError
from .rows import FAULTS, STORE_FILE, connect_safely, fault

_UNFINISHED = f".{STORE_FILE}.unfinished"


def back_up(store: Path, to: Path) -> int:
    """Copy a store into a new folder, as it is at one moment; how many replies the copy holds.

    SQLite's own backup in one step: it holds a snapshot, which keeps no writer waiting. The copy
    appears under its name once it is complete, checked and on the disk. StoreError: there is no
    store, the folder has one already, or the disk fails.
    """
    file, copy = store / STORE_FILE, to / STORE_FILE
    if not file.is_file():
        raise StoreError(f"{store} holds no store: there is no {STORE_FILE} in it")
    if copy.exists():
        raise StoreError(f"{to} holds a store already; name a folder that has none")
    unfinished = to / _UNFINISHED
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with (
            closing(connect_safely(file.absolute(), "mode=ro")) as source,
            closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
            ((sound,),) = target.execute("PRAGMA quick_check(1)").fetchall()
            if sound != "ok":
                raise StoreError(f"{file} is malformed: {sound}; nothing was backed up")
            ((count,),) = target.execute("SELECT COUNT(*) FROM Cache WHERE raw = 1").fetchall()
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(unfinished, copy)
    except FAULTS as exc:
        raise fault(exc, file) from exc
    except OSError as exc:
        raise StoreError(f"{to} cannot take a backup: {exc}") from exc
    finally:
        unfinished.unlink(missing_ok=True)
    return int(count)
