"""Statements: what a reply says in the form that was asked for.

A judge quotes what it read, and what it read may tell it what to say. So one rule holds for every
form, whether percentages, a conclusion or JSON: a statement opens a line of its own, and two that
differ are no statement. Neither the first nor the last wins, and nothing within a line is one.
"""

import json
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

import orjson

from ...cache.folding import folded
from ...cache.reply import Reply
from ..errors import unreadable

_T = TypeVar("_T")

MAX_LINE = 1_000
"""Characters of a line in which a statement may stand."""

MARKS = "*\"'`_"
"""What may stand around a word for emphasis."""

_DRESS = f" \t\r#>+-•–|([{MARKS}"
"""What may stand before a statement on its line: marks of lists, headings and quotations."""

_BRACES = 64
"""Lines of a reply that are tried as the start of an object."""


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


def object_in(reply: Reply) -> dict[str, Any] | None:
    """The JSON object on lines of its own in a reply, its texts folded; None if there is none.

    Unreadable if there are two that differ, or if one has a field twice.
    """
    text, found = readable(reply), list[dict[str, Any]]()
    at, tried = 0, 0
    while at < len(text) and tried < _BRACES:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        start = text.find("{", at, end)
        if start < 0 or text[at:start].strip(" \t\r`"):
            at = end + 1
            continue
        tried += 1
        try:
            value, stop = _DECODER.raw_decode(text, start)
            orjson.loads(text[start:stop])
        except _Twice as exc:
            raise unreadable(str(exc), reply) from exc
        except (ValueError, RecursionError):
            if text[start + 1 : start + MAX_LINE].lstrip().startswith('"'):
                # The start of a form that does not end: what follows may be a part of it.
                return None
            at = end + 1
            continue
        end = text.find("\n", stop)
        at = (len(text) if end < 0 else end) + 1
        if not text[stop : at - 1].strip(" \t\r`.;"):
            found.append(_folded(value))
    if any(each != found[0] for each in found):
        raise unreadable("the reply states two forms that differ", reply)
    return found[0] if found else None


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs) and any(made[key] != value for key, value in pairs):
        raise _Twice("a form states one of its fields twice, and differently")
    return made


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refused)


def _folded(value: Any) -> Any:
    """JSON whose texts are folded: what is written as \\u200b is seen by nobody either."""
    match value:
        case str():
            return folded(value)[0]
        case list():
            return [_folded(each) for each in value]
        case dict():
            return {_folded(key): _folded(each) for key, each in value.items()}
    return value
