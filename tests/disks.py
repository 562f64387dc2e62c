"""Disks that are full and folders that cannot be written: real ones, where any can be mounted."""

import ctypes
import os
import resource
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def _mount(*words: str | Path) -> bool:
    return subprocess.run(["mount", *words], stderr=subprocess.DEVNULL).returncode == 0


def _unmount(folder: str | Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=True)


def _mounts() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0 or not _mount("-t", "tmpfs", "tmpfs", folder):
            return False
        _unmount(folder)
        return True


MOUNTS = _mounts()
"""Whether this process may mount file systems. If not, the limits of processes and the
permissions of files stand in for them."""


class Disk:
    """A small file system, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave(self, room: int) -> None:
        """Shrink it to this many free bytes, within 4,096."""
        status = os.statvfs(self.folder)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        self._resize(used + room)

    def fill(self) -> None:
        """Leave no room at all, whoever writes meanwhile."""
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (2**16, 2**12, 1):
                with suppress(OSError):
                    while True:
                        ballast.write(bytes(size))

    def make_room(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)
        self._resize(LARGE)

    def _resize(self, size: int) -> None:
        # A size of 0 means no limit.
        assert _mount("-o", f"remount,size={max(size, 4096)}", self.folder)


class Limit(Disk):
    """Stands in for a disk: limits the size of all files."""

    def leave(self, room: int) -> None:
        self._resize(room)

    def _resize(self, size: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size == LARGE else size, hard))


LARGE = 2**26


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """A new folder on a separate disk, large at first."""
    folder.mkdir()
    if MOUNTS:
        assert _mount("-t", "tmpfs", "-o", f"size={LARGE}", "tmpfs", folder)
        try:
            yield Disk(folder)
        finally:
            _unmount(folder)
        return
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = Limit(folder)
    try:
        yield limit
    finally:
        limit.make_room()
        signal.signal(signal.SIGXFSZ, ignored)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing below the folder can be written while the body runs."""
    if MOUNTS:
        assert _mount("--bind", folder, folder)
        try:
            assert _mount("-o", "remount,ro,bind", folder)
            yield
        finally:
            _unmount(folder)
        return
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    powers = _without_override()
    try:
        yield
    finally:
        _capset(powers)
        for path, mode in modes.items():
            path.chmod(mode)


HEADER = struct.pack("=Ii", 0x20080522, 0)
"""Version 3 of the interface to capabilities, and this thread."""

OVERRIDE = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, for which permissions do not bind root."""


def _without_override() -> bytes:
    """Make permissions bind this thread, even as root; returns its former abilities."""
    before = ctypes.create_string_buffer(24)
    assert ctypes.CDLL(None).capget(HEADER, before) == 0
    effective = int.from_bytes(before.raw[:4], "little") & ~OVERRIDE
    _capset(effective.to_bytes(4, "little") + before.raw[4:])
    return before.raw


def _capset(powers: bytes) -> None:
    assert ctypes.CDLL(None).capset(HEADER, powers) == 0
