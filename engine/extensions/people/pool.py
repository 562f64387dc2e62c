"""The pool of waiting tasks, and the rules for their assignment to raters.

Who gets what:
  - a rater never gets two conversations about one problem: neither its other world, nor the same
    transcript in another order of answers, nor another protocol on it, nor another draw;
  - whoever began a conversation goes on with it, where a seat speaks more than once;
  - where all tasks are known beforehand, each is assigned to a rater, and goes to another one only
    after it has lain unanswered for too long;
  - all else is by chance, of seed, rater and call.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ....cache.reply import Reply
from ....protocols.question import randomness
from .journal import DeskHistory, JudgedTranscript
from .panel import PERSON, Rater
from .task import PersonTask


@dataclass(frozen=True, slots=True)
class TaskKind:
    """The problem of a task, of which a rater gets one task only; and its kind, to be balanced."""

    problem: str
    kind: Hashable
    """Kind of transcript: its row, and the value of the answer argued for. Never sent."""
    transcript: JudgedTranscript | None = None


@dataclass(slots=True)
class WaitingTask:
    task: PersonTask
    answered: "asyncio.Future[Reply]"
    since: float
    """As `now` has it."""


def now() -> float:
    """Seconds of the loop's clock."""
    return asyncio.get_running_loop().time()


class TaskPool:
    """What waits."""

    def __init__(self, history: DeskHistory, seed: int, returned_after: float) -> None:
        """returned_after: seconds after which an unanswered task goes to another rater."""
        self._history = history
        self._seed = seed
        self._returned_after = returned_after
        self.waiting: dict[str, WaitingTask] = {}
        """By address."""
        self._assigned: dict[str, str] = {}
        self.planned: Mapping[str, TaskKind] = {}
        """Tasks that were known beforehand; none where they come as a sweep goes on."""
        self._shown: dict[tuple[str, str], float] = {}
        """When a rater was first shown a task by this process."""

    def assign(self, tasks: Mapping[str, TaskKind]) -> None:
        """Say beforehand who is to get which of these tasks, by their addresses. What was given
        before stays with whoever has or had it."""
        histories = self._history.of
        taken = {
            task: name
            for name, history in histories.items()
            for task in history.given.values()
            if task in tasks and task not in history.returned
        }
        self.planned = tasks
        staying = [name for name, history in histories.items() if not history.withdrawn]
        self._assigned = balanced_assignment(tasks, staying, taken, seed=self._seed)

    def release(self, rater: str) -> None:
        """Whatever was assigned to a rater is free for all others."""
        self._assigned = {task: who for task, who in self._assigned.items() if who != rater}

    def choose(self, rater: Rater) -> PersonTask | None:
        """The next task of a rater who has none; None while there is none."""
        open_tasks = self.open_to(rater)
        history = self._history.of[rater.name]

        def rank(each: WaitingTask) -> tuple[bool, float]:
            chance = randomness(self._seed, f"{rater.name} {each.task.call.address}", "desk")
            return each.task.problem not in history.seen, chance.random()

        return min(open_tasks, key=rank).task if open_tasks else None

    def held(self, rater: Rater) -> PersonTask | None:
        """What the rater was given, and has not answered yet."""
        for address, who in self._history.holder.items():
            if who == rater.name and address in self.waiting:
                return self.waiting[address].task
        return None

    def open_to(self, rater: Rater) -> list[WaitingTask]:
        """The tasks that the rater may get, or has."""
        model = f"{PERSON}{rater.panel}"
        return [
            each
            for address, each in self.waiting.items()
            if each.task.call.model == model and self._may(rater, address, each)
        ]

    def shown_for(self, rater: str, address: str) -> float:
        """Seconds since this process first showed a rater a task; from now on, it was shown."""
        at = now()
        return at - self._shown.setdefault((rater, address), at)

    def _may(self, rater: Rater, address: str, each: WaitingTask) -> bool:
        holder = self._history.holder.get(address)
        if holder == rater.name:
            return True
        # The clock of a task from before a restart begins anew.
        if holder is not None and self.shown_for(holder, address) <= self._returned_after:
            return False
        seen = self._history.of[rater.name].seen.get(each.task.problem)
        if seen:
            return all(map(each.task.continues, seen))
        # Whoever it is assigned to, or is in the conversation that it goes on with, comes first.
        return now() - each.since > self._returned_after or (
            self._assigned.get(address, rater.name) == rater.name
            and not any(
                self._goes_on(name, each.task) for name in self._history.of if name != rater.name
            )
        )

    def _goes_on(self, name: str, task: PersonTask) -> bool:
        history = self._history.of[name]
        seen = history.seen.get(task.problem, ())
        return bool(seen) and not history.withdrawn and all(map(task.continues, seen))


def balanced_assignment(
    tasks: Mapping[str, TaskKind],
    raters: Sequence[str],
    taken: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
) -> dict[str, str]:
    """A rater for each task: no rater gets two tasks of a problem, and loads and counts of each
    kind are as equal as possible.

    taken: task -> rater of those that were given before; they stay, and count. What no rater may
    have any more has none. Problem by problem, in seeded order: whoever has the least is next.
    """
    found = dict(taken or {})
    load = Counter(found.values())
    had = Counter((rater, tasks[task].kind) for task, rater in found.items())
    by_problem: defaultdict[str, list[str]] = defaultdict(list)
    for task, about in tasks.items():
        by_problem[about.problem].append(task)
    for problem in sorted(by_problem, key=lambda p: randomness(seed, p, "assignment").random()):
        free = sorted(set(by_problem[problem]) - found.keys())
        able = sorted(set(raters) - {found.get(task) for task in by_problem[problem]})
        chance = randomness(seed, problem, "ties")
        while free and able:
            # Loads first, then kinds, then chance.
            *_, task, rater = min(
                (load[rater], had[rater, tasks[task].kind], chance.random(), task, rater)
                for task in free
                for rater in able
            )
            found[task] = rater
            load[rater] += 1
            had[rater, tasks[task].kind] += 1
            free.remove(task)
            able.remove(rater)
    return found
