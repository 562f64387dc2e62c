"""The queue of calls that wait for an answer, and the assignment of tasks to raters.

Rules of assignment:
  - A rater gets only one conversation about a problem: not its other world, another order of its
    answers, another protocol or another repeat.
  - A rater who began a conversation continues it, if a role speaks more than once.
  - If all tasks are known beforehand, each is assigned to a rater. It goes to another rater only
    after it has been unanswered for too long.
  - Everything else is random, determined by seed, rater and call.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....cache.call import Call
from ....cache.reply import Reply
from ....protocols.question import randomness
from ...providers.provider import Provider
from ...run.events import sync_events
from ...stop import StopToken
from .journal import (
    PERSON,
    BeliefBefore,
    ConsentGiven,
    JudgedTranscript,
    Rater,
    RaterEvent,
    RaterHistories,
    RaterHistory,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    erase,
    note,
    read_journal,
)
from .task import PersonTask

LEFT = "You have left this study; nothing more about you is kept."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskKind:
    """The problem of a task, and its kind, which is balanced among raters."""

    problem: str
    kind: Hashable
    """The row, and the value of the argued answer. Never sent."""
    transcript: JudgedTranscript | None = None


@dataclass(slots=True)
class WaitingTask:
    task: PersonTask
    answered: "asyncio.Future[Reply]"
    since: float
    """As `now` returns it."""


def now() -> float:
    """Seconds of the loop's clock."""
    return asyncio.get_running_loop().time()


class TaskAssignment:
    """The waiting tasks, and the raters who may get them."""

    def __init__(self, histories: RaterHistories, seed: int, returned_after: float) -> None:
        """returned_after: seconds after which an unanswered task goes to another rater."""
        self._histories, self._seed, self._returned_after = histories, seed, returned_after
        self.waiting: dict[str, WaitingTask] = {}
        """By address."""
        self._assigned: dict[str, str] = {}
        self.planned: Mapping[str, TaskKind] = {}
        """Tasks that are known beforehand; empty for a sweep."""
        self._shown: dict[tuple[str, str], float] = {}
        """When this process first showed a rater a task."""

    def assign(self, tasks: Mapping[str, TaskKind]) -> None:
        """Assign tasks beforehand, by address. Tasks that were given stay with their raters."""
        histories = self._histories.of
        assigned = {
            task: name
            for name, history in histories.items()
            for task in history.tickets.values()
            if task in tasks and task not in history.returned
        }
        self.planned = tasks
        raters = [name for name, history in histories.items() if not history.withdrawn]
        self._assigned = balanced_assignment(tasks, raters, assigned, seed=self._seed)

    def release(self, rater: str) -> None:
        """Free the tasks that are assigned to a rater."""
        self._assigned = {task: name for task, name in self._assigned.items() if name != rater}

    def choose(self, rater: Rater) -> PersonTask | None:
        """A new task for a rater who has none; None if all are taken."""
        history = self._histories.of[rater.name]

        def rank(waiting: WaitingTask) -> tuple[bool, float]:
            chance = randomness(self._seed, f"{rater.name} {waiting.task.call.address}", "desk")
            return waiting.task.problem not in history.moments, chance.random()

        waiting = min(self.open_to(rater), key=rank, default=None)
        return waiting.task if waiting else None

    def held(self, rater: Rater) -> PersonTask | None:
        """The unanswered task that the rater was given."""
        for address, name in self._histories.holder.items():
            if name == rater.name and address in self.waiting:
                return self.waiting[address].task
        return None

    def open_to(self, rater: Rater) -> list[WaitingTask]:
        """The tasks that the rater has or may get."""
        model = f"{PERSON}{rater.panel}"
        return [
            waiting
            for address, waiting in self.waiting.items()
            if waiting.task.call.model == model and self._may(rater, address, waiting)
        ]

    def shown_for(self, rater: str, address: str) -> float:
        """Seconds since this process first showed a rater a task, which may be now."""
        return now() - self._shown.setdefault((rater, address), now())

    def _may(self, rater: Rater, address: str, waiting: WaitingTask) -> bool:
        holder = self._histories.holder.get(address)
        if holder == rater.name:
            return True
        # After a restart, the time of a task starts at zero.
        if holder is not None and self.shown_for(holder, address) <= self._returned_after:
            return False
        task = waiting.task
        if moments := self._histories.of[rater.name].moments.get(task.problem):
            return all(map(task.continues, moments))
        # The assigned rater, or a rater of the same conversation, comes first.
        return now() - waiting.since > self._returned_after or (
            self._assigned.get(address, rater.name) == rater.name
            and not any(
                moments and not other.withdrawn and all(map(task.continues, moments))
                for name, other in self._histories.of.items()
                if name != rater.name and (moments := other.moments.get(task.problem, []))
            )
        )


def balanced_assignment(
    tasks: Mapping[str, TaskKind],
    raters: Sequence[str],
    before: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
) -> dict[str, str]:
    """A rater for each task. No rater gets two tasks of a problem; loads and counts of each kind
    are as equal as possible. before: the rater of each task that was given before; these stay, and
    count. A task that nobody may get has no rater. Problems are in seeded order, and the rater with
    the least comes next."""
    assigned = dict(before or {})
    load = Counter(assigned.values())
    of_kind = Counter((rater, tasks[task].kind) for task, rater in assigned.items())
    by_problem: defaultdict[str, list[str]] = defaultdict(list)
    for task, kind in tasks.items():
        by_problem[kind.problem].append(task)
    for problem in sorted(by_problem, key=lambda p: randomness(seed, p, "assignment").random()):
        free = sorted(set(by_problem[problem]) - assigned.keys())
        able = sorted(set(raters) - {assigned.get(task) for task in by_problem[problem]})
        chance = randomness(seed, problem, "ties")
        while free and able:
            # Loads first, then kinds, then chance.
            *_, task, rater = min(
                (load[rater], of_kind[rater, tasks[task].kind], chance.random(), task, rater)
                for task in free
                for rater in able
            )
            assigned[task] = rater
            load[rater] += 1
            of_kind[rater, tasks[task].kind] += 1
            free.remove(task)
            able.remove(rater)
    return assigned


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Settings of the raters' tasks."""

    seed: int = 0
    """Seed of the order of tasks."""
    before: bool = True
    """Whether a rater states a belief before the transcript is shown."""
    returned_after: float = 3600.0
    """Seconds after which an unanswered task goes to another rater."""
    consent: str = ""
    """Text that raters agree to before they begin, in addition to the standard one."""


class NotTheirs(Exception):
    """A rater answers another rater's task, or one that is already answered."""


class NotReady(Exception):
    """After a restart, the call has not come back yet. The answer can be sent again soon."""


@dataclass(frozen=True, slots=True)
class TaskOffer:
    """The current task of a rater."""

    ticket: str
    """Opaque name of the task on the rater's page; it reveals nothing about the call."""
    task: PersonTask
    before: bool
    """Whether the page asks for a belief before it shows the transcript."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    answered: int
    """Number of tasks that this rater has answered or abstained from."""
    waiting: int
    """Number of problems with a waiting task that this rater may answer."""
    complete: bool
    """Whether these are all of this rater's tasks."""


class TaskQueue(Provider):
    """Answers calls of `person/NAME` when a rater of that panel has. It belongs to one event loop,
    and to the process that holds the lock of the run's `persons` folder. Each event is in the
    journal before it takes effect.

    A stop ends every wait with its Halt. Nothing is lost: answers are in the journal."""

    def __init__(
        self,
        raters: Iterable[Rater],
        run: Path,
        stop_token: StopToken,
        settings: QueueSettings | None = None,
    ) -> None:
        """Restores the state from the journal of a run: open tasks stay with their raters.
        RunFolderError if the run cannot be written."""
        self.settings = settings = settings or QueueSettings()
        self.raters = {rater.name: rater for rater in raters}
        self.histories = RaterHistories(self.raters.values())
        self.over = False
        """Whether there will be no more tasks."""
        self.assignment = TaskAssignment(self.histories, settings.seed, settings.returned_after)
        self.stop_token = stop_token
        self._run, self._lock = run, asyncio.Lock()
        self._news = asyncio.Event()
        self._warned = False
        stop_token.listen(self._halted)
        sync_events(run)
        for event in read_journal(run):
            self.histories.note(event)

    async def __call__(self, call: Call) -> Reply:
        """The reply, once a rater has given it. A cancelled call is no longer offered."""
        self.stop_token.raise_if_stopped()
        address, task, waiting = call.address, PersonTask(call), self.assignment.waiting
        if (event := self.histories.settled.get(address)) is not None:
            # The process ended after the answer was journalled, and before it was stored.
            answer = None if event.posted is None else task.read(event.posted)
            return task.reply(answer, event.rater)
        if address not in waiting:
            answered = asyncio.get_running_loop().create_future()
            waiting[address] = WaitingTask(task, answered, now())
            self._notify()
        try:
            return await asyncio.shield(waiting[address].answered)
        except asyncio.CancelledError:
            waiting.pop(address, None)
            raise

    async def close(self) -> None:
        """Nothing to release."""

    def finish(self) -> None:
        """Mark the end of the tasks, and notify waiting pages."""
        self.over = True
        self._notify()

    async def news(self, seconds: float) -> None:
        """Return when anything has changed, or after some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def progress(self, rater: Rater) -> RaterProgress:
        problems = {waiting.task.problem for waiting in self.assignment.open_to(rater)}
        answered = len(self.histories.of[rater.name].answers)
        return RaterProgress(answered, len(problems), bool(self.assignment.planned))

    def finished(self, rater: Rater) -> bool:
        """Whether the rater will get no more tasks."""
        history = self.histories.of[rater.name]
        if self.over or history.withdrawn:
            return True
        planned = self.assignment.planned and history.answers
        return bool(planned) and not self.assignment.open_to(rater)

    def has_for(self, rater: Rater) -> bool:
        """Whether `offer` would return a task."""
        return not self.finished(rater) and self._chosen(rater) is not None

    async def consent(self, rater: Rater) -> None:
        """The rater agrees to take part."""
        async with self._lock:
            if not self.histories.of[rater.name].consented:
                await self._keep(ConsentGiven(rater.name, int(time.time())))

    async def withdraw(self, name: str, *, erasing: bool) -> None:
        """Remove a rater from every figure and export. Open tasks go to other raters; answered
        tasks stay answered. erasing: also delete the answers, so that other raters get the tasks.
        KeyError for an unknown rater."""
        async with self._lock:
            if self.histories.of[name].withdrawn and not erasing:
                return
            await self._keep(Withdrawn(name, erasing, int(time.time())))
            self.assignment.release(name)
            if erasing:
                await asyncio.to_thread(erase, self._run, name)

    async def offer(self, rater: Rater) -> TaskOffer | None:
        """The rater's current task, or a new one; None if all are taken."""
        async with self._lock:
            if self.finished(rater):
                return None
            task = self._chosen(rater)
            if task is None:
                self._warn_if_stuck()
                return None
            address, history = task.call.address, self.histories.of[rater.name]
            if self.histories.holder.get(address) != rater.name:
                about = (task.request, task.problem, task.order, task.moment, int(time.time()))
                planned = self.assignment.planned.get(address)
                transcript = None if planned is None else planned.transcript
                await self._keep(TaskGiven(rater.name, address, *about, transcript))
            self.assignment.shown_for(rater.name, address)  # its time counts from now on
            asks_before = self.settings.before and bool(task.turns) and task.is_probable
            before = asks_before and address not in history.before
            return TaskOffer(rater.ticket(address), task, before)

    async def believe(self, rater: Rater, ticket: str, posted: Mapping[str, str]) -> None:
        """Save the rater's belief before the transcript. NotTheirs, NotReady; ValueError, in words
        for the rater, for an incomplete answer."""
        async with self._lock:
            address, task = self._theirs(rater, ticket)
            if address not in self.histories.of[rater.name].before:
                seconds = self._seconds(rater, address)
                probs = task.probabilities(posted)
                await self._keep(BeliefBefore(rater.name, address, probs, seconds))

    async def answer(self, rater: Rater, ticket: str, posted: Mapping[str, str] | None) -> None:
        """Save an answer, which is durable when this returns. Sending the same answer again changes
        nothing. None: the rater abstains, which is a refusal. Raises as `believe`."""
        async with self._lock:
            if _is_saved(self.histories.of[rater.name], ticket, posted):
                return
            address, task = self._theirs(rater, ticket)
            answer = None if posted is None else task.read(posted)
            form, probs = None if posted is None else dict(posted), answer.probs if answer else None
            about = form, probs, self._seconds(rater, address), int(time.time())
            await self._keep(TaskAnswered(rater.name, address, *about))
            waiting = self.assignment.waiting.pop(address, None)
            if waiting is not None and not waiting.answered.done():
                waiting.answered.set_result(task.reply(answer, rater.name))

    async def _keep(self, event: RaterEvent) -> None:
        """Journal an event before applying it, so that nothing is shown before it is durable."""
        await asyncio.to_thread(note, self._run, event)
        self.histories.note(event)
        self._notify()

    def _chosen(self, rater: Rater) -> PersonTask | None:
        return self.assignment.held(rater) or self.assignment.choose(rater)

    def _theirs(self, rater: Rater, ticket: str) -> tuple[str, PersonTask]:
        history = self.histories.of[rater.name]
        address = history.tickets.get(ticket)
        if address is None:
            raise NotTheirs("This task is not yours.")
        if history.withdrawn:
            raise NotTheirs(LEFT)
        holder = self.histories.holder.get(address)
        if address in self.histories.settled or holder not in (None, rater.name):
            raise NotTheirs("You left this one for a while, and someone else has it now.")
        if address not in self.assignment.waiting:
            raise NotReady("The study is just being resumed.")
        return address, self.assignment.waiting[address].task

    def _seconds(self, rater: Rater, address: str) -> float:
        return round(self.assignment.shown_for(rater.name, address), 1)

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _halted(self) -> None:
        halt = self.stop_token.halt
        for waiting in self.assignment.waiting.values():
            if halt is not None and not waiting.answered.done():
                waiting.answered.set_exception(halt)
        self.assignment.waiting.clear()
        self._notify()

    def _warn_if_stuck(self) -> None:
        waiting = self.assignment.waiting
        if self._warned or not waiting:
            return
        if not any(self.assignment.open_to(rater) for rater in self.raters.values()):
            self._warned = True
            log.warning(
                "%d tasks wait for another rater: every rater here has had the problem, in another "
                "world or row; stop, and resume with a higher --raters",
                sum(address not in self.histories.holder for address in waiting),
            )


def _is_saved(history: RaterHistory, ticket: str, posted: Mapping[str, str] | None) -> bool:
    """Whether the same answer was saved before. NotTheirs for a different answer, and for a rater
    who has left."""
    if history.withdrawn:
        raise NotTheirs(LEFT)
    address = history.tickets.get(ticket, "")
    if address not in history.answers:
        return False
    if history.answers[address] != posted:
        raise NotTheirs("You have already answered this; the first answer that was saved stands.")
    return True
