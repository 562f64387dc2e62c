"""Statements: what a reply says in the form that was asked for.

A judge quotes what it read, and what it read may tell it what to say. So one rule holds for every
form, whether percentages, a conclusion or JSON: a statement opens a line of its own, and two that
differ are no statement. Neither the first nor the last wins, and nothing within a line is one.
"""

from collections.abc import Iterable
from typing import TypeVar

from ...cache.reply import Reply
from ..errors import unreadable

_T = TypeVar("_T")

MAX_LINE = 1_000
"""Characters of a line in which a statement may stand."""

MARKS = "*\"'`_"
"""What may stand around a word for emphasis."""

_DRESS = f" \t\r#>+-•–|([{MARKS}"
"""What may stand before a statement on its line: marks of lists, headings and quotations."""


def readable(reply: Reply) -> str:
    """The text that may be read for an answer.

    Of a truncated reply all but its last word, which may be half a word or half a number.
    Declined if the model refused, whatever it wrote: a refusal is no answer.
    """
    if reply.outcome == "refused":
        raise unreadable("refused", reply)
    if reply.outcome != "truncated" or reply.text[-1:].isspace():
        return reply.text
    return reply.text.removesuffix(reply.text.rsplit(None, 1)[-1]) if reply.text else ""


def lines_of(reply: Reply) -> list[str]:
    """The lines of what may be read, without what may stand before a statement; none is empty."""
    found = []
    for line in readable(reply).split("\n"):
        bare = line[:MAX_LINE].lstrip(_DRESS)
        number, _, rest = bare.partition(" ")
        if number[:-1].isdecimal() and number[-1] in ".)":
            bare = rest.lstrip(_DRESS)
        if bare:
            found.append(bare)
    return found


def agreed(stated: Iterable[_T], what: str, reply: Reply) -> _T | None:
    """The one thing that is stated, however often; None if nothing is. Unreadable if two differ."""
    found = list(dict.fromkeys(stated))
    if len(found) > 1:
        raise unreadable(f"the reply states {what} twice, and differently", reply)
    return found[0] if found else None
