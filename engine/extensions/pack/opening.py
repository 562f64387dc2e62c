"""What a pack holds, and opening one: it becomes a run folder, or nothing does.

A pack is a tar file, compressed with Zstandard. Its first member, `pack.json`, lists every other
one with its size and digest. The same run gives the same bytes.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path, PurePosixPath
from tarfile import BLOCKSIZE, RECORDSIZE
from typing import IO, Literal
from uuid import uuid4

import msgspec
import zstandard
from msgspec.structs import replace

from ....protocols.datasets.jsonl import problems as read_problems
from ....protocols.errors import ProtocolError
from ...errors import EngineError, RunFolderError, UsageError
from ...run.events import EVENTS
from ...run.manifest import decoded, encoded
from ...run.outcome import Outcomes
from ...run.reader import REPLIES
from ...run.record.database import RunDatabase
from ...run.record.schema import RunDamaged
from ...run.record.values import RecordedCell
from ...run.run_folder import OUTCOMES, SWEEP
from ...sweep.grid import MAX_CELLS, Grid, read_grid, stored_grid
from ...system.files import open_plain, read_bounded, replace_file, whole_lines
from .lines import read_cells

SUFFIX = ".oversight"
CONTENTS = "pack.json"
FORMAT = 3

MANIFEST, GRID, PROBLEMS = "manifest.json", "grid.json", "problems.jsonl"
"""What the run is, its sweep as data, and the problems of it."""
CELLS = "cells.jsonl"
"""Its cells as lines: what was said and believed, and what it took."""
FIGURES = "figures.json"
"""Every figure, as it follows from the others."""
CODE = "code"
"""The folder of the user's own files."""

MAX_CONTENTS = 2**24
"""Bytes of the table of contents at most."""
MAX_BYTES = 2**34
"""Bytes that a pack may unpack to."""
MAX_RATIO = 1_000
"""How many times its own size a pack may unpack to, beyond `FREE` bytes."""
FREE = 2**26

NEEDED = {SWEEP, GRID, PROBLEMS, MANIFEST, CELLS}
_NAMES = NEEDED | {REPLIES, FIGURES, EVENTS}
_CODE = re.compile(rf"{CODE}(?:/[A-Za-z0-9_][A-Za-z0-9_. -]{{0,100}}){{1,8}}\.py")

COPIED = 2**20
"""Bytes that are held at a time."""
MAX_HEAD = 18
"""Bytes of the head of a Zstandard frame at most."""
MAX_WINDOW = 2**27
"""Bytes of memory that unpacking may take."""
AT_ONCE = 256
"""Cells that are recorded at a time."""
LINES = (MANIFEST, GRID, PROBLEMS, CELLS, FIGURES)
"""What the database of the run has, or makes, again."""


class PackError(UsageError):
    """A pack that is not opened; nothing of it is left on the disk."""


class PackedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    size: int
    sha256: str


class Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table of contents of a pack."""

    format: int
    name: str
    """The sweep's."""
    identity: str
    version: str
    """Version of oversight-bench that made the run."""
    cells: int
    problems: int
    passages: Literal["none", "included", "digests"]
    """Whether source texts went in, or digests of them alone."""
    missing_code: tuple[str, ...]
    """Files and modules of the user's that the sweep names and the pack does not hold."""
    files: tuple[PackedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def check_claims(contents: Contents, packed: int) -> None:
    """PackError, naming the file, for what may not stand in a pack of so many bytes, or is too
    large."""
    seen = set[str]()
    for file in contents.files:
        if not may_hold(file.path):
            raise PackError(f"it holds {file.path!r}, which has no place in a pack")
        if file.path in seen:
            raise PackError(f"it holds {file.path!r} twice")
        if file.size < 0:
            raise PackError(f"it says that {file.path!r} has {file.size} bytes")
        seen.add(file.path)
    if lacking := sorted(NEEDED - seen):
        raise PackError(f"it lacks {lacking[0]}")
    if contents.bytes > MAX_BYTES:
        raise PackError(
            f"it would unpack to {contents.bytes:,} bytes, and {MAX_BYTES:,} are allowed"
        )
    if contents.bytes > max(FREE, MAX_RATIO * packed):
        raise PackError(
            f"it would unpack to {contents.bytes:,} bytes, {contents.bytes // packed:,} times its "
            "own size: no run is so uniform"
        )


def may_hold(path: str) -> bool:
    """Whether a file may stand at this path of a pack."""
    parts = PurePosixPath(path).parts
    plain = all(part.strip(". ") for part in parts)
    return path in _NAMES or (plain and bool(_CODE.fullmatch(path)))


def open_pack(file: Path, to: Path, *, keep_lines: bool = False) -> Contents:
    """Make a run folder of a pack. Nothing in it is executed, and no link in it is followed.

    keep_lines: whether the lines of which it is made, and its figures, are left beside it.
    PackError, with the file and the reason, for a pack that is damaged, hostile or of another
    version; nothing of it is left then.
    """
    if to.exists():
        raise PackError(f"{to} is there already: name another folder with -o")
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        with open_plain(file) as packed:
            contents = _unpack(packed, file.stat().st_size, unfinished)
        make_run(unfinished, contents)
        for name in () if keep_lines else LINES:
            (unfinished / name).unlink(missing_ok=True)
        unfinished.rename(to)
    except PackError as exc:
        raise PackError(f"{file}: {exc}") from exc
    except FileNotFoundError as exc:
        raise PackError(f"{file}: no such pack") from exc
    except (zstandard.ZstdError, tarfile.TarError, EOFError) as exc:
        raise PackError(f"{file}: it is no pack, or is damaged: {exc}") from exc
    except RunDamaged as exc:
        raise PackError(f"{file}: {CELLS} {exc.why}") from exc
    except (EngineError, ProtocolError) as exc:
        raise PackError(f"{file}: {str(exc).replace(str(unfinished), 'pack')}") from exc
    except (ValueError, OverflowError, sqlite3.Error) as exc:
        raise PackError(f"{file}: a line of it cannot be kept: {exc}") from exc
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return contents


def _unpack(packed: IO[bytes], size: int, to: Path) -> Contents:
    """Write the members of a pack. PackError if it holds a byte that belongs to none of them."""
    if (end := _frame_end(packed)) < size:
        raise PackError(f"it holds more than the pack: {size - end:,} bytes stand behind it")
    packed.seek(0)
    stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(packed)
    contents = _contents(stream)
    check_claims(contents, size)
    listed = {each.path: each for each in contents.files}
    while member := _next(stream):
        claimed = listed.pop(member.name, None)
        if claimed is None:
            raise PackError(f"it holds {member.name!r}, which its table of contents does not")
        if member.size != claimed.size:
            raise PackError(
                f"{member.name!r} has {member.size:,} bytes, and {claimed.size:,} are listed"
            )
        _copy(stream, to / member.name, claimed)
    if listed:
        raise PackError(f"it lacks {min(listed)}, which its table of contents lists")
    # A tar file ends with empty blocks: two, and as many as fill its last record.
    if len(rest := stream.read(2 * RECORDSIZE)) > RECORDSIZE + BLOCKSIZE or rest.strip(b"\0"):
        raise PackError("it holds more than the pack: bytes stand behind its last member")
    return contents


def _frame_end(packed: IO[bytes]) -> int:
    """Where the one Zstandard frame at the start of a file ends. zstandard.ZstdError."""
    head = packed.read(MAX_HEAD)
    if not head.startswith(zstandard.FRAME_HEADER):
        raise zstandard.ZstdError("it does not begin like a pack")
    at, last = zstandard.frame_header_size(head), False
    while not last:
        packed.seek(at)
        if len(header := packed.read(3)) < 3:
            break  # it was cut short
        block = int.from_bytes(header, "little")
        last, repeats = bool(block & 1), block >> 1 & 3 == 1
        at += 3 + (1 if repeats else block >> 3)
    return at + 4 * zstandard.get_frame_parameters(head).has_checksum


def _next(stream: IO[bytes]) -> tarfile.TarInfo | None:
    """The next member; None at the end. PackError if its head has more than its name and size."""
    head = stream.read(BLOCKSIZE)
    if head == bytes(BLOCKSIZE):
        return None
    member = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    if not member.isreg():
        raise PackError(f"{member.name!r} is no regular file but a link or a device")
    if head != plain_member(member.name, member.size).tobuf(tarfile.USTAR_FORMAT):
        raise PackError(f"it holds more than the pack: in the head of {member.name!r}")
    return member


def plain_member(path: str, size: int) -> tarfile.TarInfo:
    """The head of a file without anything of a machine: neither times nor owners."""
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = size, 0o644, 0
    return member


def _contents(stream: IO[bytes]) -> Contents:
    """PackError if it is no table of contents, or of another format."""
    member = _next(stream)
    if member is None or member.name != CONTENTS:
        raise PackError(f"it does not begin with {CONTENTS}")
    if member.size > MAX_CONTENTS:
        raise PackError(f"its table of contents has {member.size:,} bytes, which none has")
    try:
        contents = msgspec.json.decode(b"".join(_parts(stream, member.size)), type=Contents)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise PackError(f"its table of contents cannot be read: {exc}") from exc
    if contents.format != FORMAT:
        raise PackError(
            f"it is of format {contents.format}, and this program opens {FORMAT}: upgrade "
            "oversight-bench, or have it packed again"
        )
    return contents


def _parts(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """The content of a member, in parts. PackError for bytes in the space up to the next one."""
    for start in range(0, size, COPIED):
        part = stream.read(wanted := min(COPIED, size - start))
        if len(part) < wanted:
            raise EOFError("it was cut short")
        yield part
    if stream.read(-size % BLOCKSIZE).strip(b"\0"):
        raise PackError("it holds more than the pack: bytes stand between its members")


def _copy(stream: IO[bytes], to: Path, claimed: PackedFile) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with to.open("xb") as out:
        for part in _parts(stream, claimed.size):
            digest.update(part)
            out.write(part)
    if digest.hexdigest() != claimed.sha256:
        raise PackError(f"{claimed.path!r} is not what its table of contents lists: {to.name}")


def make_run(folder: Path, contents: Contents) -> None:
    """Make the database of the run, and its outcomes, from what was unpacked."""
    problems = tuple(read_problems(PROBLEMS, read_bounded(folder / PROBLEMS, MAX_BYTES)))
    grid = read_grid(read_bounded(folder / GRID, MAX_BYTES), problems)
    manifest = decoded(read_bounded(folder / MANIFEST, MAX_BYTES), folder / MANIFEST)
    counts = {grid.size, manifest.cells, contents.cells}
    if len(counts) > 1 or not 0 < grid.size <= MAX_CELLS or len(problems) != contents.problems:
        raise PackError(f"it lists {contents.cells:,} cells of {contents.problems:,} problems")
    manifest = replace(manifest, id=uuid4().hex[:16])
    with closing(RunDatabase(folder)) as database:
        meta = {"manifest": encoded(manifest), "grid": stored_grid(grid)}
        database.begin(problems, grid.rows, meta)
        database.problems = problems
        cells = _fitting(grid, read_cells(whole_lines(folder / CELLS), problems))
        try:
            while some := list(islice(cells, AT_ONCE)):
                database.write(some)
        except (ValueError, OverflowError) as exc:
            raise RunFolderError(f"{CELLS}: a line of it cannot be kept: {exc}") from exc
        database.settle()
        replace_file(folder / OUTCOMES, (each.line for each in Outcomes(database).all()))


def _fitting(grid: Grid, cells: Iterator[RecordedCell]) -> Iterator[RecordedCell]:
    """The cells, each of which is where it says in the grid. RunFolderError."""
    seen = -1
    for cell in cells:
        if not seen < cell.place < len(grid):
            raise RunFolderError(f"{CELLS}: cell {cell.id} is out of place, at {cell.place}")
        seen = cell.place
        first = grid.span(grid.problem_at(seen)).start
        before, side = divmod(seen - first, len(grid.problems[grid.problem_at(seen)].values))
        draw, row = divmod(before, len(grid.rows))
        if (row, grid.problem_at(seen), draw, side) != (
            *(cell.row, cell.problem, cell.draw, cell.side),
        ):
            raise RunFolderError(f"{CELLS}: cell {cell.id} is not that of place {cell.place}")
        yield cell
