"""Quarantine of malformed answers: their bodies, kept unchanged for diagnosis."""

import logging
import re
from pathlib import Path

from ....cache.call import Call
from ...errors import Malformed

log = logging.getLogger(__name__)

MAX_BODIES = 200
"""Maximum bodies in one folder: a server that sends garbage all night must not fill the disk."""


class Quarantine:
    """A folder of malformed bodies, one file each, created with the first one.

    Files are named by number, model and address of the call. They are never read back: they are
    evidence, not replies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next: int | None = None

    def keep(self, call: Call, fault: Malformed) -> Path | None:
        """Write the body to a file and return its path; None where the folder is full, or cannot be
        written: that is only logged, since it must not end the run."""
        try:
            return self._write(call, fault)
        except OSError as exc:
            log.error("a malformed body could not be kept in %s: %s", self.folder, exc)
            return None

    def _write(self, call: Call, fault: Malformed) -> Path | None:
        if self._next is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._next = len(list(self.folder.glob("*.body")))
        if self._next >= MAX_BODIES:
            return None
        model = re.sub(r"[^\w.-]+", "-", call.model)
        path = self.folder / f"{self._next:03}-{model}-{call.address[:12]}.body"
        with path.open("xb") as file:
            file.write(fault.body)
        self._next += 1
        log.warning("%s: %s; the body is in %s", call.model, fault, path)
        return path
