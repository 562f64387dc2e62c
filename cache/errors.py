"""Errors of calls, replays, stores and portable files.

CacheError
├── AddressError      a call that has no address; names the field that is at fault
├── ReplayMiss        a replay met a call that was never recorded; names the nearest one
├── StoreError        the store cannot be opened, read or written; says what to do
│   ├── DamagedEntry  a stored value fails its checksum, or is nothing this program wrote
│   │   ├── PassageLost  a call without the passage that it shares; its reply is whole
│   │   └── RequestLeftOut  a reply without its request, from a pack
│   ├── StoreFull     no room left to save a paid reply
│   └── StoreGone     deleted or replaced while it was open: what is written now is in no store
└── PackError         a portable file that is damaged, hostile, of another format or unwritable
"""

import errno

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""What the system says where a file may not grow: the disk is full, or a quota or limit reached."""


class CacheError(Exception):
    """The root of everything that `cache` raises on purpose."""


class AddressError(CacheError, ValueError):
    """A value that cannot be addressed: NaN, an infinity, a lone surrogate, a foreign type."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field


class StoreError(CacheError):
    """The store cannot serve; nothing that was stored is lost."""


class DamagedEntry(StoreError):
    """One stored value is not what was written. The others are untouched."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(
            f"stored reply {key[:12]} is damaged: {reason}; "
            "list all damage with: oversight cache verify"
        )
        self.key = key
        self.reason = reason


class PassageLost(DamagedEntry):
    """The store has lost the passage that a call shares with others; its reply is whole."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "its store has lost the passage that its call shares")


class RequestLeftOut(DamagedEntry):
    """A reply without its request, as packs have them whose source texts may not travel."""

    def __init__(self, key: str) -> None:
        StoreError.__init__(self, f"the request of reply {key[:12]} was left out of its file")
        self.key = key
        self.reason = "its request was left out"


class StoreFull(StoreError):
    """The disk took no more. What was acknowledged before is safe."""


class StoreGone(StoreError):
    """The file that is open stands in its folder no more."""


class PackError(CacheError):
    """A portable file that cannot be read whole, or cannot be written."""


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
    """The command that installs what an extra asks for, by the names of its packages.

    Named by the extra it would work only where the distribution itself comes from an index.
    """
    # Where all is installed nothing of this is needed, and it takes some time to import.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = requires("oversight-bench") or []
    except PackageNotFoundError:
        wanted = []
    marked = [each.partition(";") for each in wanted]
    packages = [name.strip() for name, _, when in marked if f"'{extra}'" in when.replace('"', "'")]
    named = packages or [f"oversight-bench[{extra}]"]
    return " ".join(["python -m pip install", *(f"'{each}'" for each in named)])
