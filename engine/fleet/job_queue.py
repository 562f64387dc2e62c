"""Which problems each worker runs next: those of dead workers first, then in the sweep's order."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..runs.executor import Assignment
from ..stop import StopToken
from ..sweeps.sweep import Cell
from .crash_bisection import CellIndexes, CrashBisection
from .messages import Job, WorkerReport

PREFETCH = 1.0
"""Seconds of work queued at a worker, beside the cells that it has in progress."""


@dataclass(slots=True)
class _Assigned:
    """What one worker has been given."""

    jobs: dict[int, Job] = field(default_factory=dict)
    """Unfinished, by problem."""
    suspects: CellIndexes = ()
    """Cells under bisection; a worker that has any has nothing else."""
    cells: int = 0
    """Cells of all jobs so far."""
    completed: int = 0
    since: float = field(default_factory=time.monotonic)


class JobQueue:
    """The cells without an outcome, as jobs of one problem each, and who has which of them."""

    def __init__(self, assignment: Assignment, workers: int, lanes: int) -> None:
        """lanes: cells that each worker runs at a time."""
        self._sweep, self._folder = assignment.loaded.sweep, assignment.folder
        self._workers, self._lanes = workers, lanes
        self._assigned: dict[int, _Assigned] = {}
        self._jobs: Iterator[Job] = iter(())
        self._next: Job | None = None
        """The next job that nobody has had yet."""
        self._urgent: deque[Job] = deque()
        """Jobs of dead workers."""
        self._bisection = CrashBisection()
        self._changed = asyncio.Event()
        self._finished = False

    def put(self, cells: Iterator[Cell]) -> None:
        """Queue cells, once all before them have ended."""
        self._jobs = self._by_problem(cell.place for cell in cells)
        self._next = next(self._jobs, None)

    def finish(self) -> None:
        """No more cells come."""
        self._finished = True

    @property
    def done(self) -> bool:
        return self._finished and self._all_ended

    async def ended(self, stop_token: StopToken) -> None:
        """Return once all cells that are queued have ended, or everything is to stop."""
        while not self._all_ended and stop_token.halt is None:
            self._changed.clear()
            await self._changed.wait()

    def notify(self) -> None:
        """Have whoever waits for `ended` look again."""
        self._changed.set()

    def bisecting(self, worker: int) -> bool:
        """Whether a worker has suspected cells, and nothing else."""
        return bool(self._assigned[worker].suspects)

    def join(self, worker: int) -> None:
        self._assigned[worker] = _Assigned()

    def leave(self, worker: int) -> None:
        del self._assigned[worker]

    def lost(self, worker: int) -> int | None:
        """Take back a dead worker's jobs; the cell to blame for its death, if that is known."""
        mine = self._assigned.pop(worker)
        if mine.suspects:
            return self._bisection.died_of(self._folder.missing(mine.suspects))
        again = self._bisection.died_with(mine.jobs.values(), self._missing)
        self._urgent.extendleft(reversed(again))
        return None

    def completed(self, worker: int, report: WorkerReport) -> None:
        """Note what a worker has ended; its outcomes are in the run folder by now."""
        mine = self._assigned[worker]
        mine.completed += len(report.completed) + report.pending
        for problem in report.finished:
            mine.jobs.pop(problem, None)
        if not mine.jobs:
            mine.suspects = ()
        self.notify()

    def take(self, worker: int, backlog: int, in_progress: int) -> tuple[tuple[Job, ...], int]:
        """A worker's next jobs, and the backlog below which it is to ask for more; 0: never.

        backlog, in_progress: cells that it has not begun, and that it is running.
        """
        mine = self._assigned[worker]
        if mine.suspects:
            return (), 0
        if self._bisection and not mine.jobs:
            mine.suspects = self._bisection.take()
            jobs = [*self._by_problem(mine.suspects)]
            self._assign(mine, jobs)
            return tuple(jobs), 0
        speed = mine.completed / max(time.monotonic() - mine.since, 0.2)
        # Enough to keep it busy for a second, but no more than its part of what is left, so that
        # all workers end together.
        part = self._unassigned // (2 * self._workers)
        want = max(self._lanes - in_progress, 0) + min(self._lanes + int(PREFETCH * speed), part)
        taken: list[Job] = []
        while backlog < want or not (backlog or taken):
            job = self._urgent.popleft() if self._urgent else self._next
            if job is None:
                break
            if job is self._next:
                self._next = next(self._jobs, None)
            taken.append(job)
            backlog += len(self._cells(job))
        self._assign(mine, taken)
        empty = not self._urgent and self._next is None
        return tuple(taken), 0 if empty else max(backlog // 2, 1)

    def _assign(self, mine: _Assigned, jobs: list[Job]) -> None:
        mine.jobs.update((job.problem, job) for job in jobs)
        mine.cells += sum(len(self._cells(job)) for job in jobs)

    def _by_problem(self, cells: Iterable[int]) -> Iterator[Job]:
        for problem, among in itertools.groupby(cells, self._sweep.problem_at):
            places = tuple(among)
            yield Job(problem, None if len(places) == len(self._sweep.span(problem)) else places)

    def _cells(self, job: Job) -> range | CellIndexes:
        return self._sweep.span(job.problem) if job.cells is None else job.cells

    def _missing(self, job: Job) -> CellIndexes:
        return self._folder.missing(self._cells(job))

    @property
    def _unassigned(self) -> int:
        """Cells that no worker has."""
        assigned = sum(each.cells - each.completed for each in self._assigned.values())
        return max(len(self._folder) - self._folder.finished - assigned, 0)

    @property
    def _all_ended(self) -> bool:
        """Whether no worker has a job, and none waits."""
        waiting = self._next or self._urgent or self._bisection
        return not (waiting or any(each.jobs for each in self._assigned.values()))
