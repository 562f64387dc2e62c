"""Writing to a terminal without waiting for it."""

import io
import os
import threading
from queue import Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class TerminalWriter(io.BufferedIOBase):
    """Writes to a terminal from a thread of its own.

    A terminal that was stopped (Ctrl-S), or that nobody reads, blocks its writer: an event loop
    that wrote to it directly would send no calls either.
    """

    name = "<terminal>"

    def __init__(self, terminal: int) -> None:
        """terminal: its file descriptor, which stays open."""
        self._terminal = terminal
        self._pieces: Queue[bytes] = Queue()
        # A daemon: a process may end though its terminal never takes the rest.
        threading.Thread(target=self._pass_on, name="terminal", daemon=True).start()

    @property
    def behind(self) -> bool:
        """Whether the terminal has yet to take some of what was written."""
        return self._pieces.unfinished_tasks > 0

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, piece: "ReadableBuffer", /) -> int:
        written = bytes(piece)
        if written:
            self._pieces.put(written)
        return len(written)

    def end(self, seconds: float) -> None:
        """End the thread; wait at most so many seconds for the terminal to take the rest."""
        self._pieces.put(b"")
        with self._pieces.all_tasks_done:
            self._pieces.all_tasks_done.wait_for(lambda: not self.behind, seconds)

    def _pass_on(self) -> None:
        gone = False
        while piece := self._pieces.get():
            while piece and not gone:
                try:
                    piece = piece[os.write(self._terminal, piece) :]
                except OSError:
                    gone = True
            self._pieces.task_done()
        self._pieces.task_done()
