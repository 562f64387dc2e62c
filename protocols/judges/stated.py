"""Judges that state a probability for each answer: in words, or in a JSON form."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import orjson

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import unreadable
from ..prompts.forms import probabilities_form, read_form
from ..prompts.statements import MARKS, agreed, lines_of
from ..prompts.words import Words
from ..question import Answer, Question
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown, as_probabilities
from .shots import Shot

_DIGITS = "0123456789"
_SIGNS = ("%", "percent", "per cent")
_BETWEEN = " \t,;.|&" + MARKS
"""What may stand between two statements on one line."""


@dataclass(frozen=True)
class StatedJudge(ModelJudge):
    """Asks once and reads lines such as `A: 70%`; shares of 1 are understood as well."""

    kind: ClassVar[str] = "stated"

    def compose(self, shown: Shown) -> Call:
        return self.call(shown, "percentages", "percentages")

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"lines": Words("\n".join([f"{label}: <percentage>%" for label in labels]))}

    def put(self, question: Question, shot: Shot) -> str:
        stated = zip(question.answers, shot.probs, strict=True)
        return "\n".join(f"{answer.label}: {100 * prob:.6g}%" for answer, prob in stated)

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        reply = await ask(self.compose(shown))
        probs = read_percentages(self.answered(reply), shown.options)
        return Elicited((Judgement(probs, reply.call, reply.text),))


@dataclass(frozen=True)
class DistributionJudge(ModelJudge):
    """Asks once for structured output, so that the provider enforces the format."""

    kind: ClassVar[str] = "distribution"

    def compose(self, shown: Shown) -> Call:
        form = probabilities_form(shown.options)
        return self.call(shown, "probabilities", "distribution", form)

    def put(self, question: Question, shot: Shot) -> str:
        stated = zip(question.answers, shot.probs, strict=True)
        return orjson.dumps({answer.label: prob for answer, prob in stated}).decode()

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        reply = await ask(self.compose(shown))
        filled = read_form(reply, probabilities_form(shown.options))
        stated = [filled.number(option.label) for option in shown.options.answers]
        return Elicited((Judgement(as_probabilities(stated, reply), reply.call, reply.text),))


def read_percentages(reply: Reply, question: Question) -> tuple[float, ...]:
    """What is stated for each answer, normalised, in question order.

    Either all have a percent sign, or none has: then they are percentages if any is above 1, and
    shares of 1 otherwise. (Zero is zero with and without a sign.) Unreadable: an answer without a
    statement or with two that differ, a statement that is not a number or only repeats the
    answer's own, mixed units, a number out of range, zeros throughout.
    """
    stated: dict[int, list[_Stated | None]] = {}
    for line in lines_of(reply):
        for place, value in _on(line, question):
            stated.setdefault(place, []).append(value)
    numbers, signs = list[float](), set[bool]()
    for place, answer in enumerate(question.answers):
        if place not in stated:
            raise unreadable(f"no probability is stated for ({answer.label})", reply)
        every = stated[place]
        one = every[0] if len(every) == 1 else agreed(every, f"({answer.label})", reply)
        if one is None:
            raise unreadable(f"({answer.label}) has no plain probability", reply)
        numbers.append(one.number)
        if one.number:
            signs.add(one.signed)
    if len(signs) == 2:
        raise unreadable("some probabilities have a percent sign and others have none", reply)
    return as_probabilities(numbers, reply, 100 if True in signs else None)


class _Stated(NamedTuple):
    number: float
    signed: bool
    """Whether it has a percent sign."""


def _on(line: str, question: Question) -> list[tuple[int, _Stated | None]]:
    """The statements that open a line, such as `A: 70%`, one after the other: the place of the
    answer, and what is stated; None for what is no plain probability."""
    found: list[tuple[int, _Stated | None]] = []
    left = len(question.answers)
    while line and (opened := _opened(line, question)):
        place, said = opened
        if (left := left - 1) < 0:
            found.append((place, None))  # more statements on one line than there are answers
            break
        rest = said.lstrip(_DIGITS + "-.")
        digits = said[: len(said) - len(rest)].rstrip(".")
        sign, behind = "", rest.lstrip(" \t")
        for each in _SIGNS:
            if behind[: len(each)].lower() == each:
                sign = each
                break
        line = behind[len(sign) :]
        after, joined = (line[:1], ("_", "%")) if sign else (rest[:1], ("_",))
        plain = not (after.isalnum() or after in joined)
        if line and _is_range(line):
            plain = False
        line = line.lstrip(_BETWEEN).removeprefix("and ")
        if not sign and not _opened(line, question):
            # The only number of its statement: neither 7/10 nor the 48 of `A: 48 (70%)`.
            plain = plain and not any(char.isdecimal() or char == "%" for char in rest)
            plain = plain and digits != _leading_number(question.answers[place])
        try:
            value = _Stated(float(digits), bool(sign)) if plain else None
        except ValueError:
            value = None
        found.append((place, value))
    return found


def _opened(line: str, question: Question) -> tuple[int, str] | None:
    """The place of the answer whose statement opens a line, and what is stated: of `A: 70%`,
    `**A**: 70%`, `(A) = 70%` or `A (48): 70%`, with the answer's text."""
    line = line.lstrip("(" + MARKS)
    for place, answer in enumerate(question.answers):
        if not line.startswith(answer.label):
            continue
        rest = line[len(answer.label) :].lstrip(")" + MARKS)
        text = rest.lstrip(" \t:(")
        behind = text[len(answer.text) :].lstrip(")" + MARKS)
        for said in (behind, rest) if answer.text and text.startswith(answer.text) else (rest,):
            bare = said.lstrip()
            value = bare[1:].lstrip(" \t" + MARKS)
            if bare[:1] in (":", "=") and value.removeprefix("-").removeprefix(".")[:1].isdecimal():
                return place, value
    return None


def _is_range(rest: str) -> bool:
    """Whether what follows a percentage makes it the end of a range, such as 60% to 70%."""
    rest = rest.lstrip(" \t")
    for sign in ("-", "–", "/", "to "):
        if rest.startswith(sign):
            return rest[len(sign) :].lstrip(" \t")[:1] in (*_DIGITS, ".")
    return False


def _leading_number(answer: Answer) -> str:
    """The number with which the answer's text starts: `A: 48` may just repeat the answer 48."""
    text = answer.text
    return text[: len(text) - len(text.lstrip(_DIGITS + "-."))].rstrip(".")
