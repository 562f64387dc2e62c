"""Portable files: replies, or a run with its replies, in one checked zip file.

    manifest.json           first: the format, the kind, counts, and size and sha256 of each member
    replies/000001.jsonl    one reply per line, in key order: key, identity, call, reply, at
    run/                    the files of a run, in a file of kind `run`

Any zip program opens it. Order, time and mode of members are fixed, so that equal content gives
equal bytes. Headers are read and written here, since Python's `zipfile` accepts bytes between
members and two differing headers of a member.
"""

import errno
import hashlib
import os
import re
import stat
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from .call import Call, store_key
from .entry import LEAST_SHARED, MAX_TIME, PLAIN, StoreEntry, read_call, read_entry
from .errors import NO_ROOM, DamagedEntry, PackError, StoreFull
from .reply import Outcome
from .store import Reader, Store

SUFFIX = ".oversight"
FORMAT = 4
MANIFEST = "manifest.json"
PortableKind: TypeAlias = Literal["run", "replies", "store"]

MAX_MEMBER = 2**26
"""Maximum bytes of a member with replies, unless a single reply is larger."""
MAX_MANIFEST = 2**24
MAX_LINE = 2**29
MAX_BYTES = 2**34
"""Maximum unpacked size of all members, in bytes."""
MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size beyond `FREE` bytes; Deflate reaches 1,032."""
FREE = 2**26
CHUNK = 2**20

_LOCAL = struct.Struct("<4s5H3L2H")
"""Member header: signature, version, flags, method, time, date, CRC, packed size, size, length of
the name, length of the extra field."""
_CENTRAL = struct.Struct("<4s6H3L5H2L")
"""Directory entry: signature, version of the writer, the fields of `_LOCAL`, length of the comment,
disk, internal attributes, external attributes, offset of the member."""
_END = struct.Struct("<4s4H2LH")
"""End of the file: signature, disk, disk of the directory, entries there, entries, size and offset
of the directory, length of the comment."""
_STORED, _DEFLATED = 0, 8
_VERSION, _UNIX, _FIRST_OF_1980 = 20, 3 << 8, 33
_MODE = (stat.S_IFREG | 0o644) << 16
_MAX_OFFSET = 2**32 - 1
MEMBER_NAME = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,100}(?:/[A-Za-z0-9_][A-Za-z0-9_. -]{0,100}){0,9}"
)
_REPLIES = re.compile(r"replies/[0-9]{6}\.jsonl")
_KEY = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}")

_BATCH = 512


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bytes: int
    sha256: str


class Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The manifest of a portable file."""

    format: int
    kind: PortableKind
    counts: Mapping[str, int]
    members: Mapping[str, Member]
    """By name, without the manifest."""
    store: str = ""
    """Id of a store, for kind `store`: a new store that is filled from the file takes it."""

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members.values())


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    identity: str
    reply: msgspec.Raw
    at: int
    call: msgspec.Raw = msgspec.Raw(b"")
    """Canonical JSON; empty if the request was left out."""
    model: str = ""
    """Only present if the request was left out."""


class _Ended(msgspec.Struct):
    outcome: Outcome = "ok"


_lines = msgspec.json.Decoder(_Line)
_outcomes = msgspec.json.Decoder(_Ended)


class _MemberData(NamedTuple):
    start: int
    method: int
    crc: int
    packed: int
    size: int


def export_replies(
    store: Reader,
    keys: Iterable[str],
    file: Path,
    kind: PortableKind = "replies",
    damaged: list[DamagedEntry] | None = None,
) -> int:
    """Write the replies under `keys` to `file`, completely or not at all; returns their number.
    damaged: collects damaged replies, which are left out; if None, DamagedEntry is raised. An
    existing file is replaced, and a missing folder is created. PackError for a key without a reply,
    or if the file cannot be written; StoreFull."""
    with _writing(file), TemporaryDirectory(prefix=".export", dir=file.parent) as folder:
        count = stage_replies(store, keys, Path(folder), damaged=damaged)
        counts = {"replies": count, "requests": count}
        write_members(Path(folder), file, kind, counts, store.id if kind == "store" else "")
    return count


def stage_replies(
    store: Reader,
    keys: Iterable[str],
    stage: Path,
    *,
    requests: bool = True,
    damaged: list[DamagedEntry] | None = None,
) -> int:
    """Write replies to a folder, as members of a portable file; returns their number. requests:
    whether to include requests. damaged: as in `export_replies`."""
    count, number, size = 0, 0, MAX_MEMBER
    with ExitStack() as opened:
        for key in sorted(set(keys)):
            try:
                line = _reply_line(store, key, requests)
            except DamagedEntry as damage:
                if damaged is None:
                    raise
                damaged.append(damage)
                continue
            if size + len(line) > MAX_MEMBER:
                opened.close()
                number, size = number + 1, 0
                member = stage / f"replies/{number:06}.jsonl"
                member.parent.mkdir(exist_ok=True)
                out = opened.enter_context(member.open("wb"))
            out.write(line)
            count, size = count + 1, size + len(line)
    return count


def _reply_line(store: Reader, name: str, requests: bool) -> bytes:
    value = store.get(name)
    if value is None:
        raise PackError(f"{name} was not found in the store: nothing was exported")
    entry = read_entry(name, value).plain()
    fields: dict[str, object] = {"key": name, "identity": entry.identity}
    if requests and entry.call_size:
        fields["call"] = msgspec.Raw(entry.call_part)
    else:
        fields["model"] = entry.model
    fields |= {"reply": msgspec.Raw(entry.reply_part), "at": entry.stored_at}
    return msgspec.json.encode(fields) + b"\n"


def write_members(
    stage: Path, file: Path, kind: PortableKind, counts: Mapping[str, int], store: str = ""
) -> Contents:
    """Write all files of `stage` to a portable file, completely or not at all. PackError,
    StoreFull."""
    files = (path for path in stage.rglob("*") if path.is_file())
    names = sorted(path.relative_to(stage).as_posix() for path in files)
    if strange := [name for name in names if not MEMBER_NAME.fullmatch(name)]:
        raise PackError(f"{strange[0]!r} is not allowed in a portable file: rename it")
    members = {name: _listed(stage / name) for name in names}
    contents = Contents(FORMAT, kind, counts, members, store)
    listing = msgspec.json.format(msgspec.json.encode(contents))
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    with _writing(file):
        try:
            with unfinished.open("wb") as out:
                directory = [_write_member(out, file, MANIFEST, [listing])]
                directory += [
                    _write_member(out, file, name, _chunks(stage / name)) for name in names
                ]
                start, entries = out.tell(), b"".join(directory)
                if start + len(entries) > _MAX_OFFSET or len(directory) >= 2**16:
                    raise _too_large(file)
                count = len(directory), len(directory)
                out.write(entries)
                out.write(_END.pack(b"PK\5\6", 0, 0, *count, len(entries), start, 0))
                out.flush()
                os.fsync(out.fileno())
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    return contents


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    """Turn errors of the system into StoreFull or PackError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as exc:
        kind = StoreFull if exc.errno in NO_ROOM else PackError
        raise kind(f"{file} cannot be written: {exc.strerror}") from exc


def _too_large(file: Path) -> PackError:
    return PackError(f"{file} would exceed 4 GiB, the limit of a zip file: export it in parts")


def _write_member(out: BinaryIO, file: Path, name: str, parts: Iterable[bytes]) -> bytes:
    start, crc, size = out.tell(), 0, 0
    encoded, packer = name.encode(), zlib.compressobj(wbits=-zlib.MAX_WBITS)
    out.write(bytes(_LOCAL.size) + encoded)
    for part in parts:
        crc, size = zlib.crc32(part, crc), size + len(part)
        out.write(packer.compress(part))
    out.write(packer.flush())
    end = out.tell()
    if max(end, size) > _MAX_OFFSET:
        raise _too_large(file)
    packed = end - start - _LOCAL.size - len(encoded)
    head = _VERSION, 0, _DEFLATED, 0, _FIRST_OF_1980, crc, packed, size, len(encoded), 0
    out.seek(start)
    out.write(_LOCAL.pack(b"PK\3\4", *head))
    out.seek(end)
    return _CENTRAL.pack(b"PK\1\2", _UNIX | _VERSION, *head, 0, 0, 0, _MODE, start) + encoded


def _listed(file: Path) -> Member:
    with file.open("rb") as content:
        return Member(file.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest())


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            yield chunk


class PortableFile:
    """Reads a portable file; a context manager.

    PackError, with file and reason, for a file that is damaged, hostile or of another format. Its
    content is never executed, and is checked whenever it is read."""

    def __init__(self, file: Path) -> None:
        """Read the whole file once, and check each member against the manifest."""
        self.file = file
        self._members: dict[str, _MemberData] = {}
        try:
            self._descriptor = os.open(
                file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as exc:
            link = "links are not followed" if exc.errno == errno.ELOOP else ""
            raise PackError(f"{file}: {link or f'cannot be read: {exc.strerror}'}") from exc
        try:
            self._read_directory()
            self.contents = self._read_manifest()
            for name in self.contents.members:
                deque(self.parts(name), 0)
        except BaseException as exc:
            self.close()
            if isinstance(exc, OSError):
                raise PackError(f"{file}: cannot be read: {exc.strerror}") from exc
            raise

    def __enter__(self) -> "PortableFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fault(self, why: str) -> PackError:
        return PackError(f"{self.file}: {why}")

    def parts(self, name: str) -> Iterator[bytes]:
        """The content of a member, in parts. PackError at the end if it does not match the
        manifest."""
        listed, digest, size = self.contents.members[name], hashlib.sha256(), 0
        for part in self._unpacked(name):
            digest.update(part)
            size += len(part)
            yield part
        if (size, digest.hexdigest()) != (listed.bytes, listed.sha256):
            raise self.fault(f"{name!r} differs from {MANIFEST}")

    def extract(self, name: str, to: Path) -> None:
        """Write a member to a new file, and create its folder."""
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("xb") as out:
            out.writelines(self.parts(name))

    def replies(self) -> Iterator[tuple[str, StoreEntry | DamagedEntry]]:
        """Each key with its reply, or with the damage of its line."""
        last = ""
        for name in filter(_REPLIES.fullmatch, self.contents.members):
            for number, line in enumerate(self._lines_of(name), 1):
                try:
                    entry = _line_entry(f"{name}: line {number}", line)
                    if entry.key <= last:
                        raise DamagedEntry(entry.key, "its key is out of order")
                    last = entry.key
                    yield last, entry
                except DamagedEntry as damage:
                    yield damage.key, damage

    def _lines_of(self, name: str) -> Iterator[bytes]:
        remainder = b""
        for part in self.parts(name):
            *lines, remainder = (
                (remainder + part).split(b"\n") if b"\n" in part else (remainder + part,)
            )
            yield from lines
            if len(remainder) > MAX_LINE:
                raise self.fault(f"{name!r} has a line of more than {MAX_LINE:,} bytes")
        if remainder:
            raise self.fault(f"{name!r} does not end with a line")

    def _read_directory(self) -> None:
        """Read the directory. PackError for bytes outside of members and directory."""
        size = os.fstat(self._descriptor).st_size
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise self.fault("is not a regular file")
        tail = os.pread(self._descriptor, _END.size, max(size - _END.size, 0))
        if len(tail) < _END.size or not tail.startswith(b"PK\5\6"):
            raise self.fault("is not a portable file, is truncated, or has bytes after its end")
        _, disk, first_disk, count_here, count, length, start, comment = _END.unpack(tail)
        end = start + length + _END.size
        if (disk, first_disk, count_here, end, comment) != (0, 0, count, size, 0):
            raise self.fault("has bytes after its directory, or is truncated")
        directory = os.pread(self._descriptor, length, start)
        at = position = 0
        try:
            while position < len(directory):
                _, _, *head, remark, volume, _, attributes, offset = _CENTRAL.unpack_from(
                    directory, position
                )
                position += _CENTRAL.size + head[8]
                encoded = directory[position - head[8] : position]
                name = encoded.decode("ascii")
                if stat.S_IFMT(attributes >> 16) not in (0, stat.S_IFREG) or attributes & 0x10:
                    raise self.fault(f"{name!r} is not a regular file but a link, folder or device")
                if not MEMBER_NAME.fullmatch(name):
                    raise self.fault(f"{name!r} is not allowed in a portable file")
                if name.casefold() in map(str.casefold, self._members):
                    raise self.fault(f"holds {name!r} twice")
                local = _LOCAL.pack(b"PK\3\4", *head) + encoded
                if offset != at or os.pread(self._descriptor, len(local), at) != local:
                    raise self.fault(f"has bytes before {name!r}, or two headers for it")
                _, flags, method, _, _, crc, packed, unpacked, _, extra = head
                if flags or extra or remark or volume or method not in (_STORED, _DEFLATED):
                    raise self.fault(f"the header of {name!r} has unexpected fields")
                self._members[name] = _MemberData(at + len(local), method, crc, packed, unpacked)
                at += len(local) + packed
        except (struct.error, UnicodeDecodeError) as exc:
            raise self.fault(f"its directory cannot be read: {exc}") from exc
        if at != start or position != length or len(self._members) != count:
            raise self.fault("has bytes between its last member and its directory")

    def _read_manifest(self) -> Contents:
        """The manifest, checked against the directory."""
        first = next(iter(self._members), "")
        if first != MANIFEST or self._members[first].size > MAX_MANIFEST:
            raise self.fault(f"does not begin with {MANIFEST}")
        try:
            raw = b"".join(self._unpacked(MANIFEST))
            form = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("format")
            if form is not None and bytes(form) != b"%d" % FORMAT:
                raise self.fault(
                    f"has format {bytes(form).decode():.20}, but this program reads {FORMAT}: "
                    "update oversight-bench, or export it again"
                )
            contents = msgspec.json.decode(raw, type=Contents)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise self.fault(f"its {MANIFEST} cannot be read: {exc}") from exc
        actual = list(self._members)[1:]
        if unlisted := [name for name in actual if name not in contents.members]:
            raise self.fault(f"holds {unlisted[0]!r}, which {MANIFEST} does not list")
        if missing := [name for name in contents.members if name not in self._members]:
            raise self.fault(f"lacks {missing[0]!r}, which {MANIFEST} lists")
        if actual != list(contents.members) or actual != sorted(actual):
            raise self.fault("its members are out of order")
        for name, member in contents.members.items():
            of_run = contents.kind == "run" and name.startswith("run/")
            if not of_run and not _REPLIES.fullmatch(name):
                raise self.fault(f"holds {name!r}, which is not allowed in this kind of file")
            if member.bytes != (size := self._members[name].size):
                listed = f"{MANIFEST} lists {member.bytes:,}"
                raise self.fault(f"{name!r} has {size:,} bytes, and {listed}")
        size = os.fstat(self._descriptor).st_size
        if contents.bytes > min(MAX_BYTES, max(FREE, MAX_RATIO * size)):
            raise self.fault(
                f"would unpack to {contents.bytes:,} bytes, {contents.bytes // size:,} times "
                "its own size"
            )
        return contents

    def _unpacked(self, name: str) -> Iterator[bytes]:
        """The unpacked data of a member. PackError unless its size is as listed."""
        at, method, crc, packed, size = self._members[name]
        end, checksum, remaining = at + packed, 0, size
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        while at < end:
            raw = os.pread(self._descriptor, min(CHUNK, end - at), at)
            if not raw:
                raise self.fault("was truncated while it was read")
            at += len(raw)
            while True:
                try:
                    part = raw if method == _STORED else unpacker.decompress(raw, CHUNK)
                except zlib.error as exc:
                    raise self.fault(f"{name!r} cannot be unpacked: {exc}") from exc
                raw = b"" if method == _STORED else unpacker.unconsumed_tail
                checksum, remaining = zlib.crc32(part, checksum), remaining - len(part)
                if remaining < 0:
                    raise self.fault(f"{name!r} unpacks to more than its {size:,} bytes")
                if part:
                    yield part
                if not raw and len(part) < CHUNK:
                    break
        if remaining or checksum != crc:
            raise self.fault(f"{name!r} is damaged: wrong checksum or size")
        if method == _DEFLATED and (not unpacker.eof or unpacker.unused_data):
            raise self.fault(f"has bytes after {name!r}")


def _line_entry(place: str, line: bytes) -> StoreEntry:
    """The reply of a line. DamagedEntry, with `place` if the line has no key."""
    try:
        fields = _lines.decode(line)
        reply, call = bytes(fields.reply), bytes(fields.call)
        outcome = _outcomes.decode(reply).outcome
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise DamagedEntry(place, f"its line cannot be read: {exc}") from exc
    key, identity = fields.key, fields.identity
    if not _KEY.fullmatch(key) or key != store_key(key[:64], identity):
        raise DamagedEntry(key, "its key names another endpoint")
    if bool(call) == bool(fields.model) or not 0 <= fields.at <= MAX_TIME:
        raise DamagedEntry(key, "it needs a time, and either a call or a model")
    model = fields.model or read_call(key, call).model
    about = outcome, fields.at, identity, model
    return StoreEntry(key, PLAIN, *about, len(reply), reply, len(call), call)


@dataclass(frozen=True, slots=True)
class MergeStatistics:
    """Number of entries by result."""

    new: int
    """Stored."""
    known: int
    """The same reply was stored already."""
    other: int
    """A different reply to the same call was stored, and stays."""
    damaged: tuple[DamagedEntry, ...]
    """Left out."""


def merge(
    entries: Iterable[tuple[str, StoreEntry | DamagedEntry]],
    store: Store,
    *,
    foreign: bool = False,
    bare: bool = False,
    shared: Callable[[Call], str] = lambda call: "",
) -> MergeStatistics:
    """Store new replies, after checking each against its key. A stored reply is never replaced,
    since a run must always be served the same one. Only damaged entries are replaced, and lost
    passages restored. foreign: whether the entries came in a file. Then their origin says so, and
    each needs its passage. bare: accept replies without requests. shared: as in `Cache`. Raises
    StoreFull, StoreError; entries stored until then stay."""
    new = known = other = 0
    damaged: list[DamagedEntry] = []
    waiting: list[tuple[str, bytes]] = []
    for key, entry in entries:
        try:
            if isinstance(entry, DamagedEntry):
                raise entry
            if not entry.call_size if bare else entry.lost_passage and not foreign:
                entry.reply()
            else:
                entry.check()
        except DamagedEntry as damage:
            damaged.append(damage)
            continue
        if foreign:
            entry = entry.imported()
        try:
            stored = _kept(store, key)
        except DamagedEntry:
            store.put_many([(key, _packed(entry, shared).to_bytes())])
            new += 1
            continue
        if stored is None:
            new += 1
            waiting.append((key, _packed(entry, shared).to_bytes()))
        elif replace(stored.reply(), origin="") == replace(entry.reply(), origin=""):
            known += 1
            if stored.lost_passage and not entry.lost_passage:
                store.put_many([(key, _completed(stored, entry, shared).to_bytes())])
        else:
            other += 1
        if len(waiting) == _BATCH:
            store.keep_many(waiting)
            waiting.clear()
    store.keep_many(waiting)
    return MergeStatistics(new, known, other, tuple(damaged))


def _packed(entry: StoreEntry, shared: Callable[[Call], str]) -> StoreEntry:
    long = entry.form == PLAIN and entry.call_size >= LEAST_SHARED
    return entry.packed(shared(entry.call()) if long else "")


def _completed(stored: StoreEntry, entry: StoreEntry, shared: Callable[[Call], str]) -> StoreEntry:
    """The stored entry, with the complete call of an equal one."""
    return replace(
        _packed(entry, shared),
        stored_at=stored.stored_at,
        reply_size=stored.reply_size,
        reply_part=stored.reply_part,
    )


def _kept(store: Store, key: str) -> StoreEntry | None:
    value = store.get(key)
    if value is None:
        return None
    entry = read_entry(key, value)
    entry.reply()  # raises if it is damaged
    return entry
