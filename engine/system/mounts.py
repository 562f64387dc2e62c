"""File systems that other machines may write to as well."""

import os
from pathlib import Path

NETWORKS = frozenset(
    ("nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "sshfs", "9p", "afs", "gpfs", "beegfs")
)
"""Types of file systems, as the kernel names them, on which memory cannot be shared by a file."""


def is_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a path lies on a network file system, as far as the system says so.

    mounts: the kernel's table of them; False where there is none, as on macOS.
    """
    place = os.path.realpath(path)
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    found, kind = "", ""
    for line in lines:
        _, at, type, *_ = line.split(" ")
        at = at.replace("\\040", " ")
        inside = place == at or place.startswith(at.rstrip("/") + "/")
        # The last of two at one place is the one that shows.
        if inside and len(at) >= len(found):
            found, kind = at, type
    return kind.removeprefix("fuse.") in NETWORKS
