"""Which cells kill workers: found by halves, so that they fail and all others get their outcome."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from oversight.engine.fleet.messages import Job

CellIndexes: TypeAlias = tuple[int, ...]
"""Of cells in the sweep."""


class CrashBisection:
    """Suspects are the cells that were in hand when a worker died, twice.

    Any process may be killed once, and its work is simply done again. After the second time the
    suspects are run apart, half of them at a time by a worker that has nothing else; whoever dies
    of one half leaves a smaller one. A cell of which a worker died alone is to blame.
    """

    def __init__(self) -> None:
        self._deaths: Counter[int] = Counter()
        """By problem."""
        self._apart: deque[CellIndexes] = deque()

    def __bool__(self) -> bool:
        """Whether anything is to be run apart."""
        return bool(self._apart)

    def died_with(self, jobs: Iterable[Job], missing: Callable[[Job], CellIndexes]) -> list[Job]:
        """A worker died with these jobs in hand; those to be done again by anybody.

        missing: the cells of a job that have no outcome.
        """
        again: list[Job] = []
        suspects: list[int] = []
        for job in jobs:
            places = missing(job)
            self._deaths[job.problem] += 1
            if self._deaths[job.problem] > 1:
                suspects.extend(places)
            elif places:
                again.append(Job(job.problem, places))
        if suspects:
            self._apart.append(tuple(suspects))
        return again

    def died_apart(self, missing: CellIndexes) -> int | None:
        """A worker died that had nothing but suspects; the cell that is to blame, if it is known.

        missing: those without an outcome.
        """
        if len(missing) == 1:
            return missing[0]
        half = (len(missing) + 1) // 2
        self._apart.extendleft(part for part in (missing[half:], missing[:half]) if part)
        return None

    def take(self) -> CellIndexes:
        """What is to be run apart next."""
        return self._apart.popleft()
