"""The desk, where calls wait until a rater has answered them, and the pool of waiting tasks.

The rules of assignment:
  - a rater never gets two conversations about one problem: neither its other world, nor the same
    transcript in another order of answers, nor another protocol on it, nor another draw;
  - a rater who began a conversation continues it, where a seat speaks more than once;
  - if all tasks are known beforehand, each is assigned to a rater, and goes to another one only
    after it has been unanswered for too long;
  - everything else is by chance, of seed, rater and call.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
    DeskHistory,
    JudgedTranscript,
    Rater,
    RaterEvent,
    RaterHistory,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    erase,
    note,
    read_journal,
)
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


LEFT = "You have left this study; nothing more about you is kept."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeskSettings:
    """Settings of the raters' tasks."""

    seed: int = 0
    """Seed of the order of tasks."""
    before: bool = True
    """Whether a rater states a belief before the transcript is shown."""
    returned_after: float = 3600.0
    """Seconds after which an unanswered task goes to another rater."""
    consent: str = ""
    """What raters agree to before they begin, beside what every one of them is told."""


class NotTheirs(Exception):
    """A rater answers a task that is not theirs, or that is answered already."""


class NotReady(Exception):
    """The call has not come back yet after a restart: the same answer is taken a moment later."""


@dataclass(frozen=True, slots=True)
class DeskOffer:
    """The current task of a rater."""

    ticket: str
    """Opaque name of the task on the rater's page; it reveals nothing about the call."""
    task: PersonTask
    before: bool
    """Whether a belief is asked for, before the transcript is shown."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    answered: int
    """Number of tasks that this rater has answered or abstained from."""
    waiting: int
    """Number of problems with a waiting task that this rater may answer."""
    known: bool
    """Whether these are all until the end of this rater's part."""


class Desk(Provider):
    """Answers calls of `person/NAME` when a rater of that panel has; belongs to one event loop, and
    to whoever holds the lock of the run's `persons` folder. Each act is journalled before it
    applies.

    A pulled stop token ends every wait with its Halt: nobody waits for a person to save a run,
    whose answer would be found in the journal anyway.
    """

    def __init__(
        self,
        raters: Iterable[Rater],
        run: Path,
        stop_token: StopToken,
        settings: DeskSettings | None = None,
    ) -> None:
        """Restores the state in the journal of a run: tasks in progress stay with their raters.
        RunFolderError where the run cannot be written."""
        self.settings = settings = settings or DeskSettings()
        self.raters = {rater.name: rater for rater in raters}
        self.history = DeskHistory(self.raters.values())
        self.over = False
        """Whether there will be no more tasks."""
        self.pool = TaskPool(self.history, settings.seed, settings.returned_after)
        self.stop_token = stop_token
        self._run, self._lock = run, asyncio.Lock()
        self._news = asyncio.Event()
        self._warned = False
        stop_token.listen(self._halted)
        sync_events(run)
        for event in read_journal(run):
            self.history.note(event)

    async def __call__(self, call: Call) -> Reply:
        """The reply, once a rater has given it. Cancelled, it is no longer offered."""
        self.stop_token.raise_if_stopped()
        address, task = call.address, PersonTask(call)
        if (event := self.history.settled.get(address)) is not None:
            # The answer was journalled, but the process ended before it was stored.
            answer = task.read(event.posted) if isinstance(event, TaskAnswered) else None
            return task.reply(answer, event.rater)
        entry = self.pool.waiting.get(address)
        if entry is None:
            answered = asyncio.get_running_loop().create_future()
            entry = self.pool.waiting[address] = WaitingTask(task, answered, now())
            self._tell()
        try:
            return await asyncio.shield(entry.answered)
        except asyncio.CancelledError:
            self.pool.waiting.pop(address, None)
            raise

    async def close(self) -> None:
        """There is nothing to release."""

    def finish(self) -> None:
        """Mark the end of the tasks, and notify waiting pages."""
        self.over = True
        self._tell()

    async def news(self, most: float) -> None:
        """Return when anything has changed, or after `most` seconds."""
        try:
            async with asyncio.timeout(most):
                await self._news.wait()
        except TimeoutError:
            return

    def progress(self, rater: Rater) -> RaterProgress:
        problems = {each.task.problem for each in self.pool.open_to(rater)}
        answered = len(self.history.of[rater.name].done)
        return RaterProgress(answered, len(problems), bool(self.pool.planned))

    def finished(self, rater: Rater) -> bool:
        """Whether nothing more will come for a rater: all is over, or they withdrew."""
        history = self.history.of[rater.name]
        if self.over or history.withdrawn:
            return True
        return bool(self.pool.planned and history.done) and not self.pool.open_to(rater)

    def has_for(self, rater: Rater) -> bool:
        """Whether `offer` would return a task."""
        return not self.finished(rater) and self._chosen(rater) is not None

    async def consent(self, rater: Rater) -> None:
        """The rater agrees to take part."""
        async with self._lock:
            if not self.history.of[rater.name].consented:
                await self._keep(ConsentGiven(rater.name, int(time.time())))

    async def withdraw(self, name: str, *, erasing: bool) -> None:
        """Take a rater out, with what they had: in no figure, and no export. Their open tasks go to
        others; what they answered stays answered. erasing: also delete their answers, so that
        others are asked in their place. KeyError for nobody."""
        async with self._lock:
            if self.history.of[name].withdrawn and not erasing:
                return
            await self._keep(Withdrawn(name, erasing, int(time.time())))
            self.pool.release(name)
            if erasing:
                await asyncio.to_thread(erase, self._run, name)

    async def offer(self, rater: Rater) -> DeskOffer | None:
        """The rater's current task, or else a new one; None if there is none for them."""
        async with self._lock:
            if self.finished(rater):
                return None
            task = self._chosen(rater)
            if task is None:
                self._warn_if_stuck()
                return None
            address, history = task.call.address, self.history.of[rater.name]
            if self.history.holder.get(address) != rater.name:
                about = (task.request, task.problem, task.order, task.moment, int(time.time()))
                planned = self.pool.planned.get(address)
                transcript = None if planned is None else planned.transcript
                await self._keep(TaskGiven(rater.name, address, *about, transcript))
            self.pool.shown_for(rater.name, address)  # its time counts from now on
            asked_before = self.settings.before and bool(task.turns) and task.is_probable
            before = asked_before and address not in history.before
            return DeskOffer(rater.ticket(address), task, before)

    async def believe(self, rater: Rater, ticket: str, posted: Mapping[str, str]) -> None:
        """What the rater believes before the transcript. NotTheirs, NotReady; ValueError, in words
        for the rater, where it is not whole."""
        async with self._lock:
            address, task = self._theirs(rater, ticket)
            if address not in self.history.of[rater.name].before:
                seconds = self._seconds(rater, address)
                probs = task.probabilities(posted)
                await self._keep(BeliefBefore(rater.name, address, probs, seconds))

    async def answer(self, rater: Rater, ticket: str, posted: Mapping[str, str]) -> None:
        """Save an answer, which is durable when this returns. The same answer again changes
        nothing. Raises as `believe`."""
        async with self._lock:
            if not _is_saved(self.history.of[rater.name], ticket, posted):
                address, task = self._theirs(rater, ticket)
                answer, seconds = task.read(posted), self._seconds(rater, address)
                about = dict(posted), answer.probs, seconds, int(time.time())
                await self._keep(TaskAnswered(rater.name, address, *about))
                self._land(address, task.reply(answer, rater.name))

    async def abstain(self, rater: Rater, ticket: str) -> None:
        """The rater gives no answer: a refusal, which is kept and stored. Raises as `believe`."""
        async with self._lock:
            if not _is_saved(self.history.of[rater.name], ticket, None):
                address, task = self._theirs(rater, ticket)
                seconds = self._seconds(rater, address)
                await self._keep(TaskAbstained(rater.name, address, seconds, int(time.time())))
                self._land(address, task.reply(None, rater.name))

    async def _keep(self, event: RaterEvent) -> None:
        """Journal an event before applying it: nothing is shown that is not durable."""
        await asyncio.to_thread(note, self._run, event)
        self.history.note(event)
        self._tell()

    def _chosen(self, rater: Rater) -> PersonTask | None:
        return self.pool.held(rater) or self.pool.choose(rater)

    def _theirs(self, rater: Rater, ticket: str) -> tuple[str, PersonTask]:
        history = self.history.of[rater.name]
        address = history.given.get(ticket)
        if address is None:
            raise NotTheirs("This task is not yours.")
        if history.withdrawn:
            raise NotTheirs(LEFT)
        holder = self.history.holder.get(address)
        if address in self.history.settled or holder not in (None, rater.name):
            raise NotTheirs("You left this one for a while, and someone else has it now.")
        if address not in self.pool.waiting:
            raise NotReady("The study is just being resumed.")
        return address, self.pool.waiting[address].task

    def _seconds(self, rater: Rater, address: str) -> float:
        return round(self.pool.shown_for(rater.name, address), 1)

    def _land(self, address: str, reply: Reply) -> None:
        entry = self.pool.waiting.pop(address, None)
        if entry is not None and not entry.answered.done():
            entry.answered.set_result(reply)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _halted(self) -> None:
        halt = self.stop_token.halt
        for entry in self.pool.waiting.values():
            if halt is not None and not entry.answered.done():
                entry.answered.set_exception(halt)
        self.pool.waiting.clear()
        self._tell()

    def _warn_if_stuck(self) -> None:
        waiting = self.pool.waiting
        if self._warned or not waiting:
            return
        if not any(self.pool.open_to(rater) for rater in self.raters.values()):
            self._warned = True
            log.warning(
                "%d tasks wait for another rater: everyone here has had their problem, in another "
                "world or row; stop, and go on with a higher --raters",
                sum(address not in self.history.holder for address in waiting),
            )


def _is_saved(history: RaterHistory, ticket: str, sent: Mapping[str, str] | None) -> bool:
    """Whether just this was sent before. NotTheirs if something else was, or they have left."""
    if history.withdrawn:
        raise NotTheirs(LEFT)
    address = history.given.get(ticket, "")
    if address not in history.done:
        return False
    if history.done[address] != sent:
        raise NotTheirs("You have already answered this; the first answer that was saved stands.")
    return True
