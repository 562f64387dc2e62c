"""A judge that states a probability for each answer in words."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import ClassVar

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import unreadable
from ..prompts.forms import readable
from ..prompts.words import Words
from ..question import Answer, Question
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown, as_probabilities
from .shots import Shot

_NUMBER = r"(?P<number>-?(?:\d+(?:\.\d+)?|\.\d+))"
_PERCENTAGE = re.compile(
    rf"{_NUMBER}[ \t]*(?:%|per ?cent\b)(?![\w%]|[ \t]*(?:[-–/]|to\b)[ \t]*[\d.])"
)
"""A percentage that is not the end of a range, such as 60% to 70%."""
_BARE = re.compile(rf"{_NUMBER}(?!\w)[^\d%]*\Z")
"""The only number of its statement: neither 7/10 nor 1e-3, and not the 48 of `A: 48 (70%)`."""


@dataclass(frozen=True)
class StatedJudge(ModelJudge):
    """Asks once and reads lines such as `A: 70%`; shares of 1 are understood as well."""

    kind: ClassVar[str] = "stated"

    def compose(self, shown: Shown) -> Call:
        lines = Words("\n".join([f"{label}: <percentage>%" for label in shown.labels]))
        return self.call(shown, "percentages", shown.asked("percentages", lines=lines))

    def put(self, question: Question, shot: Shot) -> str:
        stated = zip(question.answers, shot.probs, strict=True)
        return "\n".join(f"{answer.label}: {100 * prob:.6g}%" for answer, prob in stated)

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        reply = await ask(self.compose(shown))
        probs = read_percentages(self.answered(reply), shown.case.options)
        return Elicited((Judgement(probs, reply.call, reply.text),))


def read_percentages(reply: Reply, question: Question) -> tuple[float, ...]:
    """What is last stated for each answer, normalised, in question order.

    Either all have a percent sign, or none has: then they are percentages if any is above 1, and
    shares of 1 otherwise. (Zero is zero with and without a sign.) Unreadable: an answer without a
    statement, a statement that is not a number or only repeats the answer's own, mixed units, a
    number out of range, zeros throughout.
    """
    statements = _statements(readable(reply), question)
    stated: list[float] = []
    signs: set[bool] = set()
    for answer, said in zip(question.answers, statements, strict=True):
        if not said:
            raise unreadable(f"no probability is stated for ({answer.label})", reply)
        signed = _PERCENTAGE.match(said)
        found = signed or _BARE.match(said)
        if found is None or (not signed and found["number"] == _leading_number(answer)):
            raise unreadable(f"({answer.label}) has {said[:40]!r}, no plain probability", reply)
        stated.append(float(found["number"]))
        if stated[-1]:
            signs.add(signed is not None)
    if len(signs) == 2:
        raise unreadable("some probabilities have a percent sign and others have none", reply)
    return as_probabilities(stated, reply, 100 if True in signs else None)


def _statements(text: str, question: Question) -> list[str]:
    """What is last stated for each answer, to the end of its line; empty where nothing is."""
    plain = [line.partition(": ") for line in text.strip().split("\n")]
    if [label for label, _, _ in plain] == [answer.label for answer in question.answers] and all(
        said[:1].isdecimal() and ":" not in said and "=" not in said for _, _, said in plain
    ):
        # The format asked for, and that of nearly every reply: no pattern to compile.
        return [said.rstrip() for _, _, said in plain]
    heads = list(_heads(question).finditer(text))
    last = {
        head.lastgroup: text[head.end() : following.start() if following else None]
        for head, following in zip_longest(heads, heads[1:])
    }
    places = range(len(question.answers))
    return [last.get(_group(place), "").partition("\n")[0].rstrip() for place in places]


def _leading_number(answer: Answer) -> str:
    """The number with which the answer's text starts: `A: 48` may just repeat the answer 48."""
    found = re.match(_NUMBER, answer.text)
    return found["number"] if found else ""


@lru_cache(maxsize=1024)  # a question is judged in every row and world, one shortly after another
def _heads(question: Question) -> re.Pattern[str]:
    """What opens a statement: `A:`, `**A**:`, `(A) =`, `A (48):` with the answer's text.

    The name of the group that matched identifies the answer.
    """
    mark = r"[)*\"'`]*"
    named = (
        rf"(?P<{_group(place)}>{re.escape(answer.label)}){mark}"
        rf"(?:[ \t:(]*{re.escape(answer.text)}{mark})?"
        for place, answer in enumerate(question.answers)
    )
    return re.compile(rf"(?<!\w)[(*\"'`]*(?:{'|'.join(named)})\s*[:=][\s*\"'`]*(?=-?\.?\d)")


def _group(place: int) -> str:
    return f"answer{place}"
