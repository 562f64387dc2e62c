"""Writing files so that a crash leaves the old one or the new one, and nothing between."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ...cache.errors import NO_ROOM
from ..errors import DiskFull, RunFolderError


def replace_file(path: Path, parts: Iterable[bytes], *, durable: bool = True) -> None:
    """Put new content in place of `path`, whole, or leave what is there. RunFolderError.

    durable: whether a power failure, and not only a killed process, may not undo it; that takes
    some milliseconds.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.writelines(parts)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        new.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException as exc:
        # A full disk is not to be filled further by what did not fit.
        with suppress(OSError):
            new.unlink()
        if isinstance(exc, OSError):
            raise unwritable(path, exc) from exc
        raise


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that is appended to, none where it is not there; without the last one if
    it was torn off."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        yield from (line for line in file if line.endswith(b"\n"))


def append_line(path: Path, line: bytes, *, durable: bool = True) -> None:
    """Add a line whole, or leave the file as it was. RunFolderError.

    durable: as for `replace_file`.
    """
    new = not path.exists()
    try:
        with path.open("ab", buffering=0) as file:
            whole = file.tell()
            try:
                if file.write(line + b"\n") != len(line) + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if durable:
                    os.fsync(file.fileno())
            except OSError:
                # The next line would go on with what a full disk took of this one.
                file.truncate(whole)
                raise
        if new and durable:
            sync_folder(path.parent)
    except OSError as exc:
        raise unwritable(path, exc) from exc


def refuse_links(folder: Path) -> None:
    """RunFolderError if a folder is a symbolic link, or holds one: what is read or written there
    may lie anywhere. A folder that is not there is fine. OSError."""
    linked = folder if folder.is_symlink() else None
    if linked is None and folder.is_dir():
        with os.scandir(folder) as entries:
            linked = next((Path(each.path) for each in entries if each.is_symlink()), None)
    if linked is not None:
        raise RunFolderError(
            f"{linked} is a symbolic link to {os.readlink(linked)}: nothing is read or written "
            "through links in a run folder; put the files themselves there"
        )


def unwritable(path: Path, exc: OSError) -> RunFolderError:
    """What the system says of a file or a folder that it does not let us write."""
    full = exc.errno in NO_ROOM
    return (DiskFull if full else RunFolderError)(f"{path} cannot be written: {exc.strerror}")


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
