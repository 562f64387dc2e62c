"""A judge that reasons several times and lets its conclusions vote."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...cache.call import Ask, Call, nth
from ...cache.reply import Reply
from ..doubts import parse_all
from ..errors import unreadable
from ..prompts.statements import (
    AROUND,
    MAX_LINE,
    Statement,
    agreed,
    groups,
    label_at,
    readable,
    undressed,
)
from ..prompts.words import Words
from ..question import MAX_LABEL, Question
from ..settings import Reason, ranged
from ..transcript import Judgement
from .judge import Elicitation, ModelJudge, Shown
from .shots import Shot, likeliest

_NOBODY = -1
"""Stands for a line `Answer: …` that names none of the answers."""

_SO = ("therefore", "thus", "hence", "so")
_BEFORE = (*_SO, "the ", "my ", "final ", "correct ", "best ")
"""Words before `answer`, in this order."""

_BEHIND = AROUND + "-–—"
"""Dress between a label and its answer's text."""


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

    async def elicit(self, shown: Shown, ask: Ask) -> Elicitation:
        call = self.compose(shown)
        votes = await parse_all(
            *(self._vote(call, shown.options, nth(ask, index)) for index in range(self.n))
        )
        return Elicitation(tuple(votes.read.values()), votes.doubts)

    async def _vote(self, call: Call, options: Question, ask: Ask) -> Judgement:
        reply = await ask(call)
        place = read_conclusion(reply, options)
        probs = tuple(float(n == place) for n in range(len(options.answers)))
        return Judgement.read(reply, probs)


def read_conclusion(reply: Reply, question: Question) -> int:
    """Index of the answer that the last line `Answer: …` names, with or without its text.

    The label may stand on the next line, or be the whole reply. Unreadable without such a line, if
    it names anything else, or if two that stand together differ.
    """
    found = groups(reply, partial(_vote_at, question))
    place = agreed(found[-1], "its answer", reply) if found else _named(readable(reply), question)
    if place is None:
        raise unreadable("the reply has no line 'Answer: <label>'", reply)
    if place == _NOBODY:
        raise unreadable("the line 'Answer: <label>' names none of the answers", reply)
    return place


def _vote_at(question: Question, text: str, start: int, end: int) -> Statement[int] | None:
    """The answer that the vote in a line names."""
    line = undressed(text[start:end])
    is_inference = line[:MAX_LABEL].lower().startswith(_SO)
    for word in _BEFORE:
        if line[: len(word)].lower() == word:
            line = line[len(word) :].lstrip(" \t,")
    if line[:6].lower() != "answer":
        return None
    rest, is_in_form = line[6:].lstrip(AROUND.replace(":", "")), True
    if rest[:2].lower() == "is" and not rest[2:3].isalnum():
        rest, is_in_form = rest[2:].lstrip(" \t"), False
    if rest[:1] in (":", "="):
        rest = rest[1:]
    elif is_in_form and rest.strip(AROUND):
        return None
    if not rest.strip(AROUND):
        behind = text[end : end + 2 * MAX_LABEL].lstrip()
        label, _, _ = behind.partition("\n")
        place = _named(label, question)
        return None if place is None else Statement(place, text.find(label, end) + len(label))
    place = _named(rest, question)
    # "So the answer is B" within a reply may sum up what a debater says.
    if is_inference and not is_in_form and text[end : end + MAX_LINE].strip():
        return None
    if place is None:  # "The answer is not obvious" concludes nothing; "Answer: neither" does.
        return Statement(_NOBODY, end) if is_in_form else None
    return Statement(place, end)


def _named(words: str, question: Question) -> int | None:
    """Index of the answer that these words name, and nothing else."""
    found = label_at(undressed(words), [answer.label for answer in question.answers])
    if found is None:
        return None
    place, rest = found
    text = question.answers[place].text
    # A server may send the token with which the model stopped.
    whole = rest.strip(_BEHIND) == text.strip(_BEHIND) or not rest.partition("<")[0].strip(_BEHIND)
    return place if whole else None
