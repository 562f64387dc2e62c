"""The raters' histories from the journal: tasks given, results, holders; and what raters decide."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .journal import (
    BeliefBefore,
    ConsentGiven,
    RaterEvent,
    RaterJournal,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    TaskReturned,
    Withdrawn,
    read_journal,
)
from .panel import Rater
from .task import Moment


@dataclass
class RaterHistory:
    """The history of one rater."""

    rater: Rater
    seen: dict[str, list[Moment]] = field(default_factory=dict)
    """By problem."""
    given: dict[str, str] = field(default_factory=dict)
    """Ticket -> task."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Number of tasks given, of each kind, and of each world in any row."""
    done: dict[str, Mapping[str, str] | None] = field(default_factory=dict)
    """Task -> form sent; None for an abstention."""
    before: set[str] = field(default_factory=set)
    """Tasks with a belief before the transcript."""
    returned: set[str] = field(default_factory=set)
    """Tasks that lay unanswered for too long, and went to another rater."""
    answers: int = 0
    """Tasks that were answered or abstained from."""
    consented: bool = False
    withdrawn: bool = False


class DeskHistory:
    """The histories of all raters."""

    def __init__(self, raters: Iterable[Rater]) -> None:
        self.of = {rater.name: RaterHistory(rater) for rater in raters}
        self.holder: dict[str, str] = {}
        """Task -> the rater who has it and has not answered yet."""
        self.settled: dict[str, TaskAnswered | TaskAbstained] = {}

    def note(self, event: RaterEvent) -> None:
        """Take an event in, in the order of the journal. Events of raters who are not at this desk
        are passed over."""
        history = self.of.get(event.rater)
        if history is None:
            return
        match event:
            case ConsentGiven():
                history.consented = True
            case TaskGiven():
                history.given[history.rater.ticket(event.task)] = event.task
                history.returned.discard(event.task)
                self.holder[event.task] = event.rater
                history.seen.setdefault(event.problem, []).append(event.moment)
                history.kinds.update((event.kind, event.kind.rpartition(" ")[2]))
            case BeliefBefore():
                history.before.add(event.task)
            case Withdrawn():
                history.withdrawn = True
                for task in [task for task, who in self.holder.items() if who == event.rater]:
                    del self.holder[task]
                if event.erased:
                    # There is no answer any more, and another rater may give one.
                    theirs = [task for task, e in self.settled.items() if e.rater == event.rater]
                    for task in theirs:
                        del self.settled[task]
            case TaskReturned():
                history.returned.add(event.task)
                self.holder.pop(event.task, None)
            case TaskAnswered() | TaskAbstained():
                history.done[event.task] = event.posted if isinstance(event, TaskAnswered) else None
                history.answers += 1
                self.settled[event.task] = event
                self.holder.pop(event.task, None)


class Roster:
    """The raters and what is known of them; each act is journalled before it applies. One process
    at a time has it: whoever holds the lock of the `persons` folder."""

    def __init__(
        self,
        raters: Iterable[Rater],
        journal: RaterJournal,
        heard: Callable[[RaterEvent], None] = lambda event: None,
    ) -> None:
        """Restores the state in the journal. heard: called with each further event, once it is
        durable."""
        self.raters = {rater.name: rater for rater in raters}
        self.history = DeskHistory(self.raters.values())
        self.lock = asyncio.Lock()
        self._journal = journal
        self._told = heard
        for event in read_journal(journal.run):
            self.history.note(event)

    async def keep(self, event: RaterEvent) -> None:
        """Journal an event before applying it: nothing is shown that is not durable."""
        await asyncio.to_thread(self._journal.append, event)
        self.history.note(event)
        self._told(event)

    async def consent(self, rater: Rater) -> None:
        """The rater agrees to take part."""
        async with self.lock:
            if not self.history.of[rater.name].consented:
                await self.keep(ConsentGiven(rater.name, int(time.time())))

    async def withdraw(self, name: str, *, erase: bool) -> None:
        """Take a rater out, with what they had: in no figure, and no export. Their open tasks go to
        others; what they answered stays answered. erase: also delete their answers, so that others
        are asked in their place. KeyError for nobody."""
        async with self.lock:
            if self.history.of[name].withdrawn and not erase:
                return
            await self.keep(Withdrawn(name, erase, int(time.time())))
            if erase:
                await asyncio.to_thread(self._journal.erase, name)
