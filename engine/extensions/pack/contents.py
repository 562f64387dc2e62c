"""What a pack holds: its table of contents, and what may stand in it.

A pack is a tar file, compressed with Zstandard. Its first member, `pack.json`, lists every other
one with its size and digest. The same run gives the same bytes.
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from ...errors import UsageError
from ...run.reader import REPLIES
from ...run.run_folder import OUTCOMES, SWEEP

SUFFIX = ".oversight"
CONTENTS = "pack.json"
FORMAT = 1

MANIFEST, GRID, PROBLEMS = "manifest.json", "grid.json", "problems.jsonl"
"""What the run is, its sweep as data, and the problems of it."""
SAID, TOOK = "said.jsonl", "took.jsonl"
"""Its cells as lines: what was said, and what it took."""
FIGURES = "figures.json"
"""Every figure, as it follows from the others."""
CODE = "code"
"""The folder of the user's own files."""

MAX_CONTENTS = 2**24
"""Bytes of the table of contents at most."""
MAX_BYTES = 2**34
"""Bytes that a pack may unpack to unless more are asked for."""
MAX_RATIO = 1_000
"""How many times its own size a pack may unpack to, beyond `FREE` bytes."""
FREE = 2**26

NEEDED = {SWEEP, GRID, PROBLEMS, MANIFEST, OUTCOMES, SAID, TOOK}
_NAMES = NEEDED | {REPLIES, FIGURES}
_CODE = re.compile(rf"{CODE}(?:/[A-Za-z0-9_][A-Za-z0-9_. -]{{0,100}}){{1,8}}\.py")


class PackError(UsageError):
    """A pack that is not opened; nothing of it is left on the disk."""


class PackedFile(msgspec.Struct, frozen=True):
    path: str
    size: int
    sha256: str


class Contents(msgspec.Struct, frozen=True):
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


def read_contents(raw: bytes) -> Contents:
    """PackError if it is no table of contents, or of a newer format."""
    try:
        contents = msgspec.json.decode(raw, type=Contents)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise PackError(f"its table of contents cannot be read: {exc}") from exc
    if contents.format != FORMAT:
        raise PackError(
            f"it is of format {contents.format}, and this program opens {FORMAT}: upgrade "
            "oversight-bench"
        )
    return contents


def check_claims(contents: Contents, packed: int, most: int) -> None:
    """PackError, naming the file, for what may not stand in a pack or is too large.

    packed: bytes of the pack. most: bytes that it may unpack to.
    """
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
    if contents.bytes > most:
        raise PackError(
            f"it would unpack to {contents.bytes:,} bytes, and {most:,} are allowed; if you trust "
            "it: --max-bytes"
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


def shown(contents: Contents) -> Iterable[str]:
    """What a pack holds, a line each, for whoever makes or opens it."""
    for file in contents.files:
        yield f"{file.size:>14,}  {file.sha256[:12]}  {file.path}"
    if contents.passages == "digests":
        yield "source texts: digests alone, for their licence is not known to allow more"
    for name in contents.missing_code:
        yield f"not in it: {name}, which the sweep names"
