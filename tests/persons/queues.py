"""A task queue with raters in one process, and calls that wait on it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oversight.cache import Call, Reply
from oversight.engine.extensions.people.journal import Rater, RaterEvent, seated_raters
from oversight.engine.extensions.people.task_queue import QueueSettings, TaskOffer, TaskQueue
from oversight.engine.stop import StopToken
from oversight.protocols import Case, DistributionJudge, Question, Transcript, Turn
from oversight.protocols.judges.exchange import exchanged
from tests.world import shipment

PLAIN = QueueSettings(before=False)
MODEL = "person/raters"


def event_kind(event: RaterEvent) -> str:
    """The kind of an event, as in the journal."""
    return str(event.__struct_config__.tag)


def judgement(question: Question, side: int, draw=(0,), rules="", *, exchange=False) -> Call:
    """The call that asks a judge about the world in which `side` was argued. exchange: swap the
    labels, answers and speeches."""
    judge, answer = DistributionJudge(MODEL, persona=rules), question.answers[side]
    turn = Turn("Consultant", f"I say ({answer.label}).", answer)
    case = Case(Transcript(question).then(turn))
    call = judge.compose(judge.shown(exchanged(case) if exchange else case, range(2)))
    return Call(call.request, draw)


def worlds(problems: int) -> list[Call]:
    """Both worlds of some problems."""
    return [judgement(shipment(n).question, side) for n in range(problems) for side in (0, 1)]


@dataclass
class Work:
    queue: TaskQueue
    stop_token: StopToken
    waiting: dict[str, "asyncio.Task[Reply]"] = field(default_factory=dict)

    async def put(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.waiting[call.address] = asyncio.create_task(self.queue(call))
        await asyncio.sleep(0)

    def rater(self, number: int) -> Rater:
        return self.queue.raters[f"raters-{number}"]

    async def take(self, number: int) -> TaskOffer:
        offer = await self.queue.offer(self.rater(number))
        assert offer is not None
        return offer

    async def answer(self, number: int, offer: TaskOffer, first: float = 70) -> None:
        fields = {"p0": f"{first:g}", "p1": f"{100 - first:g}"}
        await self.queue.answer(self.rater(number), offer.ticket, fields)

    async def finish(self, number: int) -> list[Call]:
        """Answer all tasks that the rater gets."""
        calls = []
        while (offer := await self.queue.offer(self.rater(number))) is not None:
            calls.append(offer.task.call)
            await self.answer(number, offer)
        return calls


@asynccontextmanager
async def work(folder: Path, settings=PLAIN, raters: int = 2) -> AsyncIterator[Work]:
    stop_token, seated = StopToken(), seated_raters(folder, ["raters"], raters)
    at_work = Work(TaskQueue(seated, folder, stop_token, settings), stop_token)
    yield at_work
    for task in at_work.waiting.values():
        task.cancel()
    await asyncio.gather(*at_work.waiting.values(), return_exceptions=True)
