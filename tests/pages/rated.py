"""A desk at which a browser rates: one task of each kind, served to it, and what it fills in."""

import asyncio
import threading
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oversight.cache.call import Call, Request, ResponseFormat
from oversight.engine.extensions.people.journal import seated_raters
from oversight.engine.extensions.people.rating import RaterServer
from oversight.engine.extensions.people.task_queue import QueueSettings, TaskQueue
from oversight.engine.stop import StopToken
from oversight.protocols.judges.case import Case
from oversight.protocols.judges.stated import DistributionJudge
from oversight.protocols.judges.votes import VotesJudge
from oversight.protocols.question import Answer, Question
from oversight.protocols.transcript import Quote, ToolUse, Transcript, Turn
from tests.fakes import laid_out
from tests.persons.queues import MODEL, PLAIN, judgement
from tests.waiting import PATIENCE
from tests.world import shipment

FORM = """{"type": "object", "properties": {"reasoning": {"type": "string"},
"question": {"type": "string"}, "steps": {"type": "array", "items": {"type": "string"}},
"number": {"type": "integer"}, "sound": {"type": "boolean"},
"side": {"type": "string", "enum": ["A", "B"]}}}"""


@contextmanager
def at_desk(folder: Path, calls: Iterable[Call], settings: QueueSettings = PLAIN, raters: int = 1):
    """A desk that another thread serves, as the browser needs this one; its raters' links."""
    ready, ended, links = threading.Event(), threading.Event(), []
    queues: list[TaskQueue] = []

    async def serve() -> None:
        desk = TaskQueue(seated_raters(folder, ["raters"], raters), folder, StopToken(), settings)
        queues.append(desk)
        waiting = [asyncio.ensure_future(desk(call)) for call in calls]
        server = RaterServer(desk)
        async with server.serving(0) as root:
            links.extend(link for _, link in server.links(root))
            ready.set()
            await asyncio.to_thread(ended.wait)
            # Pages that wait are told so, and hold the server up no longer.
            desk.finish()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield queues[0], links
    finally:
        ended.set()
        thread.join()


def voted() -> Call:
    judge, question = VotesJudge(MODEL), shipment(1).question
    transcript = Transcript(question).then(
        Turn(
            "Consultant",
            "As <quote>four crates</quote> and <quote>five</quote> say.",
            question.answers[0],
            tools=(ToolUse("calculator", "4*3", "12"),),
            quotes=(Quote("four crates", True), Quote("five", False)),
        )
    )
    return Call(judge.compose(judge.shown(Case(transcript), range(2))).request, (0,))


def spoken(form: str = "") -> Call:
    question, prompt = shipment(3 if form else 2).question, "You argue for (A)."
    request = laid_out("These are the rules.", Transcript(question), "argue", prompt, "A", words=50)
    shape = ResponseFormat("challenge", form) if form else None
    return Call(Request(MODEL, request, response_format=shape), (0,))


def several() -> Call:
    answers = tuple(Answer(label, f"It is {n}.") for n, label in enumerate("ABCD"))
    judge = DistributionJudge(MODEL)
    transcript = Transcript(Question("Which of the four?", answers)).then(Turn("Speaker", "Look."))
    return Call(judge.compose(judge.shown(Case(transcript), range(4))).request, (0,))


TASKS: Mapping[str, Call] = {
    "two answers": judgement(shipment(0).question, 0), "four answers": several(), "a vote": voted(),
    "a speech": spoken(), "a form": spoken(FORM),
}  # fmt: skip


def begin(page: Any, link: str) -> None:
    page.goto(link)
    page.get_by_role("button", name="I agree: begin").click()


def filled(page: Any) -> None:
    """Fill in every field."""
    numbers = page.locator(".percents input[type=number]")
    for n in range(numbers.count()):
        numbers.nth(n).fill(["10", "20", "30", "40"][n] if numbers.count() == 4 else "50")
    for box in page.locator("textarea:visible").all():
        box.fill("What follows\nfrom that")
    for number in page.locator(".field input[type=number]").all():
        number.fill("3")
    for group in page.locator(".choices-of").all():
        group.locator("input").first.check()
