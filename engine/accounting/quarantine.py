"""Where answers go that are no replies: kept as they came, for whoever wants to know why."""

import logging
import re
from pathlib import Path

from oversight.cache.call import Call
from oversight.engine.errors import Malformed

log = logging.getLogger(__name__)

MAX_BODIES = 200
"""Bodies that one folder takes; a server that sends rubbish all night must not fill the disk."""


class Quarantine:
    """A folder of malformed bodies, one file each, made when the first one comes.

    A file is called after its number, the model and the address of the call. Nothing reads them
    back: they are evidence, never replies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lost = 0
        """Bodies that were not kept: the folder was full, or could not be written to."""
        self._next: int | None = None

    def keep(self, call: Call, fault: Malformed) -> Path | None:
        """Write the body down; its file, or None, and a count in `lost`, if that is not possible.

        Evidence must not cost the run: a disk that refuses it is told in the log, no more.
        """
        try:
            return self._write(call, fault)
        except OSError as exc:
            self.lost += 1
            log.error("a malformed body could not be kept in %s: %s", self.folder, exc)
            return None

    def _write(self, call: Call, fault: Malformed) -> Path | None:
        if self._next is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._next = len(list(self.folder.glob("*.body")))
        if self._next >= MAX_BODIES:
            self.lost += 1
            return None
        model = re.sub(r"[^\w.-]+", "-", call.model)
        path = self.folder / f"{self._next:03}-{model}-{call.address[:12]}.body"
        path.write_bytes(fault.body)
        self._next += 1
        log.warning("%s: %s; the body is in %s", call.model, fault, path)
        return path
