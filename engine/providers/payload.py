"""Strict parsing of JSON bodies: anything unexpected raises Malformed, with the bytes.

Replies are paid for, so two faults are repaired instead: invalid text (bytes outside UTF-8, half a
surrogate pair) becomes U+FFFD, and numbers that no float holds (1e400, NaN) become null."""

import codecs
import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from ...cache.call import Call, Request, ResponseFormat
from ..errors import InvalidRequest, Malformed

_SHOWN = 200
_HALF = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair; whole pairs have become one character in parsing."""
_MOST = 10**9
"""Tokens. A larger usage of one call is ignored."""


def tree(body: bytes, source: str) -> dict[str, Any]:
    """Parse a body that holds a JSON object. source: the provider's name, for messages. Raises
    Malformed for HTML, truncated JSON, nesting deeper than 1024, and JSON other than an object."""
    data, wrong = loaded(body)
    if wrong:
        raise Malformed(f"{source} sent no JSON: {wrong}: {body_start(body)}", body)
    if not isinstance(data, dict):
        raise Malformed(f"{source} sent JSON that is not an object: {body_start(body)}", body)
    return data


def loaded(body: bytes) -> tuple[Any, str]:
    """The parsed JSON, and the error; no exception, since orjson's keeps a copy of the body."""
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
    """The same JSON with invalid text and numbers repaired. ValueError if it is not JSON."""
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
    """The start of `body` on one line, for messages."""
    text = " ".join(body[:_SHOWN].decode(errors="replace").split())
    return f"{text} …" if len(body) > _SHOWN else text or "nothing"


def brief(value: Any) -> str:
    """A part of a body, shortened to be quoted in an error."""
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
    """The parts of a message as (kind, text), from a string or a list of typed parts. TypeError for
    anything else."""
    if not isinstance(value, list):
        return [("text", text(value))]
    typed = ((text(part["type"]), part.get(part["type"], part.get("text"))) for part in value)
    return [(kind, words if isinstance(words, str) else "") for kind, words in typed]


def counts(*values: Any) -> list[int]:
    """Token counts; 0 for unusable values, since a paid reply is not lost over its usage."""
    return [int(n) if isinstance(n, (int, float)) and 0 < n < _MOST else 0 for n in values]


def compact(value: Any) -> str:
    """JSON text of a part of a reply, to be stored unchanged."""
    return orjson.dumps(value).decode()


PARAMETERS = ("temperature", "top_p", "stop", "top_k", "min_p", "seed", "service_tier")
"""Parameters of a request that are plain values on every wire."""


def written(
    body: dict[str, Any],
    call: Call,
    fields: Mapping[str, str],
    defaults: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> bytes:
    """A body as JSON, with the parameters and extra fields of a call. fields: the wire's name for
    each parameter that it has. defaults: objects that the call's extra fields may extend.
    InvalidRequest for a parameter that the wire lacks, or a field that is set twice: nothing is
    dropped silently."""
    request = call.request
    if request.thinking_tokens is not None and "thinking" not in body:
        raise InvalidRequest(f"{request.model}: thinking_tokens has no field on this wire")
    for name in PARAMETERS:
        # Each draw has a different seed.
        value = call.seed if name == "seed" else getattr(request, name)
        if value is None or value == "" or value == ():
            continue
        if name not in fields:
            raise InvalidRequest(f"{request.model}: {name} has no field on this wire; leave it out")
        body[fields[name]] = value
    if request.extra_body or defaults:
        more: dict[str, Any] = orjson.loads(request.extra_body or "{}")
        for name, default in defaults.items():
            chosen = more.get(name, {})
            more[name] = default | chosen if isinstance(chosen, dict) else chosen
        if twice := sorted(body.keys() & more.keys()):
            raise InvalidRequest(
                f"{request.model}: extra_body sets {twice[0]!r}, as a setting does"
            )
        body |= more
    return orjson.dumps(body)


def functions(request: Request, schema: str = "parameters") -> list[dict[str, Any]]:
    """The tools of a request. schema: the wire's name for the schema of a tool's parameters."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            schema: given_json(tool.parameters, f"tools.{tool.name}.parameters"),
        }
        for tool in request.tools
    ]


def strict_format(response_format: ResponseFormat) -> dict[str, Any]:
    """The JSON schema that a reply must keep to, as OpenAI's endpoints have it."""
    schema = given_json(response_format.schema, "response_format.schema")
    return {"name": response_format.name, "schema": schema, "strict": True}


def given_json(source: str, place: str) -> Any:
    """Parse JSON text of a call. InvalidRequest, which names `place`, if it is not JSON."""
    try:
        return orjson.loads(source)
    except orjson.JSONDecodeError as exc:
        raise InvalidRequest(
            f"{place} is no JSON: {exc.msg}: {body_start(source.encode())}"
        ) from exc


def given_back(opaque: str) -> list[dict[str, Any]]:
    """The blocks of an earlier reply. InvalidRequest where another wire has written them."""
    blocks = given_json(opaque, "messages.opaque")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise foreign(opaque)
    return blocks


def foreign(opaque: str) -> InvalidRequest:
    """The error for a message whose opaque part another wire has written."""
    return InvalidRequest(f"messages.opaque is not from this wire: {body_start(opaque.encode())}")
