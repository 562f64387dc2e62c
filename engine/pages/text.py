"""Model output as inert markup: escaped, control characters visible, quotes and diffs marked."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from ...protocols.quotes import MARKS, Quote, marked
from ..display.printable import CONTROL, printable

MAX_DIFF_WORDS = 2_500
"""Longest speech, in words, that is compared with the other world's."""

MIN_COMMON_WORDS = 3
"""Length of the shortest run of words that counts as common to both."""

_KINDS = "|".join(MARKS.values())
_QUOTE = re.compile(rf"<(?P<kind>{_KINDS})>(?P<text>.*?)</(?P=kind)>", re.DOTALL)
_WORD = re.compile(r"\S+")


class TextMark(NamedTuple):
    """A stretch of a text, and the class that it is shown with."""

    start: int
    end: int
    kind: str


def quoted(text: str, quotes: Sequence[Quote]) -> tuple[str, list[TextMark]]:
    """A speech without our tags, and the quotes that were looked up in it."""
    parts: list[str] = []
    marks: list[TextMark] = []
    length = end = 0
    told = marked(text, quotes)
    # No model can write these tags: they are escaped before a speech is one.
    for found in _QUOTE.finditer(told) if quotes else ():
        parts += [told[end : found.start()], found["text"]]
        start = length + found.start() - end
        length = start + len(found["text"])
        marks.append(TextMark(start, length, found["kind"]))
        end = found.end()
    return "".join([*parts, told[end:]]), marks


def differing(text: str, other: str) -> list[TextMark]:
    """The stretches of `text` that are not in `other`, word by word."""
    ours, theirs = list(_WORD.finditer(text)), list(_WORD.finditer(other))
    if max(len(ours), len(theirs)) > MAX_DIFF_WORDS:
        return []
    match = SequenceMatcher(None, [w[0] for w in theirs], [w[0] for w in ours], autojunk=False)
    marks, done = [], 0
    for _, start, size in match.get_matching_blocks():
        # A word or two in common, such as "of the", say nothing.
        if size >= MIN_COMMON_WORDS or start == len(ours):
            if start > done:
                marks.append(TextMark(ours[done].start(), ours[start - 1].end(), "differs"))
            done = start + size
    return marks


def shown(text: str, marks: Iterable[TextMark] = (), most: int | None = None) -> Markup:
    """`text` as it may stand in a page. most: bytes of markup, about, after which it is cut."""
    marks = list(marks)
    whole = _shown(text, marks)
    if most is None or len(whole) <= most:
        return whole
    kept = max(most * len(text) // len(whole), 1)
    left = len(text) - kept
    rest = Markup('<span class="more">… {} more characters</span>').format(f"{left:,}")
    return _shown(text[:kept], marks) + rest


def _shown(text: str, marks: Sequence[TextMark]) -> Markup:
    if not marks and not CONTROL.search(text):
        return escape(text)
    return Markup("").join(_pieces(text, marks))


def _pieces(text: str, marks: Sequence[TextMark]) -> Iterator[Markup]:
    every = [
        *marks,
        *(TextMark(found.start(), found.end(), "ctl") for found in CONTROL.finditer(text)),
    ]
    opens: dict[int, list[str]] = {}
    closes: dict[int, list[str]] = {}
    for start, end, kind in every:
        opens.setdefault(start, []).append(kind)
        closes.setdefault(min(end, len(text)), []).append(kind)
    cuts = sorted({0, len(text), *(n for n in (*opens, *closes) if n < len(text))})
    within: list[str] = []
    for start, end in pairwise(cuts):
        for kind in closes.get(start, ()):
            within.remove(kind)
        within += opens.get(start, ())
        piece = escape(printable(text[start:end]))
        if within:
            kinds = " ".join(dict.fromkeys(within))
            yield Markup('<span class="{}">{}</span>').format(kinds, piece)
        else:
            yield piece
