"""Quotes checked against the passage (Khan et al. 2024, arXiv:2402.06782).

A judge who may not read the passage cannot tell a quote from an invention. So a program looks
each quote up, and its finding is shown to the judge in tags that no model can write.
"""

import re
from collections.abc import Sequence
from unicodedata import decomposition

from ..cache.folding import folded
from .tags import pairs, size_in_words
from .transcript import Quote

MAX_QUOTE_WORDS = 50
"""Words. A longer quote is not looked up; its mark says so."""

MARKS = {True: "verified", False: "unverified", None: "unchecked"}
"""The tag that shows what was found of a quote."""

_TAG = ("quote",)
# Each of these patterns is one character long: none can take a time that grows faster than a text.
_APOSTROPHE = re.compile(r"(?<=\w)['`\u00b4\u2018\u2019\u201b\u02bc](?=\w)")
_DASHES = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-")
)
_EXACT = "%$€£+±×÷/=≠<>≤≥-"
"""What makes another number or another formula if it is left out."""
_OTHER = re.compile(
    rf"[^\w.,:{_EXACT}]|_"
    r"|[.,:](?!\d)|(?<!\d)[,:]|(?<=[^\W\d])\."  # 3.5, 10:30, 3,500 and .5 are numbers
    r"|-(?!\d)|(?<=[\w%])-"  # and so is -5
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
    """The words that two spellings of one sentence share: in small letters, one space apart.

    Quotation marks, emphasis, punctuation and white space are gone. Signs of numbers and formulas
    stay, such as the sign of -5, the point of 3.5 and the % of 5%: another number must not be
    verified. Quotes, parts of statements and claims share this fold of signs.
    """
    text = _APOSTROPHE.sub("", plain_signs(text).casefold())
    return " ".join(_OTHER.sub(" ", text).split())


def plain_signs(text: str) -> str:
    """The text with one sign for all dashes, and with letters and digits of one width and type."""
    if text.isascii():
        return text
    forms = {ord(char): decomposition(char).split() for char in set(text)}
    same = ("<wide>", "<narrow>", "<font>")
    plain = {char: int(form[1], 16) for char, form in forms.items() if form and form[0] in same}
    return folded(text.translate(plain))[0].translate(_DASHES)


def end_of(part: str, text: str) -> int:
    """Where the first place ends at which a part stands in a short text, as a quote stands in a
    passage; -1 if it does not."""
    wanted, whole = fold(part), fold(text)
    start = _place(wanted, whole)
    if start < 0:
        return -1
    ends = range(1, len(text) + 1)
    return next(end for end in ends if len(fold(text[:end])) >= start + len(wanted))


def _stands_in(quote: str, passage: str) -> bool | None:
    """Whether a quote stands in a folded passage, as whole words: "legal" is not in "illegal"; None
    for one that is too long."""
    return None if size_in_words(quote) > MAX_QUOTE_WORDS else _place(fold(quote), passage) >= 0


def _place(wanted: str, text: str) -> int:
    """Where a folded text first stands in another as whole words; -1 if it does not."""
    place = text.find(wanted) if wanted else -1
    while place >= 0 and (_splits_word(text, place) or _splits_word(text, place + len(wanted))):
        place = text.find(wanted, place + 1)
    return place


def _splits_word(text: str, at: int) -> bool:
    """Whether `at` is inside a word or number. Scripts without small letters are written without
    spaces, or may be; there every place will do."""
    return 0 < at < len(text) and all(c.islower() or c in _NUMERIC for c in text[at - 1 : at + 1])


_NUMERIC = f"0123456789.,:{_EXACT}"
