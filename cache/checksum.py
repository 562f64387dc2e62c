"""The checksum of a stored value and its key.

The checksum covers the key too. A flipped bit in an index can hand out a whole and healthy value
under another entry's key; only a checksum that knows the key tells.
"""

import hashlib

from .errors import DamagedEntry

SIZE = 32
"""Bytes of the sha256 in front of a value."""


def add_checksum(key: str, value: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() + value


def strip_checksum(key: str, sealed: bytes) -> bytes:
    """The value that was sealed under this key. DamagedEntry if anything of it was altered."""
    value = sealed[SIZE:]
    # No key contains a zero byte: where the key ends and the value begins is never in doubt.
    if hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() != sealed[:SIZE]:
        raise DamagedEntry(key, "its checksum does not match")
    return value
