"""Folding: what a model wrote, as everything here reads it."""

from unicodedata import category, combining, normalize

MAX_MARKS = 30
"""Most combining marks in a row that are kept: no script needs as many (the Stream-Safe Text Format
of Unicode's annex 15), and sorting them takes a time that grows with the square of their number."""

MAX_TEXT = 2_000
"""Characters that `words` looks at."""

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
"""What else Unicode shows as nothing (Default_Ignorable_Code_Point)."""


def normalized(text: str) -> tuple[str, int]:
    """`text` in NFC without characters that nobody sees, and how many those were.

    A zero-width character within a tag or a word hides it from every reader but the model that is
    prompted with it. Gone are format characters (category Cf), which include those that turn the
    direction of a line, variation selectors and the like, and marks after MAX_MARKS in a row.
    Folding what is folded changes nothing.
    """
    if text.isascii():
        return text, 0
    strange = [char for char in set(text) if not char.isascii()]
    unseen = {ord(char): None for char in strange if category(char) == "Cf" or char in _UNSEEN}
    kept = text.translate(unseen) if unseen else text
    classes = {char: [*map(combining, normalize("NFD", char))] for char in strange}
    if max(classes.values())[0]:
        kept = _few_marks(kept, classes)
    return normalize("NFC", kept), len(text) - len(kept)


def _few_marks(text: str, classes: dict[str, list[int]]) -> str:
    """classes: by character, those of the marks that it stands for; 0 is no mark's."""
    kept, marks = [], 0
    for char in text:
        parts = classes.get(char, [0])
        marks = len(parts) - parts.count(0) + (marks if parts[0] else 0)
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def words(text: str) -> str:
    """A text as lower-case words: `RateLimitReached`, `rate_limit_reached` are one."""
    spaced, before = [], ""
    for char in text[:MAX_TEXT]:
        if char.isalnum():
            spaced.append(f" {char}" if char.isupper() and before.islower() else char)
        elif not (char == "," and before.isdigit()):
            spaced.append(" ")
        before = char
    return " ".join("".join(spaced).casefold().split())
