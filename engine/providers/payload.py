"""Bytes that should be JSON, read strictly: what is not as expected is Malformed, bytes and all.

A reply was paid for, so that two things are no reason to throw one away: what is no text in its
text (bytes that are no UTF-8, half a surrogate pair) becomes U+FFFD, and a number that no computer
holds (1e400, NaN) becomes null.
"""

import codecs
import json
import math
import re
from typing import Any

import orjson

from oversight.engine.errors import InvalidRequest, Malformed

_SHOWN = 200
_HALF = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair. Whole pairs are one character once they have been read."""
_MOST = 10**9
"""Tokens: a usage that tells of more in one call is no usage."""


def tree(body: bytes, source: str) -> dict[str, Any]:
    """The object that `body` holds.

    Malformed for HTML, cut-off JSON, a nesting deeper than 1024, and JSON that is no object.
    source: who sent it, as the user knows it.
    """
    data, wrong = loaded(body)
    if wrong:
        raise Malformed(f"{source} sent no JSON: {wrong}: {body_start(body)}", body)
    if not isinstance(data, dict):
        raise Malformed(f"{source} sent JSON that is no object: {body_start(body)}", body)
    return data


def loaded(body: bytes) -> tuple[Any, str]:
    """What JSON holds, and what is wrong with it. The library's own error keeps a copy of it."""
    body = body.removeprefix(codecs.BOM_UTF8)
    try:
        return orjson.loads(body), ""
    except orjson.JSONDecodeError as exc:
        wrong = exc.msg
    try:
        return orjson.loads(_mended(body)), ""
    except (ValueError, RecursionError):
        return None, wrong


def _mended(body: bytes) -> str:
    """The same JSON without what is no text and what is no number. ValueError if it is none."""
    data = json.loads(
        body.decode(errors="replace"),
        parse_constant=_finite,
        parse_float=_finite,
        parse_int=lambda digits: int(digits) if len(digits) < 20 else _finite(digits),
    )
    return _HALF.sub("\ufffd", json.dumps(data, ensure_ascii=False))


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def body_start(body: bytes) -> str:
    """The start of `body` on one line, for a message."""
    text = " ".join(body[:_SHOWN].decode(errors="replace").split())
    return f"{text} …" if len(body) > _SHOWN else text or "nothing"


def brief(value: Any) -> str:
    """A part of a body as an error may quote it: a server can make it as long as it likes."""
    quoted = repr(value)
    return quoted if len(quoted) <= 80 else f"{quoted[:80]}…"


def text(value: Any) -> str:
    """`value` if it is a string, "" if it is null; TypeError for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where text belongs")
    return value


def parts(value: Any) -> list[tuple[str, str]]:
    """What a message says, as (kind, text): of a string, or of a list of typed parts.

    TypeError for anything else.
    """
    if not isinstance(value, list):
        return [("text", text(value))]
    return [(text(part["type"]), _text_of(part)) for part in value]


def _text_of(part: dict[str, Any]) -> str:
    said = part.get(part["type"], part.get("text"))
    return said if isinstance(said, str) else ""


def count(value: Any) -> int:
    """A number of tokens; 0 for what is none. Usage is no reason to lose a reply paid for."""
    usable = isinstance(value, (int, float)) and 0 < value < _MOST
    return int(value) if usable else 0


def compact(value: Any) -> str:
    """JSON text of a part of a reply, to be kept as it came."""
    return orjson.dumps(value).decode()


def given_json(source: str, place: str) -> Any:
    """What JSON text of ours holds; InvalidRequest, which names the place, if it is none."""
    try:
        return orjson.loads(source)
    except orjson.JSONDecodeError as exc:
        raise InvalidRequest(
            f"{place} is no JSON: {exc.msg}: {body_start(source.encode())}"
        ) from exc
