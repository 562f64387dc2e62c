"""Quotes checked against the passage (Khan et al. 2024, arXiv:2402.06782).

A judge who may not read the passage cannot tell a quote from an invention. So a program looks
each quote up, and its finding is shown to the judge in tags that no model can write.
"""

import re
from collections.abc import Sequence

from ..cache.folding import folded
from .tags import pairs
from .transcript import Quote

MAX_QUOTE_WORDS = 50
"""Words. A longer quote is not looked up by its words; a mark of its own says so."""
MAX_QUOTE = 2_000
"""Characters of a quote that is looked up."""

MARKS = {True: "verified", False: "unverified", None: "unchecked"}
"""The tag that shows what was found of a quote."""

_TAG = ("quote",)
# Each of these patterns is one character long: none can take a time that grows faster than a text.
_APOSTROPHE = re.compile(r"(?<=\w)['\u2018\u2019\u02bc](?=\w)")
_EXACT = "%$€£+\u2212±×÷/=≠<>≤≥-"
"""What makes another number or another formula if it is left out."""
_OTHER = re.compile(
    rf"[^\w.,:{_EXACT}]|_"
    r"|[.,:](?!\d)|(?<!\d)[,:]|(?<=[^\W\d])\."  # 3.5, 10:30, 3,500 and .5 are numbers
    r"|[-\u2212](?!\d)|(?<=\w)-"  # and so is -5
)


def find_quotes(speech: str, passage: str) -> tuple[Quote, ...]:
    """Every quote of a speech, in order. One whose end tag is missing is no quote."""
    texts = [speech[tag.end : last.start] for tag, last in pairs(speech, _TAG)]
    if not texts:
        return ()
    whole = fold(passage)
    return tuple(Quote(text, _stands_in(text, whole)) for text in texts)


def marked(speech: str, quotes: Sequence[Quote]) -> str:
    """The speech with our mark on every quote that was checked."""
    if not quotes:
        return speech
    findings = {quote.text: quote.verified for quote in quotes}
    parts, done = [], 0
    for tag, last in pairs(speech, _TAG):
        if (said := speech[tag.end : last.start]) in findings:
            mark = MARKS[findings[said]]
            parts += [speech[done : tag.start], f"<{mark}>{said}</{mark}>"]
            done = last.end
    return "".join([*parts, speech[done:]])


def fold(text: str) -> str:
    """What two spellings of one sentence have in common: words in small letters, one space apart.

    Curly quotes, punctuation and white space are gone. What belongs to a number or a formula stays,
    such as the sign of -5, the point of 3.5 and the % of 5%: another number must not be verified.
    """
    text = _APOSTROPHE.sub("", folded(text)[0].casefold())
    return " ".join(_OTHER.sub(" ", text).split())


def _stands_in(quote: str, passage: str) -> bool | None:
    """Whether a quote stands in a folded passage, as whole words: "legal" is not in "illegal"; None
    for one that is too long."""
    if len(quote) > MAX_QUOTE or len(quote.split()) > MAX_QUOTE_WORDS:
        return None
    wanted = fold(quote)
    at = passage.find(wanted) if wanted else -1
    while at >= 0:
        if not _splits_word(passage, at) and not _splits_word(passage, at + len(wanted)):
            return True
        at = passage.find(wanted, at + 1)
    return False


def _splits_word(text: str, at: int) -> bool:
    """Whether `at` is inside a word or number. Scripts without small letters are written without
    spaces, or may be; there every place will do."""
    return 0 < at < len(text) and all(c.islower() or c in _NUMERIC for c in text[at - 1 : at + 1])


_NUMERIC = f"0123456789.,:{_EXACT}"
