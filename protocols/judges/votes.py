"""A judge that reasons several times and lets its conclusions vote."""

import re
from dataclasses import dataclass
from typing import ClassVar

from oversight.cache.call import Ask, Call, Request, nth
from oversight.cache.reply import Reply
from oversight.protocols.errors import Unreadable, unreadable
from oversight.protocols.gather import gather_in_order
from oversight.protocols.judges.judge import ModelJudge, Order
from oversight.protocols.judges.shots import Shot, likeliest
from oversight.protocols.prompts.forms import readable
from oversight.protocols.prompts.render import instructions, messages
from oversight.protocols.question import Question
from oversight.protocols.transcript import Judgement, Transcript

REASONED = (
    "Which answer is right? Weigh the arguments step by step. Then end with one line of its own:\n"
    "Answer: <label>"
)

_MARK = r"[\s()\[\]*\"'`.,:]*"
_CONCLUSION = re.compile(
    r"^[ \t*#>\"'`(]*(?:the\s+)?(?:final\s+)?answer"
    r"(?:\s+is\b[*\"'`\s]*[:=]?|[*\"'`\s]*[:=])(?P<said>.*)$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class VotesJudge(ModelJudge):
    """N draws, each with reasoning and a label; the probability of an answer is its share.

    A draw whose conclusion cannot be read casts no vote; none at all is Unreadable. How many
    voted shows in the number of judgements.
    """

    temperature: float | None = 1.0
    n: int = 5
    max_tokens: int = 1024

    kind: ClassVar[str] = "votes"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n: {self.n} votes decide nothing; use 1 or more")

    def compose(self, seen: Transcript, order: Order) -> Call:
        return Call(
            Request(
                self.model,
                messages(self.task(seen), seen, instructions("vote", REASONED), order),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                effort=self.effort,
            )
        )

    def put(self, question: Question, shot: Shot) -> str:
        return f"{shot.reasoning}\nAnswer: {likeliest(question, shot)}".lstrip()

    async def elicit(self, seen: Transcript, order: Order, ask: Ask) -> tuple[Judgement, ...]:
        call = self.compose(seen, order)
        replies = await gather_in_order(*(_one(nth(ask, i), call) for i in range(self.n)))
        votes: list[Judgement] = []
        faults: list[Unreadable] = []
        for reply in replies:
            try:
                place = read_conclusion(reply, seen.question)
            except Unreadable as fault:
                faults.append(fault)
                continue
            probs = tuple(float(n == place) for n in range(len(seen.question.answers)))
            votes.append(Judgement(probs, reply.call, reply.text))
        if not votes:
            raise faults[0]
        return tuple(votes)


async def _one(ask: Ask, call: Call) -> Reply:
    return await ask(call)


def read_conclusion(reply: Reply, question: Question) -> int:
    """Place of the answer that the last line `Answer: …` names, with or without its text.

    Unreadable if there is no such line, or if it names anything else.
    """
    lines = list(_CONCLUSION.finditer(readable(reply)))
    if not lines:
        raise unreadable("there is no line 'Answer: <label>'", reply)
    said = lines[-1]["said"]
    for place, answer in enumerate(question.answers):
        label, text = re.escape(answer.label), re.escape(answer.text)
        if re.fullmatch(rf"{_MARK}{label}(?!\w){_MARK}(?:{text})?{_MARK}", said):
            return place
    raise unreadable(f"{said.strip()[:40]!r} names none of the answers", reply)
