"""Fakes that tests share: an `Ask` that answers from a function, and questions to ask about."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from oversight.cache.call import Ask, Call, Message
from oversight.cache.reply import Reply, Token
from oversight.engine.run.lanes import CellOutcome, attempt, run_lanes
from oversight.engine.run.schedule import InOrder
from oversight.engine.stop import StopToken
from oversight.engine.sweep.sweep import Cell
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.prompts.prompt_set import Words, default_prompts
from oversight.protocols.prompts.render import Instructions, find_statement, messages
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.transcript import Transcript


class Scripted:
    """An `Ask` that answers from a function, stamps addresses, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Call], str | Reply], delay: float = 0.0) -> None:
        self.answer = answer
        self.delay = delay
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Reply:
        self.calls.append(call)
        await asyncio.sleep(self.delay)
        answer = self.answer(call)
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        return replace(reply, call=call.address)

    @property
    def distinct(self) -> int:
        """Number of distinct calls: the number that a cache would pay for."""
        return len({call.address for call in self.calls})


def run_cells(
    cells: Iterable[Cell],
    ask: Ask,
    keep: Callable[[Cell, CellOutcome], None],
    *,
    lanes: int,
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
) -> Awaitable[None]:
    """Run cells one after the other, as `run_lanes` does."""
    work = partial(attempt, ask=ask)
    return run_lanes(InOrder(cells), work, keep, lanes=lanes, stop_token=stop_token, waits=waits)


def token(text: str, probability: float, **others: float) -> Token:
    """A token with its alternatives, as providers report them: the chosen one among them."""
    top = {text: probability} | others
    ranked = sorted(top.items(), key=lambda pair: -pair[1])
    return Token(text, math.log(probability), tuple((t, math.log(p)) for t, p in ranked))


CRATES = Question(
    "Four crates hold twelve apples each. How many apples are there?",
    (Answer("A", "48", "4 crates x 12 = 48"), Answer("B", "36", "3 crates x 12 = 36")),
)
APPLES = Problem("apples", CRATES, (1, -1))
A, B = CRATES.answers
JUDGE = StatedJudge("judge")
ALICE, BOB = Agent("alice"), Agent("bob")
"""The models of most scripts; `call.model` distinguishes them."""


class Prompt(NamedTuple):
    """The kind of a call, read from its prompt as a scripted model must."""

    task: str
    """`statement` where a judge is asked whether a statement is true, however it is asked."""
    side: str
    """Label of the answer to argue for; empty for no side."""
    system: str
    user: str
    speakers: tuple[str, ...]
    """Speakers of the turns that the reader hears, in order."""
    speeches: tuple[str, ...]
    """Texts of these turns."""
    statement: str = ""
    """The statement to decide about; empty if none."""

    @property
    def asks(self) -> str:
        """The task with its side: `speak A`."""
        return f"{self.task} {self.side}".strip()


def prompt(call: Call) -> Prompt:
    system, user = (message.text for message in call.messages[:2])
    task, side, marks = re.findall(
        r'<instructions task="([^"]*)"(?: side="([^"]*)")?([^>]*)>', user
    )[-1]
    if "options=" in marks:
        task = "statement"
    turns = re.findall(r'<turn speaker="([^"]*)">\n(.*?)\n</turn>', user, re.DOTALL)
    return Prompt(
        task, side, system, user, tuple(speaker for speaker, _ in turns),
        tuple(text for _, text in turns), find_statement(user),
    )  # fmt: skip


def laid_out(
    rules: str, transcript: Transcript, task: str, prose: str, side: str = "", **marks: str | int
) -> tuple[Message, ...]:
    """A prompt with rules and instructions of a test's own."""
    todo = Instructions(task, Words(prose), side=side, marks=tuple(marks.items()))
    return messages(Words(rules), transcript, todo, default_prompts())


def draft(call: Call) -> int:
    """Which draft of a speech a call asks for: the plain speech is draft 0."""
    return call.draw[0] if call.draw else 0


def held(share: object) -> str:
    """Reply of a judge that finds a statement true with this probability."""
    if not isinstance(share, (int, float)):
        return f"Yes: {share}%\nNo: {share}%"
    return f"Yes: {100 * share:.9g}%\nNo: {100 - 100 * share:.9g}%"


def form(**fields: object) -> str:
    """Reply of a role that fills in a form."""
    return orjson.dumps(fields).decode()


def addresses(ask: Scripted) -> set[str]:
    """The distinct calls, which a cache would pay for."""
    return {call.address for call in ask.calls}


async def paid(
    protocol: Protocol, answer: Callable[[Call], str | Reply], question: Question = CRATES
) -> list[set[str]]:
    """The different calls of each world, each run by itself, in answer order."""
    worlds = []
    for side in question.answers:
        ask = Scripted(answer)
        await protocol.run(question, side, ask)
        worlds.append(addresses(ask))
    return worlds
