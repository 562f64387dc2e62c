"""Statements: a reply's own words in the form that was asked for, whether lines, votes or JSON.

Every reply is read in four steps:

1. thoughts are dropped: those in `<private>` here, all others by `Reply`;
2. quotations are dropped (`oversight.protocols.prompts.quotations`);
3. the last group of statements counts; prose ends a group, blank lines, rules and fences do not;
4. labels and values are read through one table of dress, as they are here.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from ...cache.reply import Reply
from ..errors import unreadable
from ..tags import without_thoughts
from .quotations import COLONS, introduction, marked_lines, takes_back

_T = TypeVar("_T")

MAX_LINE = 1_000
"""Characters of a line in which a statement may stand."""

_FENCES = ("```", "~~~")
_INDENTS = ("    ", "\t")

AROUND = " \t\r*\"'`_$\\()[]{}<>.,:;!"
"""Dress of a label: `<A>`, `(A)`, `**A**`, `$A$`."""
OPENING = " \t\r#+-•–|*`_$([{<"
"""Dress at the start of a line: marks of lists, headings and tables, and emphasis."""
CLOSING = "*`_)]}>$\\"
_QUOTES = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019"}
_NOUNS = (
    *("answer", "option", "choice", "label", "debater", "consultant", "p"),
    *("probability of", "likelihood of", "confidence in", "probability"),
)
"""Words before a label, as in `Option A` and `P(A)`."""
_LONGEST_NOUN = max(map(len, _NOUNS))

_DIGITS = "0123456789-.,"
_SIGNS = ("percent", "per cent", "prozent", "pour cent", "por ciento")
_ABOUT = ("about ", "approximately ", "around ", "roughly ")
_BEFORE_NUMBER = " \t*`_\"'“\u2018$([{}<\\~≈"
_BEHIND_NUMBER = " \t*`_>)]}\"'”\u2019$\\"

_FOLDED: dict[int, str | int] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0xA0, 0x2007, 0x2009, 0x202F), " "),
    **dict.fromkeys((0x2011, 0x2212), "-"),
}
"""Fullwidth signs, spaces and hyphens, and how they are read."""
_COMMANDS = (
    *("\\boxed", "\\textbf", "\\text", "\\mathbf", "\\mathrm", "\\(", "\\)", "\\[", "\\]"),
    *("\\quad", "\\;", "\\,"),
    *("<b>", "</b>", "<strong>", "</strong>", "<br>"),
)
"""Layout without a meaning, in LaTeX and HTML."""


class Statement(NamedTuple, Generic[_T]):
    """A statement in a text."""

    value: _T | None
    """None: no statement, and nothing is read up to `stop`."""
    stop: int
    """Place behind it."""
    before: str = ""
    """Words before it on its line."""


Read: TypeAlias = Callable[[str, int, int], Statement[_T] | None]
"""Reads the statement in a line of a text, given the places where the line starts and ends."""


def readable(reply: Reply) -> str:
    """The text that may be read for an answer, without private thoughts.

    Of a truncated reply all but its last word, which may be half a word or half a number.
    Declined if the model refused, whatever it wrote: a refusal is not an answer.
    """
    if reply.outcome == "refused":
        raise unreadable("refused", reply)
    text = reply.text
    if reply.outcome == "truncated" and text and not text[-1:].isspace():
        text = text.removesuffix(text.rsplit(None, 1)[-1])
    return without_thoughts(text, " \t") if "<" in text else text


def groups(reply: Reply, read: Read[_T]) -> list[list[_T]]:
    """The statements of a reply in its own words, group by group, in order."""
    text = readable(reply)
    marked, done = marked_lines(text), 0
    walk: _Walk[_T] = _Walk()
    for number, (start, end) in enumerate(_lines(text)):
        if start < done:
            continue
        bare = text[start : min(end, start + MAX_LINE)].strip()
        if not bare:
            walk.blank()
        elif number in marked:
            walk.quotation(bare)
        elif found := read(text, start, end):
            done = found.stop
            if found.value is None:
                walk.prose(bare)
            else:
                walk.statement(found.value, found.before, text.startswith(_INDENTS, start))
        elif bare.startswith(_FENCES):
            walk.is_fenced = not walk.is_fenced
        elif not _is_layout(bare):
            walk.prose(bare)
    walk.close()
    return walk.kept


class _Walk(Generic[_T]):
    """A walk through the lines of a reply: which groups of statements are its own."""

    def __init__(self) -> None:
        self.kept: list[list[_T]] = []
        self.is_fenced = False
        self._group: list[_T] = []
        self._is_own = self._may_go_on = True
        """Of the group: whether it is the reply's own, also if prose follows."""
        self._above: str = ""
        """Kind of the last prose, as `introduction` names it; empty at the beginning."""
        self._quotes = self._is_open = self._is_near = False
        """Whether words opened a quotation; whether the last prose announces other lines; whether
        no blank line stands below it."""

    def blank(self) -> None:
        # A quotation ends with its paragraph.
        self._quotes, self._is_near = self._quotes and self._is_open, False

    def quotation(self, line: str = "") -> None:
        self.close(follows=True)
        self._quotes = self._is_open = line.endswith(COLONS)
        self._above = "none"

    def statement(self, value: _T, before: str, is_indented: bool) -> None:
        if before:
            self.prose(before)
        if not self._group:
            # A heading or an item of a list, with a blank line below it, introduces nothing.
            introduces = self._above in ("unclear", "others") and (self._is_open or self._is_near)
            sure = self._above in ("", "own") or not (introduces or self.is_fenced or is_indented)
            self._is_own, self._may_go_on = not self._quotes, sure
        self._is_open = False
        self._group.append(value)
        if before and not self._is_own:  # The quotation is what stands on this line.
            self.quotation()

    def prose(self, line: str) -> None:
        self.close(line, follows=True)
        kind = introduction(line)
        if kind in ("others", "demand"):
            self._quotes = True
        elif kind == "own" and not self._is_open:
            self._quotes = False
        is_sentence = ":" not in line and (line[0].isalpha() or line.startswith(("#", "**")))
        self._is_open = kind == "demand" or line.rstrip("*_` ").endswith(COLONS)
        self._is_open |= kind == "others" and is_sentence
        self._above, self._is_near = kind, True

    def close(self, line: str = "", follows: bool = False) -> None:
        """End the group. line: the prose behind it; follows: whether anything does."""
        is_own = self._is_own and (self._may_go_on or not follows)
        if self._group and is_own and not (line and takes_back(line)):
            self.kept.append(self._group)
        self._group = []


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _is_layout(bare: str) -> bool:
    """Whether a line has no words: a rule, a tag alone, a row of a table, a command of LaTeX."""
    ends = bare[0] + bare[-1]
    is_tag = ends == "<>" and " " not in bare
    return is_tag or ends == "||" or bare[0] == "\\" or not any(map(str.isalnum, bare))


def undressed(line: str) -> str:
    """A line without layout, and without what may stand before a statement."""
    line = line[:MAX_LINE]
    if not line.isascii():
        line = line.translate(_FOLDED)
    if "\\" in line or "<" in line:
        for command in _COMMANDS:
            line = line.replace(command, "")
    line = line.lstrip(OPENING)
    number, _, rest = line.partition(" ")
    if number[:-1].isdecimal() and number[-1] in ".)":
        return rest.lstrip(OPENING)
    return line


def label_at(text: str, labels: Sequence[str]) -> tuple[int, str] | None:
    """The place of the label that opens a text, in any dress, and the text behind it.

    Its case does not matter where that leaves one label.
    """
    text = text.lstrip(OPENING)
    if label := _label_at(text, labels):
        return label
    head = text[:_LONGEST_NOUN].lower()
    for noun in _NOUNS:
        if head.startswith(noun) and text[len(noun) : len(noun) + 1] in (" ", "("):
            return _label_at(text[len(noun) :].lstrip(OPENING), labels)
    return None


def _label_at(text: str, labels: Sequence[str]) -> tuple[int, str] | None:
    closing = _QUOTES.get(text[:1], "")
    text = text[len(closing) :]
    for label, place in _by_length(tuple(labels)):
        if text.startswith(label) or text[: len(label)].casefold() == label:
            rest = text[len(label) :]
            if rest[:1].isalnum() or (rest[:1] == "_" and rest[1:2].isalnum()):
                continue
            if rest.startswith(closing):
                return place, rest[len(closing) :].lstrip(CLOSING)
    return None


@lru_cache(maxsize=1024)
def _by_length(labels: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The labels with their places, the longest first, then those in one case that are one label's
    alone."""
    exact = [(label, place) for place, label in enumerate(labels)]
    cases = [label.casefold() for label in labels]
    alike = [(case, place) for place, case in enumerate(cases) if cases.count(case) == 1]
    return tuple(sorted(exact, key=_length) + sorted(alike, key=_length))


def _length(label: tuple[str, int]) -> int:
    return -len(label[0])


def number_at(text: str) -> tuple[float, bool, str] | None:
    """The number that opens a text, in any dress; whether it has a percent sign; the text behind.

    None for no number, or for a part of a range, a fraction or a word.
    """
    bare = text.lstrip(_BEFORE_NUMBER)
    for word in _ABOUT if bare[:1].isalpha() else ():
        if bare[: len(word)].lower() == word:
            bare = bare[len(word) :].lstrip(_BEFORE_NUMBER)
            break
    is_bound = "<" in text[: len(text) - len(bare)]
    rest = bare.lstrip(_DIGITS)
    digits = bare[: len(bare) - len(rest)].rstrip(".,")
    behind = rest.lstrip(_BEHIND_NUMBER)
    sign = "%" if behind[:1] == "%" else ""
    for word in _SIGNS if behind[:1].isalpha() else ():
        sign = word if behind[: len(word)].lower() == word else sign
    after = behind[len(sign) :].lstrip(_BEHIND_NUMBER) if sign else behind
    if is_bound and ">" not in rest[: len(rest) - len(after)]:
        return None
    joined = behind[len(sign) : len(sign) + 1] if sign else rest[:1]
    if joined.isalnum() or joined == "_" or (sign and joined == "%") or _is_range(after):
        return None
    try:
        return float(digits.replace(",", ".")), bool(sign), after
    except ValueError:
        return None


def _is_range(rest: str) -> bool:
    """Whether what follows a number makes it the start of a range or fraction: 60% to 70%, 6/10."""
    for sign in ("-", "–", "/", "to "):
        if rest.startswith(sign):
            return rest[len(sign) :].lstrip(" \t")[:1] in tuple(_DIGITS)
    return False


def number_in(value: object) -> tuple[float, bool] | None:
    """A value of a form as a finite number, also where it is a text, and whether it has a percent
    sign; None if it is none."""
    if isinstance(value, str):
        found = number_at(value)
        return found[:2] if found and not found[2].strip(AROUND) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value), False


def agreed(stated: Sequence[_T], what: str, reply: Reply) -> _T:
    """The one thing that is stated, however often. Unreadable if two differ."""
    if any(other != stated[0] for other in stated):
        raise unreadable(f"the reply states {what} twice, and differently", reply, "two statements")
    return stated[0]
