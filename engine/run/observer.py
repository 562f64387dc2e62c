"""Observers of a run: a progress line, a live page, a log."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TextIO

from ..display.progress import Snapshot, progress
from .record.values import RecordedCell


class Observer:
    """Watches a run. The methods do nothing; override the ones of interest.

    Observers are handed to `execute` and are called on the event loop's thread, in their order.
    They change no outcome. An exception that one raises ends the run, which resumes; one that is to
    end a run in good order holds its stop token (`LoadedSweep.stop_token`) and sets that.
    """

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        """Entered before the first cell, and exited after the last one, at a stop, or on an error.
        snapshot: returns the state of the run (cells, calls, dollars); cheap enough for several
        calls per second. Start a task on entry for periodic work, and end it on exit."""
        return nullcontext()

    def completed(self, cells: Sequence[RecordedCell]) -> None:
        """Called with outcomes once they are durable in the run folder, some hundreds at a time, in
        order of completion. The run waits for it, so move slow work elsewhere."""


class ProgressDisplay(Observer):
    """Shows where a run stands: a live line on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO | None = None, speed: float = 1.0) -> None:
        """stream: None for stderr. speed: see `progress`."""
        self._stream = stream
        self._speed = speed

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        stream = self._stream or sys.stderr
        if not stream.isatty():
            return progress(snapshot, stream, self._speed)
        # With rich, which most runs on servers do without.
        from ..display.console import live_progress

        return live_progress(snapshot, stream, self._speed)
