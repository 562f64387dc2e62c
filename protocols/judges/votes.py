"""A judge that reasons several times and lets its conclusions vote."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask, Call, nth
from ...cache.reply import Reply
from ..doubts import readings
from ..errors import unreadable
from ..prompts.forms import Reason, readable
from ..prompts.words import Words
from ..question import Question
from ..settings import require_positive
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown
from .shots import Shot, likeliest

_MARK = r"[\s()\[\]*\"'`.,:]*"
_CONCLUSION = re.compile(
    r"^[ \t*#>\"'`(]*(?:the\s+)?(?:final\s+)?answer"
    r"(?:\s+is\b[*\"'`\s]*[:=]?|[*\"'`\s]*[:=])(?P<said>.*)$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class VotesJudge(ModelJudge):
    """N draws, each with reasoning and a label; the probability of an answer is its share.

    A draw whose conclusion cannot be read is a vote for an unknown answer: it widens the bounds of
    the verdict. Unreadable if none can be read. Each vote is a judgement.
    """

    temperature: float | None = 1.0
    n: int = 5
    reason: Reason = "public"

    kind: ClassVar[str] = "votes"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n")

    def compose(self, shown: Shown) -> Call:
        asked = shown.asked("vote", labels=Words(" or ".join(shown.labels)))
        return self.call(shown, "vote", asked)

    def put(self, question: Question, shot: Shot) -> str:
        return f"{shot.reasoning}\nAnswer: {likeliest(question, shot)}".lstrip()

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        call = self.compose(shown)
        votes = await readings(
            *(self._vote(call, shown.case.options, nth(ask, index)) for index in range(self.n))
        )
        return Elicited(tuple(votes.read.values()), votes.doubts)

    async def _vote(self, call: Call, options: Question, ask: Ask) -> Judgement:
        reply = await ask(call)
        place = read_conclusion(self.answered(reply), options)
        probs = tuple(float(n == place) for n in range(len(options.answers)))
        return Judgement(probs, reply.call, reply.text)


def read_conclusion(reply: Reply, question: Question) -> int:
    """Index of the answer that the last line `Answer: …` names, with or without its text.

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
