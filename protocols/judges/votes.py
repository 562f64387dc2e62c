"""A judge that reasons several times and counts its conclusions as votes."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...cache.call import Ask, Call, with_repeat
from ...cache.reply import Reply
from ..doubts import parse_all
from ..errors import unreadable
from ..prompts.forms import (
    AROUND,
    MAX_LINE,
    Statement,
    agreed,
    groups,
    label_at,
    readable,
    undressed,
)
from ..prompts.prompt_set import Words
from ..question import MAX_LABEL, Question
from ..settings import Count, Reason
from ..transcript import Judgement
from .case import Shot, likeliest
from .judge import Elicitation, ModelJudge, Shown

_NOBODY = -1
"""Stands for a line `Answer: …` that names no answer."""

_SO = ("therefore", "thus", "hence", "so")
_BEFORE = (*_SO, "the ", "my ", "final ", "correct ", "best ")
"""Words before `answer`, in this order."""

_BEHIND = AROUND + "-–—"
"""Characters between a label and its answer's text."""


@dataclass(frozen=True)
class VotesJudge(ModelJudge):
    """N draws, each with reasoning and a label. An answer's probability is its fraction of votes.
    An unread conclusion is a vote for an unknown answer: it widens the bounds of the verdict.
    Unreadable if none can be read. Each vote is a judgement."""

    temperature: float | None = 1.0
    n: Count = 5
    reason: Reason = "public"

    kind: ClassVar[str] = "votes"

    def compose(self, view: Shown) -> Call:
        return self.call(view, "vote", "vote")

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"labels": Words(" or ".join(labels))}

    def put(self, question: Question, shot: Shot) -> str:
        return f"{shot.reasoning}\nAnswer: {likeliest(question, shot)}".lstrip()

    async def elicit(self, view: Shown, ask: Ask) -> Elicitation:
        call = self.compose(view)
        votes = await parse_all(
            *(self._vote(call, view.options, with_repeat(ask, index)) for index in range(self.n))
        )
        return Elicitation(tuple(votes.read.values()), votes.doubts)

    async def _vote(self, call: Call, options: Question, ask: Ask) -> Judgement:
        reply = await ask(call)
        index = read_conclusion(reply, options)
        return Judgement.read(reply, tuple(float(n == index) for n in range(len(options.answers))))


def read_conclusion(reply: Reply, question: Question) -> int:
    """Index of the answer named in the last line `Answer: …`, with or without its text. The label
    may also be on the next line, or be the whole reply. Unreadable without such a line, if it names
    anything else, or if two adjacent lines differ."""
    votes = groups(reply, partial(_vote_at, question))
    index = agreed(votes[-1], "its answer", reply) if votes else _named(readable(reply), question)
    if index is None:
        raise unreadable("the reply has no line 'Answer: <label>'", reply)
    if index == _NOBODY:
        raise unreadable("the line 'Answer: <label>' names none of the answers", reply)
    return index


def _vote_at(question: Question, text: str, start: int, end: int) -> Statement[int] | None:
    """The answer named by the vote in a line."""
    line = undressed(text[start:end])
    is_inference = line[:MAX_LABEL].lower().startswith(_SO)
    for word in _BEFORE:
        if line[: len(word)].lower() == word:
            line = line[len(word) :].lstrip(" \t,")
    if line[:6].lower() != "answer":
        return None
    remainder, is_in_form = line[6:].lstrip(AROUND.replace(":", "")), True
    if remainder[:2].lower() == "is" and not remainder[2:3].isalnum():
        remainder, is_in_form = remainder[2:].lstrip(" \t"), False
    if remainder[:1] in (":", "="):
        remainder = remainder[1:]
    elif is_in_form and remainder.strip(AROUND):
        return None
    if not remainder.strip(AROUND):
        behind = text[end : end + 2 * MAX_LABEL].lstrip()
        label, _, _ = behind.partition("\n")
        index = _named(label, question)
        return None if index is None else Statement(index, text.find(label, end) + len(label))
    index = _named(remainder, question)
    # "So the answer is B" inside a reply may summarise a debater.
    if is_inference and not is_in_form and text[end : end + MAX_LINE].strip():
        return None
    if index is None:  # "The answer is not obvious" concludes nothing; "Answer: neither" does.
        return Statement(_NOBODY, end) if is_in_form else None
    return Statement(index, end)


def _named(words: str, question: Question) -> int | None:
    """Index of the answer that these words name exactly, or None."""
    label = label_at(undressed(words), [answer.label for answer in question.answers])
    if label is None:
        return None
    index, remainder = label
    text = question.answers[index].text
    # A server may include the token at which the model stopped.
    exact = remainder.strip(_BEHIND).casefold() == text.strip(_BEHIND).casefold()
    return index if exact or not remainder.partition("<")[0].strip(_BEHIND) else None
