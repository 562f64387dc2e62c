"""Finds the cells that kill workers by bisection, so that they fail and all others still run."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from .messages import Job

CellIndexes: TypeAlias = tuple[int, ...]
"""Cells by their index in the sweep."""


class CrashBisection:
    """Suspects are cells of jobs that a worker had when it died, twice.

    A process may be killed once by anybody, and its work is simply run again. After the second
    time the suspects are run in isolation, half of them at a time by a worker that has nothing
    else; each death leaves a smaller half. A cell that is alone when a worker dies is to blame.
    """

    def __init__(self) -> None:
        self._deaths: Counter[int] = Counter()
        """By problem."""
        self._isolated: deque[CellIndexes] = deque()

    def __bool__(self) -> bool:
        """Whether any suspects wait to be run."""
        return bool(self._isolated)

    def died_with(self, jobs: Iterable[Job], missing: Callable[[Job], CellIndexes]) -> list[Job]:
        """A worker died that had these jobs; those of them that any worker may run again.

        missing: the cells of a job without an outcome.
        """
        again: list[Job] = []
        suspects: list[int] = []
        for job in jobs:
            cells = missing(job)
            self._deaths[job.problem] += 1
            if self._deaths[job.problem] > 1:
                suspects.extend(cells)
            elif cells:
                again.append(Job(job.problem, cells))
        if suspects:
            self._isolated.append(tuple(suspects))
        return again

    def died_of(self, missing: CellIndexes) -> int | None:
        """A worker died that had suspects alone; the cell to blame, if it is known by now.

        missing: the suspects without an outcome.
        """
        if len(missing) == 1:
            return missing[0]
        half = (len(missing) + 1) // 2
        self._isolated.extendleft(part for part in (missing[half:], missing[:half]) if part)
        return None

    def take(self) -> CellIndexes:
        """The next suspects to run."""
        return self._isolated.popleft()
