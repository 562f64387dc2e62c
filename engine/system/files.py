"""Crash-safe writing of files, safe opening of foreign ones, folder locks, and network disks.

`derived` values in the user's cache folder can be computed again at any time. Each has a stamp of
everything that it was computed from, and counts only under an equal stamp."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BufferedReader
from pathlib import Path

import platformdirs

from ...cache.errors import NO_ROOM
from ..errors import DiskFull, FolderBusy, RunFolderError


def replace_file(
    path: Path, parts: Iterable[bytes], *, durable: bool = True, mode: int = 0o666
) -> None:
    """Replace the content of `path` completely, or leave it unchanged. RunFolderError. durable:
    survive a power failure, not only a killed process; takes some milliseconds. mode: permissions
    of the new file, minus the process's umask."""
    if not path.name:
        raise unwritable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    new = path.with_name(f".{path.name}.new")
    try:
        # A killed process may have left it; a stranger may have put a link or a pipe there.
        new.unlink(missing_ok=True)
        with open(new, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            file.writelines(parts)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        new.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException as exc:
        # Do not leave partial content on a full disk.
        with suppress(OSError):
            new.unlink()
        if isinstance(exc, OSError):
            raise unwritable(path, exc) from exc
        raise


MAX_LEDGER = 2**28

MAX_LINE = 2**26
"""Maximum bytes per line, in files that are read line by line."""


def open_plain(path: Path) -> BufferedReader:
    """Open a file of unknown origin for reading, without following links or waiting for pipes and
    devices. FileNotFoundError, or RunFolderError if it is not a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise RunFolderError(
                f"{path} is a link, and links in a run folder are not followed: replace it with "
                "the file"
            ) from None
        raise RunFolderError(f"{path} cannot be read: {exc.strerror}") from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunFolderError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def is_open_as(path: Path, descriptor: int) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


MAX_WHOLE = 2**30
"""Default maximum bytes of a file that is read completely."""


def read_bounded(path: Path, limit: int = MAX_WHOLE) -> bytes:
    """The content of a file, opened by `open_plain`. RunFolderError for more than `limit` bytes."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise RunFolderError(f"{path} exceeds {limit:,} bytes, the maximum for its kind")
        # Without a size: Python would allocate the given maximum first.
        return file.read()


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that is appended to, without a torn last one; none if it is missing.
    RunFolderError for a line above `MAX_LINE` bytes, or if it is not a regular file."""
    try:
        file = open_plain(path)
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(MAX_LINE):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == MAX_LINE:
                raise RunFolderError(f"{path} has a line of more than {MAX_LINE:,} bytes")


def refuse_links(folder: Path) -> None:
    """RunFolderError if a folder is a symbolic link or contains one, since its target may lie
    anywhere. A missing folder is fine. OSError."""
    linked = folder if folder.is_symlink() else None
    if linked is None and folder.is_dir():
        with os.scandir(folder) as entries:
            linked = next((Path(entry.path) for entry in entries if entry.is_symlink()), None)
    if linked is not None:
        raise RunFolderError(
            f"{linked} is a symbolic link to {os.readlink(linked)}: links in a "
            "run folder are not followed: replace it with the files"
        )


def refuse_links_within(run: Path) -> None:
    """RunFolderError if a run folder or a folder in it contains a symbolic link. OSError."""
    if run.is_dir():
        with os.scandir(run) as entries:
            for entry in entries:
                if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                    refuse_links(Path(entry.path))


LOCK_FILE = "lock"


def take_lock(folder: Path) -> int:
    """Lock a run folder for this process, until `let_go`. FolderBusy names the process that holds
    it; OSError if the file cannot be created."""
    path = folder / LOCK_FILE
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.open(path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise RunFolderError(f"{path} is not a regular file")
        try:
            if not _locked(lock, fcntl.LOCK_EX):
                if not _locked(lock, fcntl.LOCK_SH):
                    raise FolderBusy(
                        f"another process ({_owner(lock)}) is running {folder}. "
                        f"Watch it: oversight status {folder}"
                    )
                # Another process only checks for a holder, and is about to unlock. Waiting in line,
                # or keeping its lock, would make others wait too.
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.001)
            elif is_open_as(path, lock):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"pid {os.getpid()}, since {time.strftime('%H:%M')}".encode(), 0)
                return lock
        except BaseException:
            os.close(lock)
            raise
        # Or the holder has unlocked meanwhile and removed the file.
        os.close(lock)


def let_go(folder: Path, lock: int) -> None:
    path = folder / LOCK_FILE
    with suppress(OSError):
        # A folder that was moved meanwhile may have left its name to another run.
        if is_open_as(path, lock):
            path.unlink()
    os.close(lock)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    lock = take_lock(folder)
    try:
        yield
    finally:
        let_go(folder, lock)


def holder(folder: Path) -> str | None:
    """The process that is running the folder, as `pid 4121, since 14:02`; None without one.
    RunFolderError if the lock is not a file."""
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


def unwritable(path: Path, exc: OSError) -> RunFolderError:
    """The error for a file or folder that cannot be written."""
    full = exc.errno in NO_ROOM
    if path.is_file() and isinstance(exc, (FileExistsError, NotADirectoryError)):
        return RunFolderError(f"{path} is a file, but a folder is needed: choose another name")
    return (DiskFull if full else RunFolderError)(
        f"{path} cannot be written: {exc.strerror or exc}"
    )


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


NETWORKS = frozenset(
    ("nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "sshfs", "9p", "afs", "gpfs", "beegfs")
)
"""Types of file systems, by the kernel's names, on which files cannot be shared as memory."""


def is_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a path lies on a network file system, as far as the system says. mounts: the kernel's
    table of mounts; False if it is missing, as on macOS."""
    place = os.path.realpath(path)
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    mount_point, kind = "", ""
    for line in lines:
        _, at, type, *_ = line.split(" ")
        at = at.replace("\\040", " ")
        inside = place == at or place.startswith(at.rstrip("/") + "/")
        # The last of two mounts at one place is the visible one.
        if inside and len(at) >= len(mount_point):
            mount_point, kind = at, type
    return kind.removeprefix("fuse.") in NETWORKS


MAX_BYTES = 2**24
"""Size limit of one value."""
MAX_FILES = 200
"""Maximum number of values; the oldest go first."""


def derived(name: str, stamp: str) -> bytes | None:
    """Return the value kept under a name; None if missing, damaged or under another stamp."""
    with suppress(OSError, RunFolderError):
        head, _, value = read_bounded(_file(name), MAX_BYTES).partition(b"\n")
        if head == _digest(stamp, value):
            return value
    return None


def keep_derived(name: str, stamp: str, value: bytes) -> None:
    """Keep a value under a name."""
    with suppress(OSError, RunFolderError):
        file = _file(name)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, [_digest(stamp, value), b"\n", value], durable=False, mode=0o600)
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


def _digest(stamp: str, value: bytes) -> bytes:
    return sha256(stamp.encode() + b"\0" + value).hexdigest().encode()


def _file(name: str) -> Path:
    return platformdirs.user_cache_path("oversight-derived") / sha256(name.encode()).hexdigest()
