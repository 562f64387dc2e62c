"""Errors of calls, replays, stores and portable files.

CacheError
├── AddressError      a call that has no address; names the field that is at fault
├── ReplayMiss        a replay met a call that was never recorded; names the nearest one
├── StoreError        the store cannot be opened, read or written; says what to do
│   ├── DamagedEntry  a stored value fails its checksum, or was not written by this program
│   │   ├── PassageLost  a call without the passage that it shares; its reply is whole
│   │   └── RequestLeftOut  a reply without its request, from a pack
│   ├── StoreFull     the disk is full
│   └── StoreGone     deleted or replaced while it was open: new entries would be lost
└── PackError         a portable file that is damaged, hostile, of another format or unwritable"""

import errno

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""System errors for a file that may not grow: full disk, quota, or size limit."""


class CacheError(Exception):
    """Base class of the exceptions of `cache`."""


class AddressError(CacheError, ValueError):
    """A value without an address: NaN, an infinity, a lone surrogate, or a foreign type."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field


class StoreError(CacheError):
    """The store cannot serve; nothing that was stored is lost."""


class DamagedEntry(StoreError):
    """A stored value was altered. Other entries are not affected."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(
            f"stored reply {key[:12]} is damaged: {reason}; "
            "list all damage with: oversight cache verify"
        )
        self.key = key
        self.reason = reason


class PassageLost(DamagedEntry):
    """The passage that a call shares with others is lost; the reply is intact."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "the store has lost the passage of its call")


class RequestLeftOut(DamagedEntry):
    """A reply without its request, as in packs whose source texts must not be shared."""

    def __init__(self, key: str) -> None:
        StoreError.__init__(self, f"the request of reply {key[:12]} was left out of its file")
        self.key = key
        self.reason = "its request was left out"


class StoreFull(StoreError):
    """The disk is full. Earlier replies are safe."""


class StoreGone(StoreError):
    """The open file is no longer in its folder."""


class PackError(CacheError):
    """A portable file that cannot be read completely, or cannot be written."""


class ReplayMiss(CacheError):
    """A replay met a call that was never recorded. Nothing was sent."""

    def __init__(self, model: str, address: str, nearest: str = "") -> None:
        hint = f"\n  {nearest}" if nearest else ""
        super().__init__(f"replay miss: {model} at {address[:12]} was never recorded{hint}")
        self.model = model
        self.address = address
        self.nearest = nearest

    def __reduce__(self) -> tuple[type["ReplayMiss"], tuple[str, str, str]]:
        return type(self), (self.model, self.address, self.nearest)


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra. They are named one by one, since the name
    of the extra works only with a distribution from an index."""
    # Imported late: rarely needed, and slow.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("oversight-bench") or []
    except PackageNotFoundError:
        requirements = []
    marked = [requirement.partition(";") for requirement in requirements]
    packages = [name.strip() for name, _, when in marked if f"'{extra}'" in when.replace('"', "'")]
    names = packages or [f"oversight-bench[{extra}]"]
    return " ".join(["python -m pip install", *(f"'{requirement}'" for requirement in names)])
