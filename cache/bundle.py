"""Bundles: the replies of a run, or of a whole store, in one file that can be sent and replayed.

    magic           8 bytes, the last of them the version of this layout
    dictionary      what the records have in common, for the compressor; u32 length, then bytes
    records         in key order, each compressed by itself with the dictionary
    index           compressed: the keys, a line each, then the u32 length of each record
    tail            u32 length of the index, u32 number of records
    checksum        sha256 of all before it

The same records give the same bytes: a bundle records neither when nor where it was made. With a
dictionary one record can be read without its neighbours, and the whole is still smaller than in
frames of a hundred records.
"""

import hashlib
import os
import struct
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import zstandard

from .errors import BundleError, DamagedEntry, StoreError
from .record import MAX_UNPACKED_BYTES, read_record
from .store import Reader

MAGIC = b"OVSIGHT\x01"

_LEVEL = 9
_MAX_DICTIONARY_BYTES = 2**17
"""Maximum size; a dictionary is also never more than a sixteenth of its samples."""
_MAX_SAMPLES = 8192
"""Maximum number of records that a dictionary is trained on."""
_MAX_SAMPLE_BYTES = 2**26
"""Total size of the samples after which no more are added."""
_MIN_SAMPLES = 8
"""Minimum number of records for a dictionary; the trainer refuses fewer than five."""
_U32 = struct.Struct("<I")
_TAIL = struct.Struct("<II")
_CHECKSUM = 32


def export_bundle(store: Reader, keys: Iterable[str], file: Path, *, requests: bool = True) -> int:
    """Write what `store` holds under `keys` to `file`, whole or not at all; how many records.

    requests: whether they go in beside their replies, which alone are enough for a replay.
    DamagedEntry for a record that is not what was stored; BundleError for a key that has none,
    and where the file cannot be written. A file that was there before is replaced; a
    folder that is missing is made.
    """
    names = sorted(set(keys))
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    checksum = hashlib.sha256()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as out:
            for part in _parts(store, names, requests):
                checksum.update(part)
                out.write(part)
            out.write(checksum.digest())
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(file)
    except OSError as exc:
        raise BundleError(f"{file} cannot be written: {exc.strerror}") from exc
    finally:
        if unfinished.exists():
            unfinished.unlink()
    return len(names)


class BundleStore(Reader):
    """Reads a bundle in place; only the records asked for are unpacked."""

    def __init__(self, file: Path) -> None:
        """Reads the whole file once, for its checksum. BundleError if it is not whole."""
        self.file = file
        self._lock = threading.Lock()
        try:
            self._source = file.open("rb", buffering=0)
        except OSError as exc:
            raise BundleError(f"{file} cannot be read: {exc}") from exc
        try:
            self._check()
            self._open()
        except (BundleError, OSError, ValueError, struct.error, zstandard.ZstdError) as exc:
            self._source.close()
            if isinstance(exc, BundleError):
                raise
            raise BundleError(f"{file} is not laid out as a bundle: {exc}") from exc

    def get(self, key: str) -> bytes | None:
        place = bisect_left(self._keys, key)
        if place == len(self._keys) or self._keys[place] != key:
            return None
        try:
            with self._lock:
                packed = self._read(self._starts[place], self._starts[place + 1])
                if zstandard.frame_content_size(packed) > MAX_UNPACKED_BYTES:
                    raise DamagedEntry(
                        key, f"it would unpack to more than {MAX_UNPACKED_BYTES:,} bytes"
                    )
                return self._unpack(packed, allow_extra_data=False)
        except (OSError, ValueError) as exc:
            raise StoreError(f"{self.file} cannot be read any more: {exc}") from exc
        except zstandard.ZstdError as exc:
            raise DamagedEntry(key, f"{self.file} was altered while it was open: {exc}") from exc

    def keys(self, prefix: str = "") -> Iterator[str]:
        for place in range(bisect_left(self._keys, prefix), len(self._keys)):
            if not self._keys[place].startswith(prefix):
                return
            yield self._keys[place]

    def __len__(self) -> int:
        return len(self._keys)

    def close(self) -> None:
        self._source.close()

    def _check(self) -> None:
        magic = self._source.read(len(MAGIC))
        if magic[:-1] != MAGIC[:-1]:
            raise BundleError(f"{self.file} is no bundle: it does not begin like one")
        if magic != MAGIC:
            raise BundleError(f"{self.file}: version {magic[-1]} of bundles is unknown to this one")
        self._size = os.fstat(self._source.fileno()).st_size - _CHECKSUM
        checksum = hashlib.sha256()
        for start in range(0, self._size, 2**20):
            checksum.update(self._read(start, min(start + 2**20, self._size)))
        if self._size < 0 or self._read(self._size) != checksum.digest():
            raise BundleError(
                f"{self.file} was cut short or altered: its checksum does not match; "
                "get it again from where it came"
            )

    def _open(self) -> None:
        start = len(MAGIC) + _U32.size
        (length,) = _U32.unpack(self._read(len(MAGIC), start))
        dictionary = self._read(start, start + length)
        self._unpack = zstandard.ZstdDecompressor(dict_data=_as_dictionary(dictionary)).decompress
        end = self._size - _TAIL.size
        length, count = _TAIL.unpack(self._read(end, self._size))
        packed = self._read(end - length, end)
        if zstandard.frame_content_size(packed) > MAX_UNPACKED_BYTES:
            raise ValueError(f"its index would unpack to more than {MAX_UNPACKED_BYTES:,} bytes")
        index = zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
        lines = len(index) - _U32.size * count
        self._keys = index[:lines].decode("ascii").splitlines()
        lengths = struct.unpack(f"<{count}I", index[lines:])
        self._starts = array("Q", accumulate(lengths, initial=start + len(dictionary)))
        if any(a >= b for a, b in pairwise(self._keys)) or len(self._keys) != count:
            raise ValueError("its keys are out of order")
        if self._starts[-1] != end - length:
            raise ValueError("its records do not fill their place")

    def _read(self, start: int, end: int | None = None) -> bytes:
        self._source.seek(start)
        return self._source.read(-1 if end is None else end - start)


def _parts(store: Reader, names: Sequence[str], requests: bool) -> Iterator[bytes]:
    """A bundle from its first byte to its checksum."""
    dictionary = _dictionary(store, names, requests)
    yield MAGIC + _U32.pack(len(dictionary)) + dictionary
    pack = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_as_dictionary(dictionary)).compress
    lengths = []
    for name in names:
        record = pack(_plain(store, name, requests))
        lengths.append(len(record))
        yield record
    lines = "".join(f"{name}\n" for name in names).encode()
    index = zstandard.ZstdCompressor(level=_LEVEL).compress(
        lines + struct.pack(f"<{len(lengths)}I", *lengths)
    )
    yield index + _TAIL.pack(len(index), len(names))


def _plain(store: Reader, name: str, requests: bool) -> bytes:
    value = store.get(name)
    if value is None:
        raise BundleError(f"{name} is not in the store: nothing was exported")
    record = read_record(name, value).plain()
    return (record if requests else record.without_call()).to_bytes()


def _dictionary(store: Reader, names: Sequence[str], requests: bool) -> bytes:
    """Bytes that many of the records share; none where there are too few records to tell."""
    samples: list[bytes | bytearray | memoryview] = []
    total = 0
    # Keys are hashes: the first ones are as good a sample as any.
    for name in names[:_MAX_SAMPLES]:
        samples.append(_plain(store, name, requests))
        total += len(samples[-1])
        if total > _MAX_SAMPLE_BYTES:
            break
    size = min(_MAX_DICTIONARY_BYTES, total // 16)
    if len(samples) < _MIN_SAMPLES or size < 1024:
        return b""
    # All parameters given: left to itself the trainer searches, with as many threads as there are.
    trained = zstandard.train_dictionary(
        size, samples, k=256, d=8, f=20, split_point=1.0, accel=4, level=_LEVEL
    )
    return trained.as_bytes()


def _as_dictionary(dictionary: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(dictionary) if dictionary else None
