"""Judges that state a probability for each answer, in words or in a JSON form."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import orjson

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import Unreadable, unreadable
from ..prompts.forms import (
    AROUND,
    CLOSING,
    MAX_LINE,
    Statement,
    agreed,
    groups,
    label_at,
    number_at,
    number_in,
    object_at,
    probabilities_form,
    undressed,
)
from ..prompts.prompt_set import Words
from ..question import Question
from ..transcript import Judgement
from .case import Shot
from .judge import Elicitation, ModelJudge, Shown, as_probabilities

_BETWEEN = " \t\r,;.|/&*`_"
"""Characters between two statements on one line."""
_SECOND = _BETWEEN + "→=>~-–—…"
"""Characters between two values of one answer, as in `50% → 80%` and in columns of a table."""
_OPPOSITES = ("false", "wrong", "incorrect", "untrue", "not", "mistaken", "lying", "deceptive")
_CHANCES = ("likel", "probab", "chance", "confid", "certain", "sure", "that ")
_COMMENTS = (
    *_CHANCES,
    *("right", "correct", "true", "because", "since", "as ", "for ", "given", "based", "due "),
)
"""Words that may directly follow a percentage; `100% verified quotes` is not a verdict."""
_FILLERS = ("to", "be", "being", "of", "that", "this", "it", "is", "the", "answer")
_SEPARATORS = " \t:=-–—|.→"
_LONGEST_PERCENTAGE = 12
"""Maximum characters of a percentage in the requested form, with its sign."""
_LONGEST_NAMING = 40
"""Maximum characters of a line such as `Final answer: A`."""


@dataclass(frozen=True)
class StatedJudge(ModelJudge):
    """Asks once and reads lines such as `A: 70%`, or fractions of 1."""

    kind: ClassVar[str] = "stated"

    def compose(self, view: Shown) -> Call:
        return self.call(view, "percentages", "percentages")

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"lines": Words("\n".join([f"{label}: <percentage>%" for label in labels]))}

    def put(self, question: Question, shot: Shot) -> str:
        pairs = zip(question.answers, shot.probs, strict=True)
        return "\n".join(f"{answer.label}: {100 * prob:.6g}%" for answer, prob in pairs)

    async def elicit(self, view: Shown, ask: Ask) -> Elicitation:
        reply = await ask(self.compose(view))
        return Elicitation((Judgement.read(reply, read_percentages(reply, view.options)),))


@dataclass(frozen=True)
class DistributionJudge(ModelJudge):
    """Asks once for structured output, so that the provider enforces the format."""

    kind: ClassVar[str] = "distribution"

    def compose(self, view: Shown) -> Call:
        return self.call(view, "probabilities", "distribution", probabilities_form(view.options))

    def put(self, question: Question, shot: Shot) -> str:
        pairs = zip(question.answers, shot.probs, strict=True)
        return orjson.dumps({answer.label: prob for answer, prob in pairs}).decode()

    elicit = StatedJudge.elicit


class _Share(NamedTuple):
    """The probability stated for one answer."""

    answer: int
    """Index of the answer."""
    number: float | None
    """None for a number that is not plain, such as a range."""
    is_signed: bool
    """Whether it has a percent sign."""


def read_percentages(reply: Reply, question: Question) -> tuple[float, ...]:
    """The last probabilities that a reply states, in lines or as JSON, in question order.

    A number with a percent sign is a statement. Other numbers are statements if the numbers of all
    answers add up to 100 or 1. Unreadable: an answer without a statement or with two different
    ones, another sum, or numbers that only repeat the answers' texts."""
    if (numbers := _as_asked(reply, question)) is not None:
        return as_probabilities(numbers, reply, 100)
    return _read_percentages(reply, question)


def _as_asked(reply: Reply, question: Question) -> list[float] | None:
    """The percentages of a reply with exactly one line such as `A: 70%` per answer, else None. A
    fast path: `_read_percentages` gives the same result in ten times as many steps."""
    lines = reply.text.split("\n")
    if reply.outcome != "ok" or len(lines) != len(question.answers):
        return None
    numbers, is_own = [], False
    for line, answer in zip(lines, question.answers, strict=True):
        label, _, value = line.partition(": ")
        integer, point, decimals = value.removesuffix("%").partition(".")
        is_number = value.isascii() and integer.isdecimal() and decimals.isdecimal() == bool(point)
        if not (is_number and value[-1] == "%" and len(value) <= _LONGEST_PERCENTAGE):
            return None
        if label != answer.label or not "A" <= label <= "Z" or len(label) > 1:
            return None
        numbers.append(float(value[:-1]))
        is_own |= numbers[-1] not in _numbers(answer.text)
    return numbers if is_own else None


def _read_percentages(reply: Reply, question: Question) -> tuple[float, ...]:
    """`read_percentages` for a reply in any form."""
    later: list[_Share] = []
    fault: Unreadable | None = None
    for group in reversed(groups(reply, partial(_shares_at, reply, question))):
        shares = [share for statement in group for share in statement]
        if not shares:
            continue
        # Another sentence may separate the statements of two answers.
        if {share.answer for share in later}.isdisjoint([share.answer for share in shares]):
            shares += later
        is_signed = any([share.is_signed for share in shares])
        try:
            numbers = _agreed(shares, question, reply)
            return as_probabilities(numbers, reply, 100 if is_signed else None)
        except Unreadable as unread:
            # Numbers without a sign that do not add up are ordinary text.
            if unread.cause == "two statements" or (unread.cause == "sum" and is_signed):
                raise
            fault = unread if fault is None or unread.cause == "sum" else fault
        later = shares
    raise fault or unreadable(f"no probability is stated for ({_labels(question)[0]})", reply)


def _agreed(shares: Sequence[_Share], question: Question, reply: Reply) -> list[float]:
    """The one number stated for each answer."""
    signed = [share for share in shares if share.is_signed]
    if len({share.answer for share in signed}) == len(question.answers):
        plain = [(s, s.number) for s in shares if s.number is not None and not s.is_signed]
        shares = signed
        # Fractions of 1 are a statement, too; other plain numbers are text.
        if len(plain) == len(question.answers) and abs(sum([n for _, n in plain]) - 1) < 0.02:
            shares += [share._replace(number=round(100 * n, 9)) for share, n in plain]
    numbers = []
    for index, answer in enumerate(question.answers):
        values = [share.number for share in shares if share.answer == index]
        if not values:
            raise unreadable(f"no probability is stated for ({answer.label})", reply, "partial")
        number = agreed(values, f"({answer.label})", reply)
        if number is None:
            raise unreadable(f"({answer.label}) has no plain probability", reply)
        numbers.append(number)
    if all([n in _numbers(a.text) for n, a in zip(numbers, question.answers, strict=True)]):
        raise unreadable("the reply only repeats the answers' own numbers", reply)
    return numbers


def _shares_at(
    reply: Reply, question: Question, text: str, start: int, end: int
) -> Statement[list[_Share]] | None:
    """The statements in a line: `A: 70%`, `A (48): 70%`, `A: 70%, B: 30%`, `{"A": 0.7, …`."""
    if statement := object_at(reply, text, start, end):
        shares = [
            _Share(label[0], *number)
            for key, value in (statement.value or {}).items()
            if (label := label_at(key, _labels(question))) and not label[1]
            if (number := number_in(value))
        ]
        return Statement(shares or None, statement.stop, statement.before)
    line, shares = undressed(text[start:end]), []
    while line and (opened := _share_at(line, question)):
        share, line = opened
        if len(shares) == len(question.answers):
            share, line = _Share(share.answer, None, True), ""
        shares.append(share)
        line = line.lstrip(_BETWEEN).removeprefix("and ")
    if shares or _names_answer(line, question):
        return Statement(shares, end)
    return None


def _names_answer(line: str, question: Question) -> bool:
    """Whether a line such as `Answer: A` only names an answer, as part of the statements."""
    if len(line) > _LONGEST_NAMING:
        return False
    labels, (_, colon, tail) = _labels(question), line.rpartition(":")
    opened = label_at(tail, labels)
    return (
        opened is not None
        and not opened[1].strip(AROUND)
        and bool(colon or tail.strip(AROUND) in labels)
    )


def _share_at(line: str, question: Question) -> tuple[_Share, str] | None:
    """The statement at the start of a line, and the text after it."""
    label = label_at(line, _labels(question))
    if label is None:
        return None
    index, remainder = label
    text = question.answers[index].text
    stem = text.rstrip(".!?")
    behind = remainder.lstrip(_SEPARATORS + '(*_"“')
    if stem and behind.startswith(stem):
        behind = behind[len(stem) :].removeprefix(text[len(stem) :]).lstrip(CLOSING + '"”')
        # The answer 37 is not the text before the value in `A: 37.5%`.
        is_apart = behind[:1] in tuple(_SEPARATORS.replace(".", ""))
        if is_apart and (share := _valued(behind, index, question)):
            return share
    return _valued(remainder, index, question)


def _valued(remainder: str, index: int, question: Question) -> tuple[_Share, str] | None:
    """The value after a label, as in `: 70%`. Words may follow only a colon and a percent sign."""
    remainder = remainder.lstrip(" \t")
    has_colon = remainder[:1] in (":", "=")
    for separator in (":", "=", "|", "→", "->", "=>", "- ", "– ", "— ", ". "):
        if remainder.startswith(separator):
            remainder = remainder[len(separator) :].lstrip(" \t|")
            break
    number = number_at(remainder)
    if number is None:
        is_number = has_colon and remainder.lstrip(AROUND)[:1].isdecimal() and "%" in remainder
        return (_Share(index, None, True), "") if is_number else None
    value, is_signed, after = number
    if is_signed and _is_changed(after):
        return _Share(index, None, True), ""
    opened = label_at(after.lstrip(_BETWEEN).removeprefix("and "), _labels(question))
    if not opened or opened[1].lstrip()[:1] not in (":", "="):
        is_comment = not after[:1].islower() or after.startswith(_COMMENTS)
        if after[:1].isalnum() and not (is_signed and has_colon and is_comment):
            return None
        if not is_signed and any([char.isdecimal() or char == "%" for char in after]):
            return None
    return _Share(index, value, is_signed), after


def _is_changed(text: str) -> bool:
    """Whether words behind a percentage change it: `→ 80%`, `, now 80%`, `likely to be false`."""
    behind = (text.partition(")")[2] if text.startswith("(") else text).lstrip(_SECOND)
    if (second := number_at(behind)) and second[1] and not second[2].startswith("of "):
        return True
    words = text[:MAX_LINE].split()[1:] if text.startswith(_CHANCES) else ()
    return next((word for word in words if word not in _FILLERS), "").strip(AROUND) in _OPPOSITES


@lru_cache(maxsize=1024)
def _labels(question: Question) -> tuple[str, ...]:
    return tuple(answer.label for answer in question.answers)


@lru_cache(maxsize=1024)
def _numbers(text: str) -> frozenset[float]:
    """The numbers in an answer's text: `A: 48` may just repeat the answer 48."""
    words = (number_at(word.lstrip(AROUND)) for word in text[:MAX_LINE].split())
    return frozenset(word[0] for word in words if word)
