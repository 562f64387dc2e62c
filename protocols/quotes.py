"""Quotes checked against the passage (Khan et al. 2024, arXiv:2402.06782).

A judge who may not read the passage cannot tell a quote from an invention. So a program looks each
quote up, and shows the result to the judge in tags that no model can write."""

import re
from collections.abc import Sequence
from unicodedata import decomposition

from ..cache.normalize import normalized
from .tags import pairs, size_in_words
from .transcript import Quote

MAX_QUOTE_WORDS = 50
"""Maximum words of a quote that is looked up. The mark of a longer quote says so."""

MARKS = {True: "verified", False: "unverified", None: "unchecked"}
"""The tag for the result of checking a quote."""

_TAG = ("quote",)
# Each of these patterns matches one character, so that they take linear time.
APOSTROPHES = "'`\u00b4\u2018\u2019\u201b\u02bc"
_APOSTROPHE = re.compile(rf"(?<=\w)[{APOSTROPHES}](?=\w)")
_DASHES = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-")
)
_EXACT = "%$€£+±×÷/=≠<>≤≥-"
"""Characters whose omission would make another number or formula."""
_OTHER = re.compile(
    rf"[^\w.,:{_EXACT}]|_"
    r"|[.,:](?!\d)|(?<!\d)[,:]|(?<=[^\W\d])\."  # 3.5, 10:30, 3,500 and .5 are numbers
    r"|-(?!\d)|(?<=[\w%])-"  # and so is -5
)


def find_quotes(speech: str, passage: str) -> tuple[Quote, ...]:
    """Every quote of a speech, in order. A quote needs its end tag."""
    texts = [speech[tag.end : last.start] for tag, last in pairs(speech, _TAG)]
    if not texts:
        return ()
    normalized = fold(passage)
    return tuple(Quote(text, _stands_in(text, normalized)) for text in texts)


def marked(speech: str, quotes: Sequence[Quote]) -> str:
    """The speech with our mark on every checked quote."""
    if not quotes:
        return speech
    findings = {quote.text: quote.verified for quote in quotes}
    parts, end = [], 0
    for tag, last in pairs(speech, _TAG):
        if (text := speech[tag.end : last.start]) in findings:
            mark = MARKS[findings[text]]
            parts += [speech[end : tag.start], f"<{mark}>{text}</{mark}>"]
            end = last.end
    return "".join([*parts, speech[end:]])


def fold(text: str) -> str:
    """The common form of two spellings of a sentence: lower case, words one space apart.

    Quotation marks, emphasis, punctuation and white space are removed. Signs of numbers and
    formulas stay, such as the sign of -5, the point of 3.5 and the % of 5%, so that no other number
    is verified. Quotes, parts of statements and claims use this form."""
    return " ".join(_OTHER.sub(" ", _APOSTROPHE.sub("", plain_signs(text).casefold())).split())


def plain_signs(text: str) -> str:
    """The text with one sign for all dashes, and letters and digits of one width and type."""
    if text.isascii():
        return text
    forms = {ord(char): decomposition(char).split() for char in set(text)}
    variants = ("<wide>", "<narrow>", "<font>")
    plain = {char: int(form[1], 16) for char, form in forms.items() if form and form[0] in variants}
    return normalized(text.translate(plain))[0].translate(_DASHES)


def end_of(part: str, text: str) -> int:
    """The end of the first match of `part` in a short text, compared like a quote, or -1."""
    words, normalized = fold(part), fold(text)
    start = _place(words, normalized)
    if start < 0:
        return -1
    ends = range(1, len(text) + 1)
    return next(end for end in ends if len(fold(text[:end])) >= start + len(words))


def _stands_in(quote: str, passage: str) -> bool | None:
    """Whether a quote occurs in a normalised passage as whole words ("legal" is not in "illegal").
    None if it is too long."""
    return None if size_in_words(quote) > MAX_QUOTE_WORDS else _place(fold(quote), passage) >= 0


def _place(words: str, text: str) -> int:
    """Position of the first match of a normalised text in another, as whole words, or -1."""
    position = text.find(words) if words else -1
    while position >= 0 and (
        _splits_word(text, position) or _splits_word(text, position + len(words))
    ):
        position = text.find(words, position + 1)
    return position


def _splits_word(text: str, at: int) -> bool:
    """Whether `at` is inside a word or number. Scripts without lower case may be written without
    spaces, so every position is accepted there."""
    return 0 < at < len(text) and all(c.islower() or c in _NUMERIC for c in text[at - 1 : at + 1])


_NUMERIC = f"0123456789.,:{_EXACT}"
