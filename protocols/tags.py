"""Texts of models: their limits, and the tags in them, which are escaped if they mislead.

Prompts are laid out with tags that only this program can write. A model that writes such a tag into
its speech could imitate a tool's result, a verified quote or another debater's turn. So models'
texts are escaped before anyone else reads them, and each attempt is counted. The texts of a data
set, which anyone may have written, are shown without live tags as well."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from unicodedata import category, east_asian_width

from ..cache.normalize import ASCII, normalized

TAGS = (
    "question",
    "passage",
    "answer",
    "turn",
    "tool",
    "verified",
    "unverified",
    "unchecked",
    "instructions",
    "example",
    "reply",
    "rules",
    "statement",
)
"""The tags that structure prompts. Texts of others never contain a live one."""

_LONGEST = 32
"""Maximum characters of a tag's name, and between a tag and the mark after it."""

FINDINGS = ("verified", "unverified", "unchecked", "refuted")
"""A program's findings about quotes and claims."""
_MARKED = ("quote", "claim", "tool")
_ANGLES, _SYMBOLS = "‹«\uff1c", " \t\n/✓✔✅☑:*_-"
"""Characters that may imitate <, and characters that may precede a name in brackets."""

MAX_CLAIMS = 32
"""Maximum number of claims of a speech that are checked."""

COLUMNS = 8
"""Maximum columns of a word, including the blank after it. A wide character takes two."""
_BACK = 40
"""Maximum characters given up to avoid splitting a word, and minimum columns of a text."""


class Tag(NamedTuple):
    start: int
    """Position of its <."""
    end: int
    """Position after its >. -1 if it has none, or if more than white space precedes it."""
    name: str
    closing: bool


def find_tags(text: str, names: Collection[str]) -> Iterator[Tag]:
    """Text that looks like a tag with one of these names, in any case, with any white space, or
    with invisible characters inside, as texts of data sets may have."""
    start = text.find("<")
    while start >= 0:
        following = text.find("<", start + 1)
        limit = len(text) if following < 0 else following
        inside = text[start + 1 : limit]
        if not inside:
            start = following
            continue
        name, closing, remainder = _read(inside)
        if name in names:
            end = limit - len(remainder) + 1 if remainder.startswith(">") else -1
            yield Tag(start, end, name, closing)
        elif not inside.isprintable() or not inside.isascii():
            visible = (
                char for char in normalized(inside)[0] if char.isprintable() or char in " \t\n\r"
            )
            name, closing, _ = _read("".join(visible))
            if name in names:
                yield Tag(start, -1, name, closing)
        start = following


def _read(inside: str) -> tuple[str, bool, str]:
    """Parse the text after a <, up to the next one: name, whether it closes, and the remainder."""
    inside = inside.lstrip()
    if closing := inside.startswith("/"):
        inside = inside[1:].lstrip()
    length = 0
    while length < min(len(inside), _LONGEST) and (
        inside[length].isalnum() or inside[length] == "_"
    ):
        length += 1
    return inside[:length].casefold(), closing, inside[length:].lstrip()


def pairs(text: str, names: Collection[str]) -> Iterator[tuple[Tag, Tag]]:
    """Each `<name>` without white space in it, with the next `</name>`, in order, not nested."""
    opening: Tag | None = None
    for tag in find_tags(text, names):
        if tag.end - tag.start != len(tag.name) + 2 + tag.closing:
            continue
        if opening is None:
            opening = None if tag.closing else tag
        elif tag.closing and tag.name == opening.name:
            yield opening, tag
            opening = None


def without_thoughts(text: str, white: str = " \t\r\n") -> str:
    """`text` without the parts between <private> and </private>, and without `white` after them. An
    unpaired tag hides everything that it may enclose: the text before a lone end tag, or after a
    lone start tag. It is better to cut too much than to show private thoughts."""
    parts: list[str] = []
    opened = position = 0
    for tag in find_tags(text, ("private",)):
        if tag.end < 0:
            continue
        if not opened:
            parts.append(text[position : tag.start])
        if tag.closing and not opened:
            parts = []
        opened += -1 if tag.closing and opened else not tag.closing
        position = tag.end
        while position < len(text) and text[position] in white and tag.closing:
            position += 1
    return "".join(parts if opened else [*parts, text[position:]])


class Claim(NamedTuple):
    tool: str
    expected: str
    body: str
    tags: tuple[int, int]
    """Positions of its tags."""


def claims_in(speech: str) -> list[Claim]:
    """Each `<claim tool="…" expect="…">…</claim>` to be checked, in order."""
    claims: list[Claim] = []
    claim, end = ("", "", 0), -1
    for tag in find_tags(speech, ("claim",)):
        if not tag.closing and end < 0:
            stop = speech.find("<", tag.start + 1)
            close = speech.find(">", tag.start, len(speech) if stop < 0 else stop)
            match speech[tag.start : close + 1].split('"'):
                case [head, tool, middle, expected, last] if (
                    head.casefold().split() == ["<claim", "tool="]
                    and middle[:1].isspace()
                    and middle.strip().casefold() == "expect="
                    and last.strip() == ">"
                ):
                    claim, end = (tool, expected, tag.start), close + 1
        elif tag.closing and end >= 0:
            tool, expected, start = claim
            claims.append(Claim(tool, expected, speech[end : tag.start], (start, tag.start)))
            end = -1
    return claims[:MAX_CLAIMS]


class ShownSpeech(NamedTuple):
    """A text as others read it."""

    text: str
    forged: int
    """Number of reserved tags in it."""
    malformed: int
    """Number of quotes, claims and marks in it that no program checks."""
    cut: bool


def shown(
    text: str, words: int, checks: tuple[str, ...] = (), checked_here: bool = False
) -> ShownSpeech:
    """A model's text as others may read it: limited, and without a live tag. checks: `quote`,
    `claim` or both, if a program checks them for this speaker. checked_here: whether it does so in
    this text."""
    text, cut = limit_words(text.strip(), words)
    misleading = _misleading(text, checks, checked_here)
    starts = (0, *(end for _, end in misleading))
    ends = (*(start for start, _ in misleading), len(text))
    text = "‹".join([text[start:end] for start, end in zip(starts, ends, strict=True)])
    text, forged = escape_and_count(text)
    return ShownSpeech(text, forged, len(misleading), cut)


def _misleading(text: str, checks: tuple[str, ...], checked_here: bool) -> list[tuple[int, int]]:
    """The parts of a text to replace by ‹: the < of unchecked quotes and claims, brackets before
    the name of a mark, and the character that joins a finding to a tag."""
    spans: dict[int, int] = {}
    tags, checked = [*find_tags(text, ("quote", "claim"))], set[int]()
    if tags and (checked_here or "quote" not in checks):
        checked.update(tag.start for pair in pairs(text, ("quote",)) for tag in pair)
    if tags and (checked_here or "claim" not in checks):
        checked.update(start for claim in claims_in(text) for start in claim.tags)
    for tag in tags:
        if tag.start not in checked:
            spans[tag.start] = tag.start + 1
        after = text[tag.end : tag.end + _LONGEST] if tag.closing and tag.end >= 0 else ""
        first = next((n for n, char in enumerate(after) if char.isalnum()), len(after))
        gap = after[:first].rstrip()
        if _read(after[first:])[0] in FINDINGS and gap[-1:] not in (*".,;!?<",):
            position = tag.end + max(len(gap) - 1, 0)
            spans[position] = position + bool(gap)
    brackets: list[str] = []
    if any(map(text.casefold().__contains__, (*FINDINGS, *_MARKED))):
        brackets = [char for char in set(text) if char in _ANGLES or category(char) == "Ps"]
        brackets += ("&lt;", "&#60;")
    for bracket in brackets:
        position = text.find(bracket)
        while position >= 0:
            end = position + len(bracket)
            name, _, remainder = _read(text[end : end + _LONGEST].lstrip(_SYMBOLS))
            if bracket == "(":
                # A word in parentheses imitates a finding only if findings are shown.
                misleads = bool(checks) and name in FINDINGS and remainder.startswith(")")
            else:
                tag_like = not remainder[:1].isalnum() or "=" in remainder
                misleads = name in FINDINGS or (name in _MARKED and tag_like)
            if misleads:
                spans[position] = end
            position = text.find(bracket, end)
    return sorted(spans.items())


def holds_escaped_mark(text: str) -> bool:
    """Whether a text contains an escaped quote, claim or mark."""
    parts = text.split("‹")[1:]
    names = [_read(part[:_LONGEST].lstrip(_SYMBOLS))[0] for part in parts]
    return any(name in FINDINGS or name in _MARKED for name in names)


def limit_words(text: str, words: int) -> tuple[str, bool]:
    """`text` cut to `words` words of `COLUMNS` each, with a mark, and whether it was cut."""
    end = end_of_words(text, words)
    return (text, False) if end == len(text) else (f"{text[:end].rstrip()} […]".lstrip(), True)


def size_in_words(text: str) -> int:
    """Length in words. A text with few blanks counts as one word per `COLUMNS`."""
    columns = len(text) if text.isascii() else sum(map(_width, text))
    return max(len(text.split()), -(-columns // COLUMNS))


def end_of_words(text: str, words: int) -> int:
    """The end of the first `words` words: before the next one, or at the end of their columns. No
    visible character is split, and no word if it starts close to the end."""
    room = max(COLUMNS * words, _BACK)
    end = min(room, len(text))
    start = "" if text.isascii() or 2 * len(text) <= room else text[: room + 1]
    if any([_width(char) > 1 for char in set(start) - ASCII]):
        columns = accumulate(map(_width, start))
        end = next((n for n, column in enumerate(columns) if column > room), len(text))
    least = end - _BACK
    while 0 < end < len(text) and (
        category(text[end]) in ("Mn", "Mc", "Me", "Sk")
        or (end > least and text[end - 1 : end + 1].isalnum())
    ):
        end -= 1
    last = text[:end].split(None, words)
    return end - len(last[-1]) if len(last) > words else end


def _width(char: str) -> int:
    return 2 if east_asian_width(char) in "WF" else 1


def escape_and_count(text: str) -> tuple[str, int]:
    """`text` with ‹ for the < of every reserved tag, and the number of these tags."""
    return _escaped(text) if "<" in text else (text, 0)


@lru_cache(maxsize=1024)  # laid out again for every later reader
def _escaped(text: str) -> tuple[str, int]:
    parts, end, count = [], 0, 0
    for tag in find_tags(text, TAGS):
        parts += [text[end : tag.start], "‹"]
        end, count = tag.start + 1, count + 1
    return "".join([*parts, text[end:]]), count


def escape_tags(text: str) -> str:
    """A text of a data set with its reserved tags escaped, as readers see it."""
    return escape_and_count(text)[0]
