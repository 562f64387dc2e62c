"""Following the outcomes of a run as they land, and finding those of a few cells among them."""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from oversight.engine.runs.outcome import OutcomeRecord, read_outcome

LINE_START = b'{"place":'
"""Every line of an outcome begins so."""


class OutcomeFollower:
    """Reads a file of outcomes on, whole line by whole line, and no line twice."""

    def __init__(self, file: Path, again: Callable[[bool], None]) -> None:
        """file: it may grow, be replaced, or not be there yet.

        again: called before a file is read from its beginning, with whether it is shorter than what
        was read: it is laid in order at the end of a run, and shorter where failures were dropped.
        """
        self._file = file
        self._again = again
        self._end = self.inode = 0

    def news(self) -> Iterator[tuple[int, bytes]]:
        """Where each line begins that has come since, and the line."""
        try:
            lines = self._file.open("rb")
        except FileNotFoundError:
            return
        with lines:
            stat = os.fstat(lines.fileno())
            if stat.st_ino != self.inode:
                self._again(stat.st_size < self._end)
                self.inode, self._end = stat.st_ino, 0
            lines.seek(self._end)
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                start, self._end = self._end, self._end + len(line)
                yield start, line


class OutcomeIndex:
    """Where the line of each cell is; none is read before its cell is asked for."""

    def __init__(self, file: Path, cells: int) -> None:
        """cells: of the sweep."""
        self._file = file
        self._starts = array("Q", bytes(8 * cells))
        """From 1; 0 where there is no line."""
        self._follower = OutcomeFollower(file, self._forget)

    def records(self, places: Iterable[int]) -> dict[int, OutcomeRecord]:
        """The outcomes that have landed of these cells. ValueError for a line that is none."""
        for start, line in self._follower.news():
            number = line[len(LINE_START) : line.find(b",")]
            # What is no outcome is named by whoever reads all of them.
            if line.startswith(LINE_START) and number.isdigit() and int(number) < len(self._starts):
                self._starts[int(number)] = start + 1
        there = [place for place in places if self._starts[place]]
        found: dict[int, OutcomeRecord] = {}
        if there:
            with self._file.open("rb") as lines:
                if os.fstat(lines.fileno()).st_ino != self._follower.inode:
                    # It was laid in order just now.
                    return self.records(there)
                for place in there:
                    lines.seek(self._starts[place] - 1)
                    found[place] = read_outcome(lines.readline())
        return found

    def _forget(self, shorter: bool) -> None:
        self._starts = array("Q", bytes(8 * len(self._starts)))
