"""Tags in what models wrote: found in one pass over the text, and escaped where they are reserved.

Prompts are laid out with tags that only this program can write. A model that writes such a tag into
its own speech could forge a tool's result, a verified quote or another debater's turn. So whatever
a model wrote is escaped before anyone else reads it, and each attempt counted. The texts of a data
set, which anyone may have written, are shown without live tags as well.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

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
"""Characters that may belong to a tag's name."""


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


def escape_and_count(text: str) -> tuple[str, int]:
    """`text` with every reserved tag opened by ‹ in place of <, and how many there were."""
    if "<" not in text:
        return text, 0
    parts, end, count = [], 0, 0
    for tag in find_tags(text, TAGS):
        parts += [text[end : tag.start], "‹"]
        end, count = tag.start + 1, count + 1
    return "".join([*parts, text[end:]]), count


def escape_tags(text: str) -> str:
    """A text of a data set with its reserved tags escaped, as readers are shown it."""
    return escape_and_count(text)[0]
