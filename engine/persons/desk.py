"""The desk: calls wait here until a rater has answered them.

Who gets what:
  - a rater never gets two conversations about one problem: neither its other world, nor the same
    transcript in another order of answers, nor another protocol on it, nor another draw;
  - whoever began a conversation goes on with it, where a seat speaks more than once;
  - where all tasks are known beforehand, each is assigned to a rater, and goes to another one only
    after it was let lie;
  - all else is by chance, of seed, rater and call.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.persons.assignment import TaskKind, balanced_assignment
from oversight.engine.persons.checks import PASSED, attention_task
from oversight.engine.persons.journal import (
    BeliefBefore,
    CheckAnswered,
    ConsentGiven,
    RaterEvent,
    RaterJournal,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    TaskReturned,
    read_journal,
)
from oversight.engine.persons.panel import PERSON, Rater
from oversight.engine.persons.task import Moment, PersonTask, short_digest
from oversight.engine.providers.provider import Provider
from oversight.engine.stop import StopToken
from oversight.protocols.question import randomness

GRACE = 5.0
"""Seconds beyond the budget in which an answer that was sent in time may still arrive."""

log = logging.getLogger(__name__)


class NotTheirs(Exception):
    """A rater sends an answer to what is not theirs to answer, or is answered already."""


class NotReady(Exception):
    """The call has not come back yet after a restart: the same answer is taken a moment later."""


@dataclass(frozen=True, slots=True)
class DeskSettings:
    """How raters are asked."""

    seed: int = 0
    """Of the order in which tasks are handed out, and of attention items."""
    budget: float | None = None
    """Seconds for one task, after which the rater has abstained; None: as long as it takes."""
    before: bool = True
    """Whether a rater states a belief before the transcript is shown."""
    checks_every: int = 10
    """One attention item in so many answers; 0: none."""
    returned_after: float = 3600.0
    """Seconds after which a task that was let lie goes to another rater."""


@dataclass(frozen=True, slots=True)
class DeskOffer:
    """What a rater has on the desk now."""

    ticket: str
    """What the rater's page calls it: it tells nothing of the call."""
    task: PersonTask
    stage: Literal["before", "whole"]
    left: float | None
    """Seconds that are left; None without a budget."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    answered: int
    """Tasks that this rater has answered or abstained from."""
    waiting: int
    """Problems of which a task waits that this rater may answer."""


@dataclass(slots=True)
class _Waiting:
    task: PersonTask
    answered: "asyncio.Future[Reply]"
    since: float


@dataclass
class _History:
    """What the desk knows of one rater."""

    seen: dict[str, list[Moment]] = field(default_factory=dict)
    """By problem."""
    given: dict[str, str] = field(default_factory=dict)
    """Ticket -> task."""
    done: dict[str, Mapping[str, str] | None] = field(default_factory=dict)
    """Task -> what was sent; None for an abstention, and empty for an attention item."""
    before: set[str] = field(default_factory=set)
    let_lie: set[str] = field(default_factory=set)
    checks: int = 0
    answers: int = 0
    consented: bool = False


class Desk(Provider):
    """Answers calls of `person/NAME` when a rater of that panel has; belongs to one event loop.

    A pulled stop token ends every wait with its Halt: nobody waits for a person to save a run,
    whose answer would be found in the journal anyway.
    """

    def __init__(
        self,
        raters: Iterable[Rater],
        journal: RaterJournal,
        stop_token: StopToken,
        settings: DeskSettings | None = None,
    ) -> None:
        """What the journal has is taken up: tasks under way stay with whoever has them."""
        self.settings = settings or DeskSettings()
        self.raters = {rater.name: rater for rater in raters}
        self._assigned: dict[str, str] = {}
        self.over = False
        """Whether there will be no more tasks."""
        self._stop = stop_token
        self._journal = journal
        self._waiting: dict[str, _Waiting] = {}
        self._settled: dict[str, TaskAnswered | TaskAbstained] = {}
        self._holder: dict[str, str] = {}
        self._shown: dict[tuple[str, str], float] = {}
        self._checks: dict[str, tuple[PersonTask, int]] = {}
        self._of = {name: _History() for name in self.raters}
        self._lock = asyncio.Lock()
        self._news = asyncio.Event()
        self._warned = False
        for event in read_journal(journal.folder):
            if event.rater in self._of:
                self._note(event)
        stop_token.listen(self._halted)

    async def __call__(self, call: Call) -> Reply:
        """The reply, once a rater has given it. Cancelled, it is no longer offered."""
        self._stop.raise_if_stopped()
        address, task = call.address, PersonTask(call)
        if (event := self._settled.get(address)) is not None:
            # It was saved here, and the process ended before the store had it.
            answer = task.read(event.posted) if isinstance(event, TaskAnswered) else None
            return task.reply(answer, event.rater)
        loop = asyncio.get_running_loop()
        entry = self._waiting.get(address)
        if entry is None:
            entry = self._waiting[address] = _Waiting(task, loop.create_future(), loop.time())
            self._tell()
        try:
            return await asyncio.shield(entry.answered)
        except asyncio.CancelledError:
            self._waiting.pop(address, None)
            raise

    async def close(self) -> None:
        """There is nothing to release."""

    def assign(self, tasks: Mapping[str, TaskKind]) -> None:
        """Say beforehand who is to get which of these tasks, by their addresses. What was given
        before stays with whoever has or had it."""
        taken = {
            task: name
            for name, history in self._of.items()
            for task in history.given.values()
            if task in tasks and task not in history.let_lie
        }
        seed = self.settings.seed
        self._assigned = balanced_assignment(tasks, [*self.raters], taken, seed=seed)

    def finish(self) -> None:
        """There are no more tasks: whoever waits is told so."""
        self.over = True
        self._tell()

    @property
    def stopped(self) -> bool:
        """Whether the work goes on another time."""
        return self._stop.halt is not None

    async def news(self, most: float) -> None:
        """Return when anything has changed, or after `most` seconds."""
        try:
            async with asyncio.timeout(most):
                await self._news.wait()
        except TimeoutError:
            return

    def consented(self, rater: Rater) -> bool:
        return self._of[rater.name].consented

    async def consent(self, rater: Rater) -> None:
        """The rater agrees to take part."""
        async with self._lock:
            if not self.consented(rater):
                await self._keep(ConsentGiven(rater.name, int(time.time())))

    def progress(self, rater: Rater) -> RaterProgress:
        now = asyncio.get_running_loop().time()
        may = {each.task.problem for each in self._open_to(rater, now)}
        return RaterProgress(self._of[rater.name].answers, len(may))

    def has_for(self, rater: Rater) -> bool:
        """Whether `offer` would give anything."""
        return self._chosen(rater, asyncio.get_running_loop().time()) is not None

    async def offer(self, rater: Rater) -> DeskOffer | None:
        """What the rater has on the desk, or gets now; None while there is nothing for them."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            task = self._chosen(rater, now)
            if task is None:
                self._warn_if_stuck(now)
                return None
            address = task.call.address
            if self._holder.get(address) != rater.name:
                if (other := self._holder.get(address)) is not None:
                    await self._keep(TaskReturned(other, address, int(time.time())))
                await self._keep(
                    TaskGiven(rater.name, address, task.problem, task.moment, int(time.time()))
                )
            shown = self._shown.setdefault((rater.name, address), now)
            budget = self.settings.budget
            left = None if budget is None else max(budget - (now - shown), 0.0)
            history = self._of[rater.name]
            first = self.settings.before and bool(task.turns) and task.is_probable
            stage: Literal["before", "whole"] = (
                "before" if first and address not in history.before else "whole"
            )
            return DeskOffer(self._ticket(rater.name, address), task, stage, left)

    async def believe(self, rater: Rater, ticket: str, posted: Mapping[str, str]) -> None:
        """What the rater believes before the transcript. NotTheirs, NotReady; ValueError, in words
        for the rater, where it is not whole."""
        async with self._lock:
            address, task = self._theirs(rater, ticket)
            if address not in self._of[rater.name].before:
                seconds = self._seconds(rater, address)
                probs = task.probabilities(posted)
                await self._keep(BeliefBefore(rater.name, address, probs, seconds))

    async def answer(self, rater: Rater, ticket: str, posted: Mapping[str, str]) -> bool:
        """Save an answer, which is durable when this returns; False where it came after the
        budget, and counts as an abstention. The same answer again changes nothing. Raises as
        `believe`."""
        async with self._lock:
            history = self._of[rater.name]
            sent = {name: text for name, text in posted.items() if name != "ticket"}
            if _is_saved(history, ticket, sent):
                return True
            address, task = self._theirs(rater, ticket)
            answer, seconds = task.read(sent), self._seconds(rater, address)
            now = int(time.time())
            if address in self._checks:
                wanted = self._checks[address][1]
                passed = answer.probs is not None and answer.probs[wanted] >= PASSED
                await self._keep(CheckAnswered(rater.name, address, passed, seconds, now))
            elif self.settings.budget is not None and seconds > self.settings.budget + GRACE:
                await self._abstain(rater, task, "time")
                return False
            else:
                event = TaskAnswered(
                    rater.name,
                    address,
                    task.request,
                    task.problem,
                    task.order,
                    sent,
                    answer.probs,
                    seconds,
                    now,
                )
                await self._keep(event)
                self._land(address, task.reply(answer, rater.name))
            return True

    async def abstain(self, rater: Rater, ticket: str, why: Literal["asked", "time"]) -> None:
        """The rater gives no answer: a refusal, which is kept and stored. Raises as `believe`."""
        async with self._lock:
            history = self._of[rater.name]
            if _is_saved(history, ticket, None):
                return
            address, task = self._theirs(rater, ticket)
            if address in self._checks:
                seconds = self._seconds(rater, address)
                now = int(time.time())
                await self._keep(CheckAnswered(rater.name, address, False, seconds, now))
            else:
                await self._abstain(rater, task, why)

    async def _abstain(self, rater: Rater, task: PersonTask, why: Literal["asked", "time"]) -> None:
        address = task.call.address
        await self._keep(
            TaskAbstained(
                rater.name,
                address,
                task.request,
                task.problem,
                why,
                self._seconds(rater, address),
                int(time.time()),
            )
        )
        self._land(address, task.reply(None, rater.name))

    async def _keep(self, event: RaterEvent) -> None:
        """Durable first: what is not on the disk is told to nobody."""
        await asyncio.to_thread(self._journal.append, event)
        self._note(event)
        self._tell()

    def _note(self, event: RaterEvent) -> None:
        history = self._of[event.rater]
        match event:
            case ConsentGiven():
                history.consented = True
            case TaskGiven():
                history.given[self._ticket(event.rater, event.task)] = event.task
                history.seen.setdefault(event.problem, []).append(event.moment)
                history.let_lie.discard(event.task)
                self._holder[event.task] = event.rater
            case BeliefBefore():
                history.before.add(event.task)
            case TaskReturned():
                history.let_lie.add(event.task)
                self._holder.pop(event.task, None)
            case CheckAnswered():
                history.checks += 1
                history.done[event.task] = {}
                self._holder.pop(event.task, None)
            case TaskAnswered() | TaskAbstained():
                posted = event.posted if isinstance(event, TaskAnswered) else None
                history.done[event.task] = posted
                history.answers += 1
                self._settled[event.task] = event
                self._holder.pop(event.task, None)

    def _chosen(self, rater: Rater, now: float) -> PersonTask | None:
        history = self._of[rater.name]
        for address in (each for each, who in self._holder.items() if who == rater.name):
            if address in self._waiting:
                return self._waiting[address].task
        may = self._open_to(rater, now)
        if may and (check := self._check_due(rater)) is not None:
            return check

        def rank(each: _Waiting) -> tuple[bool, float]:
            about = f"{rater.name} {each.task.call.address}"
            goes_on = each.task.problem in history.seen
            return not goes_on, randomness(self.settings.seed, about, "desk").random()

        return min(may, key=rank).task if may else None

    def _open_to(self, rater: Rater, now: float) -> list[_Waiting]:
        """The tasks that the rater may get, or has."""
        model = f"{PERSON}{rater.panel}"
        return [
            each
            for address, each in self._waiting.items()
            if each.task.call.model == model and self._may(rater, address, each, now)
        ]

    def _may(self, rater: Rater, address: str, each: _Waiting, now: float) -> bool:
        holder = self._holder.get(address)
        if holder == rater.name:
            return True
        if holder is not None and not self._lies(holder, address, now):
            return False
        seen = self._of[rater.name].seen.get(each.task.problem)
        if seen:
            return all(map(each.task.continues, seen))
        # Whoever it is assigned to, or is in the conversation that it goes on with, comes first.
        return now - each.since > self.settings.returned_after or (
            self._assigned.get(address, rater.name) == rater.name
            and not any(
                self._goes_on(name, address, each.task) for name in self._of if name != rater.name
            )
        )

    def _goes_on(self, name: str, address: str, task: PersonTask) -> bool:
        history = self._of[name]
        seen = history.seen.get(task.problem, ())
        return bool(seen) and address not in history.let_lie and all(map(task.continues, seen))

    def _lies(self, holder: str, address: str, now: float) -> bool:
        """Whether a task was let lie; the clock of one from before a restart begins anew."""
        return now - self._shown.setdefault((holder, address), now) > self.settings.returned_after

    def _check_due(self, rater: Rater) -> PersonTask | None:
        every, history = self.settings.checks_every, self._of[rater.name]
        if not every:
            return None
        number = history.checks
        chance = randomness(self.settings.seed, f"{rater.name} {number}", "attention place")
        if history.answers < number * every + chance.randrange(1, every + 1):
            return None
        model = f"{PERSON}{rater.panel}"
        made = attention_task(model, self.settings.seed, rater.name, number)
        self._checks[made[0].call.address] = made
        return made[0]

    def _theirs(self, rater: Rater, ticket: str) -> tuple[str, PersonTask]:
        address = self._of[rater.name].given.get(ticket)
        if address is None:
            raise NotTheirs("This is not on your desk.")
        holder = self._holder.get(address)
        if address in self._settled or holder not in (None, rater.name):
            raise NotTheirs("This was left lying for a while, and somebody else has it now.")
        if address not in self._checks:
            self._check_due(rater)
        if address in self._checks:
            return address, self._checks[address][0]
        if address not in self._waiting:
            raise NotReady("The run is just being taken up again.")
        return address, self._waiting[address].task

    def _seconds(self, rater: Rater, address: str) -> float:
        now = asyncio.get_running_loop().time()
        return round(now - self._shown.setdefault((rater.name, address), now), 1)

    def _land(self, address: str, reply: Reply) -> None:
        entry = self._waiting.pop(address, None)
        if entry is not None and not entry.answered.done():
            entry.answered.set_result(reply)

    def _ticket(self, rater: str, address: str) -> str:
        """Only the server can make one: the rater's key is in it."""
        return short_digest(f"{self.raters[rater].key} {address}")

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _halted(self) -> None:
        halt = self._stop.halt
        for entry in self._waiting.values():
            if halt is not None and not entry.answered.done():
                entry.answered.set_exception(halt)
        self._waiting.clear()

    def _warn_if_stuck(self, now: float) -> None:
        if self._warned or not self._waiting:
            return
        if not any(self._open_to(rater, now) for rater in self.raters.values()):
            self._warned = True
            held = sum(address in self._holder for address in self._waiting)
            log.warning(
                "%d tasks wait for another rater: everyone here has had their problem, in another "
                "world or row; stop, and go on with a higher --raters",
                len(self._waiting) - held,
            )


def _is_saved(history: _History, ticket: str, sent: Mapping[str, str] | None) -> bool:
    """Whether just this was sent before. NotTheirs if something else was."""
    address = history.given.get(ticket, "")
    if address not in history.done:
        return False
    if history.done[address] not in (sent, {}):
        raise NotTheirs("This was answered before, and what was saved first stands.")
    return True
