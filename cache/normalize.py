"""Normalization of model output: Unicode NFC without invisible characters."""

from functools import lru_cache
from unicodedata import category, combining, normalize

MAX_MARKS = 30
"""Maximum combining marks in a row: no script needs more (Stream-Safe Text Format, Unicode annex
15), and sorting them takes quadratic time."""

MAX_TEXT = 2_000

_UNSEEN = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
"""Other invisible characters of Unicode (Default_Ignorable_Code_Point)."""


ASCII = frozenset(map(chr, range(128)))


def normalized(text: str) -> tuple[str, int]:
    """`text` in NFC without invisible characters, and the number of those that were removed.

    A zero-width character in a tag or a word hides it from readers, but not from a model. Removed
    are format characters (category Cf, among them those that change the direction of a line),
    variation selectors and the like, and marks after MAX_MARKS in a row. Normalizing twice changes
    nothing."""
    if text.isascii():
        return text, 0
    unseen, classes = _facts(frozenset(text) - ASCII)
    visible = text.translate(unseen) if unseen else text
    if max(classes.values())[0]:
        visible = _few_marks(visible, classes)
    return normalize("NFC", visible), len(text) - len(visible)


@lru_cache(maxsize=256)  # texts about one problem have the same signs
def _facts(strange: frozenset[str]) -> tuple[dict[int, None], dict[str, list[int]]]:
    """The invisible ones of these characters, and the combining classes as in `_few_marks`."""
    unseen = {ord(char): None for char in strange if category(char) == "Cf" or char in _UNSEEN}
    return unseen, {char: [*map(combining, normalize("NFD", char))] for char in strange}


def _few_marks(text: str, classes: dict[str, list[int]]) -> str:
    """Drop marks after MAX_MARKS in a row. classes: by character, the combining classes of its
    decomposition; 0 for a base character."""
    chars, marks = [], 0
    for char in text:
        parts = classes.get(char, [0])
        marks = len(parts) - parts.count(0) + (marks if parts[0] else 0)
        if marks <= MAX_MARKS:
            chars.append(char)
    return "".join(chars)


def words(text: str) -> str:
    """A text as lower-case words: `RateLimitReached` and `rate_limit_reached` become the same."""
    spaced = []
    for word in text[:MAX_TEXT].split():
        spaced.append(" ")
        if word.isalpha() and word[1:].islower():
            spaced.append(word)
            continue
        before = ""
        for char in word:
            if char.isalnum():
                spaced.append(f" {char}" if char.isupper() and before.islower() else char)
            elif not (char == "," and before.isdigit()):
                spaced.append(" ")
            before = char
    return " ".join("".join(spaced).casefold().split())
