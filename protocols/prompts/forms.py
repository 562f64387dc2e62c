"""JSON forms: replies with a given JSON Schema, and how they are read.

A mechanism defines the forms of its seats. `oversight.protocols.seat.Seat.fill` fills them in.
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
"""The field of a form for the seat's reasoning, which comes first."""

_FREE = "<text>"
"""Placeholder in a prompt for a free-text field."""

_DRESS = " \t\r`.,;-*•"
"""Characters that may surround an object on its lines."""

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
        """The model's reasoning before the other fields. Empty if it was not asked for."""
        value = self.fields.get(REASONING, "")
        return value.strip() if isinstance(value, str) else ""

    def number(self, key: str, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number from `least` to `most`."""
        parsed = number_in(self.fields[key])
        if parsed is None:
            raise unreadable(f"{key!r} is {self.fields[key]!r:.40}, not a number", self.reply)
        number = parsed[0] / 100 if parsed[1] else parsed[0]
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
        """A text that is not blank."""
        value = self.fields[key]
        if not isinstance(value, str) or not value.strip():
            raise unreadable(f"{key!r} is {value!r}, not a text", self.reply)
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, without blank ones."""
        value = self.fields[key]
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise unreadable(f"{key!r} is {str(value)[:40]!r}, not a list of texts", self.reply)
        return tuple(text.strip() for text in value if text.strip())

    def one_of(self, key: str, options: Iterable[_Option]) -> _Option:
        """One of the options, with or without surrounding characters."""
        value, allowed = self.fields[key], list(options)
        chosen = label_at(value, allowed) if isinstance(value, str) else None
        if chosen is None or chosen[1].strip(AROUND):
            names = ", ".join(allowed)
            raise unreadable(f"{key!r} is {str(value)[:40]!r}, none of {names}", self.reply)
        return allowed[chosen[0]]


@dataclass(frozen=True)
class Form(Generic[_T]):
    """The fields that a seat fills in, and how they are read."""

    name: str
    """Name of the form, also the seat's task as programs read it in the prompt."""
    properties: Mapping[str, Schema]
    """JSON Schema of every field, by name. All are requested."""
    read: Callable[[Filled], _T]
    may_lack: tuple[str, ...] = ()
    """Fields that a reply may lack, since some models leave out unused fields."""

    @cached_property
    def format(self) -> ResponseFormat:
        return as_format(self.name, self.properties)

    def of(self, reply: Reply) -> _T:
        """The value of a reply. Unreadable, or Declined, if it is not such a form."""
        return self.read(read_form(reply, self.format, self.may_lack))


def whole_number(numbers: range) -> Schema:
    return {"type": "integer", "enum": list(numbers)}


def object_of(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """JSON Schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": {key: dict(field) for key, field in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def choice_of(options: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(options)}


def probabilities_form(question: Question) -> ResponseFormat:
    """A form with one number for each answer label."""
    labels = [answer.label for answer in question.answers]
    return as_format("probabilities", dict.fromkeys(labels, NUMBER))


@lru_cache(maxsize=256)
def fields_of(form: ResponseFormat) -> Words:
    """The fields of a form as shown to models, whose servers may enforce no schema:
    `{"steps": [<text>, …], "step": <1 to 9>}`. Names and options are our own texts, or labels."""
    return Words(_placeholder_of(orjson.loads(form.schema)))


@lru_cache(maxsize=256)
def asks_for_text(form: ResponseFormat) -> bool:
    """Whether a form has a free-text field."""
    return _FREE in fields_of(form)


def _placeholder_of(schema: Schema) -> str:
    """The text that describes a value of a JSON Schema."""
    if options := schema.get("enum"):
        if schema.get("type") == "integer":
            return f"<{options[0]} to {options[-1]}>" if len(options) > 1 else str(options[0])
        return " or ".join(orjson.dumps(option).decode() for option in options)
    match schema["type"]:
        case "object":
            properties = schema["properties"].items()
            inner = ", ".join(
                f"{orjson.dumps(name).decode()}: {_placeholder_of(field)}"
                for name, field in properties
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
    """The form with a reasoning field in front."""
    schema = orjson.loads(form.schema)
    fields = {REASONING: dict(TEXT)} | schema["properties"]
    return as_format(form.name, fields)


def read_form(reply: Reply, form: ResponseFormat, may_lack: tuple[str, ...] = ()) -> Filled:
    """The filled-in form, with every field except those that it may lack. Otherwise Unreadable. A
    fenced or introduced object is read as well, since models decorate their replies."""
    value = object_in(reply)
    if value is None:
        raise unreadable(f"the reply is not the JSON of a {form.name} form", reply)
    missing = [key for key in _required(form.schema) if key not in value and key not in may_lack]
    if missing:
        raise unreadable(f"the {form.name} form lacks {missing[0]!r}", reply, "partial")
    return Filled(value, reply)


@lru_cache(maxsize=256)  # a sweep has few forms, and reads each of them many times
def _required(schema: str) -> tuple[str, ...]:
    """The required fields of a form."""
    return tuple(orjson.loads(schema)["required"])


def as_format(name: str, properties: Mapping[str, Any]) -> ResponseFormat:
    return ResponseFormat(name, orjson.dumps(object_of(properties)).decode())


def object_in(reply: Reply) -> dict[str, Any] | None:
    """The last JSON object in a reply, outside quotes, with normalised texts. None without one.
    Unreadable if two adjacent objects differ, one repeats a field, or one does not end."""
    objects = groups(reply, partial(object_at, reply))
    return agreed(objects[-1], "its form", reply) if objects else None


def object_at(reply: Reply, text: str, start: int, end: int) -> Statement[dict[str, Any]] | None:
    """The JSON object that starts in a line and ends at the end of a line."""
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
        # The rest of the reply may be part of it.
        raise unreadable("the reply's JSON cannot be read to its end", reply) from None
    before = text[start:at].strip(_DRESS)
    line_end = text.find("\n", stop)
    after = text[stop : line_end if line_end >= 0 else len(text)].lstrip(_DRESS)
    if before[-1:] in _QUOTES or after[:1] not in ("", "<"):
        return Statement(None, stop)
    return Statement(_folded(value), stop, before.removeprefix("json"))


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and any(fields[key] != value for key, value in pairs):
        raise _Twice("a form states one of its fields twice, and differently")
    return fields


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refused)


def _folded(value: Any) -> Any:
    """JSON with normalised texts: characters written as \\u200b are invisible, too."""
    match value:
        case str():
            return folded(value)[0]
        case list():
            return [_folded(item) for item in value]
        case dict():
            return {_folded(key): _folded(item) for key, item in value.items()}
    return value
