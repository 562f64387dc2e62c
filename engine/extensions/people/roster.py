"""What raters decide, while they are served or not: consent and withdrawal."""

import asyncio
import time
from collections.abc import Callable, Iterable

from .history import DeskHistory
from .journal import ConsentGiven, RaterEvent, RaterJournal, Withdrawn, read_journal
from .panel import Rater


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
