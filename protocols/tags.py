"""Texts of models: their limits, and their tags, which are escaped where they mislead.

Prompts are laid out with tags that only this program can write. A model that writes such a tag into
its own speech could forge a tool's result, a verified quote or another debater's turn. So whatever
a model wrote is escaped before anyone else reads it, and each attempt counted. The texts of a data
set, which anyone may have written, are shown without live tags as well.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from unicodedata import category, east_asian_width

from ..cache.folding import folded

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
"""The tags that structure prompts; what we did not write never contains a live one."""

_LONGEST = 32
"""Characters that may belong to a tag's name, or stand between a tag and the mark behind it."""

FINDINGS = ("verified", "unverified", "unchecked", "refuted")
"""A program's findings about quotes and claims."""
_MARKED = ("quote", "claim", "tool")
_ANGLES, _SYMBOLS = "‹«\uff1c", " \t\n/✓✔✅☑:*_-"
"""Characters that pass for <; and characters that may stand before a name in brackets."""

MAX_CLAIMS = 32
"""Most claims of a speech that are looked at."""

COLUMNS = 8
"""Columns that a word may take, with the blank behind it. A wide character takes two."""
_BACK = 40
"""Most characters that are given up so that no word is cut in two, and least columns of a text."""


class Tag(NamedTuple):
    start: int
    """Of its <."""
    end: int
    """Behind its >; -1 if more than white space stands between it and the name, or it has none."""
    name: str
    closing: bool


def find_tags(text: str, names: Collection[str]) -> Iterator[Tag]:
    """What looks like a tag of one of these names, in any case and with any white space, or with
    characters in it that nobody sees, as a text of a data set may have."""
    start = text.find("<")
    while start >= 0:
        following = text.find("<", start + 1)
        limit = len(text) if following < 0 else following
        inside = text[start + 1 : limit]
        if not inside:
            start = following
            continue
        name, closing, rest = _read(inside)
        if name in names:
            end = limit - len(rest) + 1 if rest.startswith(">") else -1
            yield Tag(start, end, name, closing)
        elif not inside.isprintable() or not inside.isascii():
            seen = (char for char in folded(inside)[0] if char.isprintable() or char in " \t\n\r")
            name, closing, _ = _read("".join(seen))
            if name in names:
                yield Tag(start, -1, name, closing)
        start = following


def _read(inside: str) -> tuple[str, bool, str]:
    """What follows a <, up to the next one: a name, whether of a closing tag, and the rest."""
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
    """Each `<name>` without white space in it, with the next `</name>`, in order; none is within
    another."""
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
    """`text` without anything between <private> and </private>, and `white` behind it.

    An unpaired tag hides all that it may enclose: the text before a lone end, or after a lone
    start. A speech cut too short is better than a thought that others read.
    """
    kept: list[str] = []
    opened = done = 0
    for tag in find_tags(text, ("private",)):
        if tag.end < 0:
            continue
        if not opened:
            kept.append(text[done : tag.start])
        if tag.closing and not opened:
            kept = []
        opened += -1 if tag.closing and opened else not tag.closing
        done = tag.end
        while done < len(text) and text[done] in white and tag.closing:
            done += 1
    return "".join(kept if opened else [*kept, text[done:]])


class Claim(NamedTuple):
    tool: str
    expected: str
    body: str
    tags: tuple[int, int]
    """Where its tags start."""


def claims_in(speech: str) -> list[Claim]:
    """Each `<claim tool="…" expect="…">…</claim>` that is looked at, in order."""
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


class Shown(NamedTuple):
    """A text as others read it."""

    text: str
    forged: int
    """How many reserved tags it held."""
    malformed: int
    """How many quotes, claims and marks it held that no program looks up."""
    cut: bool


def shown(text: str, words: int, checks: tuple[str, ...] = (), here: bool = False) -> Shown:
    """A model's text as others may read it: limited, and without a live tag.

    checks: `quote`, `claim` or both, if a program looks them up for this speaker. here: whether it
    will do so in this text.
    """
    text, cut = limit_words(text.strip(), words)
    places = _misleading(text, checks, here)
    starts = (0, *(end for _, end in places))
    ends = (*(place for place, _ in places), len(text))
    text = "‹".join([text[start:end] for start, end in zip(starts, ends, strict=True)])
    text, forged = escape_and_count(text)
    return Shown(text, forged, len(places), cut)


def _misleading(text: str, checks: tuple[str, ...], here: bool) -> list[tuple[int, int]]:
    """The parts of a text to be replaced by ‹: the < of quotes and claims that no program looks up,
    brackets before the name of a mark, and the character that joins a finding to a tag."""
    places: dict[int, int] = {}
    tags, checked = [*find_tags(text, ("quote", "claim"))], set[int]()
    if tags and (here or "quote" not in checks):
        checked.update(tag.start for pair in pairs(text, ("quote",)) for tag in pair)
    if tags and (here or "claim" not in checks):
        checked.update(start for claim in claims_in(text) for start in claim.tags)
    for tag in tags:
        if tag.start not in checked:
            places[tag.start] = tag.start + 1
        behind = text[tag.end : tag.end + _LONGEST] if tag.closing and tag.end >= 0 else ""
        first = next((n for n, char in enumerate(behind) if char.isalnum()), len(behind))
        gap = behind[:first].rstrip()
        if _read(behind[first:])[0] in FINDINGS and gap[-1:] not in (*".,;!?<",):
            place = tag.end + max(len(gap) - 1, 0)
            places[place] = place + bool(gap)
    brackets = [char for char in set(text) if char in _ANGLES or category(char) == "Ps"]
    for bracket in (*brackets, "&lt;", "&#60;"):
        place = text.find(bracket)
        while place >= 0:
            end = place + len(bracket)
            name, _, rest = _read(text[end : end + _LONGEST].lstrip(_SYMBOLS))
            if bracket == "(":
                # Only where findings are shown does a word in parentheses pass for one.
                misleads = bool(checks) and name in FINDINGS and rest.startswith(")")
            else:
                tag_like = not rest[:1].isalnum() or "=" in rest
                misleads = name in FINDINGS or (name in _MARKED and tag_like)
            if misleads:
                places[place] = end
            place = text.find(bracket, end)
    return sorted(places.items())


def holds_escaped_mark(text: str) -> bool:
    """Whether a text holds a quote, a claim or a mark that was escaped."""
    parts = text.split("‹")[1:]
    names = [_read(part[:_LONGEST].lstrip(_SYMBOLS))[0] for part in parts]
    return any(name in FINDINGS or name in _MARKED for name in names)


def limit_words(text: str, words: int) -> tuple[str, bool]:
    """`text` cut to `words` words of `COLUMNS` each, with a mark, and whether it was cut."""
    end = end_of_words(text, words)
    return (text, False) if end == len(text) else (f"{text[:end].rstrip()} […]".lstrip(), True)


def size_in_words(text: str) -> int:
    """Length in words; a text with few blanks counts as a word for every `COLUMNS`."""
    return max(len(text.split()), -(-sum(map(_width, text)) // COLUMNS))


def end_of_words(text: str, words: int) -> int:
    """The end of the first `words` words: before the next one, or at the end of their columns. No
    character that people see is cut in two, and no word if it starts close by."""
    room = max(COLUMNS * words, _BACK)
    columns = accumulate(map(_width, text[: room + 1]))
    end = next((place for place, column in enumerate(columns) if column > room), len(text))
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
    """`text` with a ‹ for the < of every reserved tag, and the number of these tags."""
    return _escaped(text) if "<" in text else (text, 0)


@lru_cache(maxsize=1024)  # every later reader has the text laid out again
def _escaped(text: str) -> tuple[str, int]:
    parts, end, count = [], 0, 0
    for tag in find_tags(text, TAGS):
        parts += [text[end : tag.start], "‹"]
        end, count = tag.start + 1, count + 1
    return "".join([*parts, text[end:]]), count


def escape_tags(text: str) -> str:
    """A text of a data set with its reserved tags escaped, as readers are shown it."""
    return escape_and_count(text)[0]
