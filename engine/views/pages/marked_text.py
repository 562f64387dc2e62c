"""Texts of models as markup, with their marked stretches."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from ....protocols.quotes import MARKS, marked
from ....protocols.tags import pairs
from ....protocols.transcript import Quote
from ...display.text import CONTROL, printable

MAX_DIFF_WORDS, MAX_DIFF_TEXT = 2_500, 25_000
"""Longest speech, in words and in characters, that is compared with the other world's."""

MIN_COMMON_WORDS = 3
"""Length of the shortest run of words that counts as common to both."""

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
    tagged = marked(text, quotes)
    # No model can write these tags: speeches are escaped when they arrive.
    for tag, last in pairs(tagged, MARKS.values()) if quotes else ():
        parts += [tagged[end : tag.start], tagged[tag.end : last.start]]
        start = length + tag.start - end
        length = start + last.start - tag.end
        marks.append(TextMark(start, length, tag.name))
        end = last.end
    return "".join([*parts, tagged[end:]]), marks


def differing(text: str, other: str) -> list[TextMark]:
    """The stretches of `text` that are not in `other`, word by word."""
    if max(len(text), len(other)) > MAX_DIFF_TEXT:
        return []
    ours = list(_WORD.finditer(text))
    # Sorted, so that both directions share one cached comparison.
    one, two = sorted((text, other))
    marks, compared = [], 0
    for starts in _common_runs(one, two):
        start, size = starts[0 if text == one else 1], starts[2]
        # One or two common words, such as "of the", are ignored.
        if size >= MIN_COMMON_WORDS or start == len(ours):
            if start > compared:
                marks.append(TextMark(ours[compared].start(), ours[start - 1].end(), "differs"))
            compared = start + size
    return marks


@lru_cache(64)
def _common_runs(one: str, two: str) -> list[Match]:
    """Common parts of two texts: (first word in one, in the other, number of words). The last one
    is at their ends. Empty for texts that are too long."""
    words = _WORD.findall(one), _WORD.findall(two)
    if max(map(len, words)) > MAX_DIFF_WORDS:
        return []
    return SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()


def shown(text: str, marks: Iterable[TextMark] = (), most: int | None = None) -> Markup:
    """`text` escaped for a page. most: approximate length of the markup after which it is cut."""
    marks = list(marks)
    markup = Markup("").join(_pieces(text, marks))
    if most is None or len(markup) <= most:
        return markup
    length = max(most * len(text) // len(markup), 1)
    left_out = len(text) - length
    note = Markup('<span class="more">… {} more characters</span>').format(f"{left_out:,}")
    return Markup("").join([*_pieces(text[:length], marks), note])


def _pieces(text: str, marks: Sequence[TextMark]) -> Iterator[Markup]:
    controls = (TextMark(match.start(), match.end(), "ctl") for match in CONTROL.finditer(text))
    opens: dict[int, list[str]] = {}
    closes: dict[int, list[str]] = {}
    for start, end, kind in (*marks, *controls):
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
