"""A judge that reasons several times and lets its conclusions vote."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask, Call, nth
from ...cache.reply import Reply
from ..doubts import readings
from ..errors import unreadable
from ..prompts.statements import MARKS, agreed, lines_of
from ..prompts.words import Words
from ..question import Question
from ..settings import Reason, ranged
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown
from .shots import Shot, likeliest

_AROUND = " \t\r()[].,:" + MARKS
"""What may stand around a label."""


@dataclass(frozen=True)
class VotesJudge(ModelJudge):
    """N draws, each with reasoning and a label; the probability of an answer is its share.

    A draw whose conclusion cannot be read is a vote for an unknown answer: it widens the bounds of
    the verdict. Unreadable if none can be read. Each vote is a judgement.
    """

    temperature: float | None = 1.0
    n: int = ranged(5)
    reason: Reason = "public"

    kind: ClassVar[str] = "votes"

    def compose(self, shown: Shown) -> Call:
        return self.call(shown, "vote", "vote")

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"labels": Words(" or ".join(labels))}

    def put(self, question: Question, shot: Shot) -> str:
        return f"{shot.reasoning}\nAnswer: {likeliest(question, shot)}".lstrip()

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        call = self.compose(shown)
        votes = await readings(
            *(self._vote(call, shown.options, nth(ask, index)) for index in range(self.n))
        )
        return Elicited(tuple(votes.read.values()), votes.doubts)

    async def _vote(self, call: Call, options: Question, ask: Ask) -> Judgement:
        reply = await ask(call)
        place = read_conclusion(self.answered(reply), options)
        probs = tuple(float(n == place) for n in range(len(options.answers)))
        return Judgement(probs, reply.call, reply.text)


def read_conclusion(reply: Reply, question: Question) -> int:
    """Index of the answer that a line `Answer: …` names, with or without its text.

    Unreadable if there is no such line, if it names anything else, or if two differ.
    """
    found: list[int | None] = []
    for line in lines_of(reply):
        if concluded := _concluded(line):
            said, in_form = concluded
            place = _named(said, question)
            # "The answer is not obvious" concludes nothing; "Answer: neither" does.
            if place is not None or in_form:
                found.append(place)
    if not found:
        raise unreadable("there is no line 'Answer: <label>'", reply)
    place = agreed(found, "its answer", reply)
    if place is None:
        raise unreadable("the line 'Answer: <label>' names none of the answers", reply)
    return place


def _concluded(line: str) -> tuple[str, bool] | None:
    """What a line says the answer is, and whether as `Answer: …`; None for any other line."""
    for word in ("the ", "final "):
        if line[: len(word)].lower() == word:
            line = line[len(word) :].lstrip()
    if line[:6].lower() != "answer":
        return None
    rest = line[6:].lstrip(" \t" + MARKS)
    if rest[:1] in (":", "="):
        return rest[1:], True
    if rest[:2].lower() == "is" and not rest[2:3].isalnum():
        return rest[2:].lstrip(" \t:=" + MARKS), False
    return None


def _named(said: str, question: Question) -> int | None:
    """Index of the answer that these words name, and nothing else."""
    said = said.strip(_AROUND)
    for place, answer in enumerate(question.answers):
        if said.startswith(answer.label):
            rest = said[len(answer.label) :]
            whole = not (rest[:1].isalnum() or rest[:1] == "_")
            if whole and rest.strip(_AROUND) in ("", answer.text.strip(_AROUND)):
                return place
    return None
