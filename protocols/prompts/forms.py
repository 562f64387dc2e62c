"""Forms: replies that must be JSON of a given shape, and how they are read.

A mechanism defines the forms of its own seats, and `oversight.protocols.seat.Seat.fill` has them
filled in.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import orjson

from ...cache.call import ResponseFormat
from ...cache.folding import folded
from ...cache.reply import Reply
from ..errors import unreadable
from ..question import Question
from .statements import AROUND, Statement, agreed, groups, label_at, number_in
from .words import Words

_T = TypeVar("_T")
_Option = TypeVar("_Option", bound=str)

Schema: TypeAlias = Mapping[str, Any]
"""JSON Schema of one field."""

REASONING = "reasoning"
"""The field of a form in which its seat thinks first."""

_FREE = "<text>"
"""Placeholder in a prompt for a form's free-text field."""

_DRESS = " \t\r`.,;-*•"
"""What may stand around an object on its lines."""

_QUOTES = ('"', "'", "“", "\u2018", "«", "„", "「")

NUMBER: Schema = MappingProxyType({"type": "number"})
TEXT: Schema = MappingProxyType({"type": "string"})
TEXTS: Schema = MappingProxyType({"type": "array", "items": dict(TEXT)})


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as a model filled it in. Each method reads one field, or raises Unreadable."""

    fields: dict[str, Any]
    reply: Reply

    @property
    def reasoning(self) -> str:
        """What the model wrote down before it filled in the rest; empty if it was not asked to."""
        value = self.fields.get(REASONING, "")
        return value.strip() if isinstance(value, str) else ""

    def number(self, key: str, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number from `least` to `most`."""
        found = number_in(self.fields[key])
        if found is None:
            raise unreadable(f"{key!r} is {self.fields[key]!r:.40}, not a number", self.reply)
        number = found[0] / 100 if found[1] else found[0]
        if not least <= number <= most:
            raise unreadable(
                f"{key!r} is {number:g}, not a number from {least:g} to {most:g}", self.reply
            )
        return number

    def whole(self, key: str, numbers: range) -> int:
        """One of `numbers`."""
        value = self.number(key)
        if value not in numbers:
            raise unreadable(
                f"{key!r} is {value:g}, not one of {numbers[0]} to {numbers[-1]}", self.reply
            )
        return int(value)

    def text(self, key: str) -> str:
        """A text that says something."""
        value = self.fields[key]
        if not isinstance(value, str) or not value.strip():
            raise unreadable(f"{key!r} is {value!r}, not a text", self.reply)
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, blank ones left out."""
        value = self.fields[key]
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise unreadable(f"{key!r} is {str(value)[:40]!r}, not a list of texts", self.reply)
        return tuple(text.strip() for text in value if text.strip())

    def one_of(self, key: str, options: Iterable[_Option]) -> _Option:
        """One of the options, in any dress."""
        value, allowed = self.fields[key], list(options)
        chosen = label_at(value, allowed) if isinstance(value, str) else None
        if chosen is None or chosen[1].strip(AROUND):
            listed = ", ".join(allowed)
            raise unreadable(f"{key!r} is {str(value)[:40]!r}, none of {listed}", self.reply)
        return allowed[chosen[0]]


@dataclass(frozen=True)
class Form(Generic[_T]):
    """What a seat is asked to fill in, and how that is read."""

    name: str
    """Also the seat's task, as programs read it in the prompt."""
    properties: Mapping[str, Schema]
    """JSON Schema of every field, by name; all of them are asked for."""
    read: Callable[[Filled], _T]
    may_lack: tuple[str, ...] = ()
    """Fields without which it can be read, for models that leave out what they have no use for."""

    @cached_property
    def format(self) -> ResponseFormat:
        return as_format(self.name, self.properties)

    def of(self, reply: Reply) -> _T:
        """What a reply says. Unreadable, or Declined, if it is not such a form."""
        return self.read(read_form(reply, self.format, self.may_lack))


def whole_number(numbers: range) -> Schema:
    return {"type": "integer", "enum": list(numbers)}


def object_of(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """JSON Schema of an object that has these fields, and all of them."""
    return {
        "type": "object",
        "properties": {key: dict(field) for key, field in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def choice_of(options: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(options)}


def probabilities_form(question: Question) -> ResponseFormat:
    """One number for each answer label."""
    labels = [answer.label for answer in question.answers]
    return as_format("probabilities", dict.fromkeys(labels, NUMBER))


@lru_cache(maxsize=256)
def fields_of(form: ResponseFormat) -> Words:
    """The fields of a form as its reader is told them, for models whose server enforces no schema:
    `{"steps": [<text>, …], "step": <1 to 9>}`. What a field is called and may hold is ours, or a
    label."""
    return Words(_placeholder_of(orjson.loads(form.schema)))


@lru_cache(maxsize=256)
def asks_for_text(form: ResponseFormat) -> bool:
    """Whether a form has a free-text field."""
    return _FREE in fields_of(form)


def _placeholder_of(schema: Schema) -> str:
    """How a value of a JSON Schema is told."""
    if options := schema.get("enum"):
        if schema.get("type") == "integer":
            return f"<{options[0]} to {options[-1]}>" if len(options) > 1 else str(options[0])
        return " or ".join(orjson.dumps(option).decode() for option in options)
    match schema["type"]:
        case "object":
            named = schema["properties"].items()
            inner = ", ".join(
                f"{orjson.dumps(name).decode()}: {_placeholder_of(of)}" for name, of in named
            )
            return f"{{{inner}}}"
        case "array":
            return f"[{_placeholder_of(schema['items'])}, …]"
        case "string":
            return _FREE
        case "boolean":
            return "<true or false>"
        case "integer":
            return "<whole number>"
    return "<number>"


def with_reasoning(form: ResponseFormat) -> ResponseFormat:
    """The form with a text to think in, which is filled in first."""
    schema = orjson.loads(form.schema)
    fields = {REASONING: dict(TEXT)} | schema["properties"]
    return as_format(form.name, fields)


def read_form(reply: Reply, form: ResponseFormat, may_lack: tuple[str, ...] = ()) -> Filled:
    """The filled-in form, with every field but those that it may lack. Unreadable if it is not.

    A fenced or introduced object is read as well, for models that decorate what they return.
    """
    value = object_in(reply)
    if value is None:
        raise unreadable(f"the reply is not the JSON of a {form.name} form", reply)
    missing = [key for key in _required(form.schema) if key not in value and key not in may_lack]
    if missing:
        raise unreadable(f"the {form.name} form lacks {missing[0]!r}", reply, "partial")
    return Filled(value, reply)


@lru_cache(maxsize=256)  # a sweep has few forms, and reads each of them again and again
def _required(schema: str) -> tuple[str, ...]:
    """The fields that a form must have."""
    return tuple(orjson.loads(schema)["required"])


def as_format(name: str, properties: Mapping[str, Any]) -> ResponseFormat:
    return ResponseFormat(name, orjson.dumps(object_of(properties)).decode())


def object_in(reply: Reply) -> dict[str, Any] | None:
    """The last JSON object in a reply's own words, its texts folded; None without one.

    Unreadable if two that differ stand together, if one has a field twice, or if one does not end.
    """
    found = groups(reply, partial(object_at, reply))
    return agreed(found[-1], "its form", reply) if found else None


def object_at(reply: Reply, text: str, start: int, end: int) -> Statement[dict[str, Any]] | None:
    """The JSON object that begins in a line, and ends the line on which it ends."""
    at = text.find("{", start, end)
    if at < 0 or text[at + 1 : at + 24].lstrip()[:1] not in (*_QUOTES, "}"):
        return None
    line = text[at:end]
    is_whole = line.rstrip(_DRESS)[-1] == "}"
    try:
        if is_whole:
            value, stop = _DECODER.raw_decode(line)
            stop += at
        else:
            value, stop = _DECODER.raw_decode(text, at)
        orjson.loads(text[at:stop])
    except _Twice as exc:
        raise unreadable(str(exc), reply, "two statements") from exc
    except (ValueError, RecursionError):
        if is_whole:
            return None
        # The rest of the reply may be a part of it.
        raise unreadable("the reply's JSON cannot be read to its end", reply) from None
    before = text[start:at].strip(_DRESS)
    line_end = text.find("\n", stop)
    behind = text[stop : line_end if line_end >= 0 else len(text)].lstrip(_DRESS)
    if before[-1:] in _QUOTES or behind[:1] not in ("", "<"):
        return Statement(None, stop)
    return Statement(_folded(value), stop, before.removeprefix("json"))


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
