"""The checksum of a stored value and its key.

The checksum covers the key too. A flipped bit in an index can hand out a whole and healthy value
under another entry's key; only a checksum that knows the key tells.
"""

import hashlib

from .errors import DamagedEntry

SIZE = 32
"""Bytes of the sha256 in front of a value."""


def add_checksum(key: str, value: bytes) -> bytes:
    return _checksum(key, value) + value


def strip_checksum(key: str, sealed: bytes) -> bytes:
    """The value that was sealed under this key. DamagedEntry if anything of it was altered."""
    value = sealed[SIZE:]
    if _checksum(key, value) != sealed[:SIZE]:
        raise DamagedEntry(key, "its checksum does not match")
    return value


def _checksum(key: str, value: bytes) -> bytes:
    checksum = hashlib.sha256(key.encode())
    # No key contains a zero byte: where the key ends and the value begins is never in doubt.
    checksum.update(b"\0")
    checksum.update(value)
    return checksum.digest()
