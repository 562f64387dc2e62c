"""How replies are read: forms with a JSON Schema, and statements in lines, votes or JSON.

A mechanism defines the forms of its seats. `oversight.protocols.seat.Seat.fill` fills them in.

A statement is a reply's own words in the form that was asked for. Every reply is read in four
steps:

1. thoughts are dropped: those in `<private>` here, all others by `Reply`;
2. quotations are dropped (`oversight.protocols.prompts.quotations`);
3. the last group of statements counts; prose ends a group, blank lines, rules and fences do not;
4. labels and values are read through one table of dress, as they are here."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import orjson

from ...cache.call import ResponseFormat
from ...cache.normalize import normalized
from ...cache.reply import Reply
from ..errors import unreadable
from ..question import Question
from ..tags import without_thoughts
from .prompt_set import Words
from .quotations import COLONS, introduction, marked_lines, takes_back

_Read = TypeVar("_Read")

MAX_LINE = 1_000
"""Characters of a line in which a statement may stand."""

_FENCES = ("```", "~~~")
_INDENTS = ("    ", "\t")

AROUND = " \t\r*\"'`_$\\()[]{}<>.,:;!"
"""Dress of a label: `<A>`, `(A)`, `**A**`, `$A$`."""
OPENING = " \t\r#+-•–|*`_$([{<"
"""Dress at the start of a line: marks of lists, headings and tables, and emphasis."""
CLOSING = "*`_)]}>$\\"
_CLOSING_QUOTES = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019"}
_NOUNS = (
    *("answer", "option", "choice", "label", "debater", "consultant", "p"),
    *("probability of", "likelihood of", "confidence in", "probability"),
)
"""Words before a label, as in `Option A` and `P(A)`."""
_LONGEST_NOUN = max(map(len, _NOUNS))

_DIGITS = "0123456789-.,"
_SIGNS = ("percent", "per cent", "prozent", "pour cent", "por ciento")
_ABOUT = ("about ", "approximately ", "around ", "roughly ", "now ", "then ", "finally ")
_BEFORE_NUMBER = " \t*`_\"'“\u2018$([{}<\\~≈"
_BEHIND_NUMBER = " \t*`_>)]}\"'”\u2019$\\"

_FOLDED: dict[int, str | int] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0xA0, 0x2007, 0x2009, 0x202F), " "),
    **dict.fromkeys((0x2011, 0x2212), "-"),
}
"""Fullwidth signs, spaces and hyphens, and how they are read."""
_COMMANDS = (
    *("\\boxed", "\\textbf", "\\text", "\\mathbf", "\\mathrm", "\\(", "\\)", "\\[", "\\]"),
    *("\\quad", "\\;", "\\,"),
    *("<b>", "</b>", "<strong>", "</strong>", "<br>", "<answer>", "</answer>"),
)
"""Layout without a meaning, in LaTeX and HTML."""


_TURNS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|user|>", "[INST]")
"""Marks of a further turn, which a model may invent after its own."""
_SPEAKERS = ("Debater", "Consultant", "Judge", "Human", "User", "System", "Question")
"""First words of lines with which a model goes on as another."""


class Statement(NamedTuple, Generic[_Read]):
    """A statement in a text."""

    value: _Read | None
    """None: no statement, and nothing is read up to `stop`."""
    stop: int
    """Place behind it."""
    before: str = ""
    """Words before it on its line."""


Read: TypeAlias = Callable[[str, int, int], Statement[_Read] | None]
"""Reads the statement in a line of a text, given the places where the line starts and ends."""


def readable(reply: Reply) -> str:
    """The reply's own turn, without private thoughts. Of a truncated reply all
    but its last word, which may be half a word or half a number. Declined if the model refused,
    whatever it wrote: a refusal is not an answer."""
    if reply.outcome == "refused":
        raise unreadable("refused", reply)
    text = reply.text
    for mark in _TURNS:
        text = text[: text.find(mark)] if text.find(mark) > 0 else text
    if reply.outcome == "truncated" and text and not text[-1:].isspace():
        text = text.removesuffix(text.rsplit(None, 1)[-1])
    return without_thoughts(text, " \t") if "<" in text else text


def groups(reply: Reply, read: Read[_Read]) -> list[list[_Read]]:
    """The statements of a reply in its own words, group by group, in order."""
    text = readable(reply)
    marked, read_until = marked_lines(text), 0
    walk: _Walk[_Read] = _Walk()
    for number, (start, end) in enumerate(_lines(text)):
        if start < read_until:
            continue
        bare = text[start : min(end, start + MAX_LINE)].strip()
        if not bare:
            walk.blank()
        elif number in marked:
            walk.quotation(bare)
        elif form := read(text, start, end):
            read_until = form.stop
            if form.value is None:
                walk.prose(bare)
            else:
                walk.statement(form.value, form.before, text.startswith(_INDENTS, start))
        elif bare.startswith(_FENCES):
            walk.is_fenced = not walk.is_fenced
        elif not _is_layout(bare):
            walk.prose(bare)
    walk.close()
    return walk.kept


class _Walk(Generic[_Read]):
    """A walk through the lines of a reply: which groups of statements are its own."""

    def __init__(self) -> None:
        self.kept: list[list[_Read]] = []
        self.is_fenced = False
        self._group: list[_Read] = []
        self._unclear: list[_Read] = []
        self._is_own = self._may_go_on = True
        """Of the group: whether it is the reply's own, also if prose follows."""
        self._above: str = ""
        """Kind of the last prose, as `introduction` names it; empty at the beginning."""
        self._quotes = self._is_open = self._is_near = self._is_unclear = False
        """Whether words opened a quotation; whether the last prose announces other lines; whether
        no blank line stands below it."""

    def blank(self) -> None:
        # A quotation ends with its paragraph.
        self._quotes, self._is_near = self._quotes and self._is_open, False

    def quotation(self, line: str = "") -> None:
        self.close(follows=True)
        self._quotes = self._is_open = line.endswith(COLONS)
        self._above, self._is_unclear = "none", False

    def statement(self, value: _Read, before: str, is_indented: bool) -> None:
        if before:
            self.prose(before)
        if not self._group:
            # A heading or an item of a list, with a blank line below it, introduces nothing.
            introduces = self._above in ("unclear", "others") and (self._is_open or self._is_near)
            sure = self._above in ("", "own") or not (introduces or self.is_fenced or is_indented)
            self._is_own, self._may_go_on = not self._quotes, sure
        self._is_open = False
        self._group.append(value)
        if before and not self._is_own:  # The quotation is what stands on this line.
            self.quotation()

    def prose(self, line: str) -> None:
        self.close(line, follows=True)
        kind = introduction(line)
        if kind in ("others", "demand"):
            self._quotes = True
        elif kind == "own" and not self._is_open:
            self._quotes = False
        is_sentence = ":" not in line and (line[0].isalpha() or line.startswith(("#", "**")))
        self._is_open = kind == "demand" or line.rstrip("*_` ").endswith(COLONS)
        self._is_open |= kind == "others" and is_sentence
        self._above, self._is_near = kind, True
        is_turn = ":" in line and line.lstrip("#*[ ").startswith(_SPEAKERS)
        self._is_unclear = kind == "unclear" or (is_turn and kind != "others")

    def close(self, line: str = "", follows: bool = False) -> None:
        """End the group. line: the prose behind it; follows: whether anything does."""
        is_own = self._is_own and (self._may_go_on or not follows)
        if self._group and not (line and takes_back(line)):
            # Two groups under unclear headings may be two persons': neither replaces the other.
            if self._is_unclear:
                self._unclear += self._group
                self._group = self._unclear
                if is_own and self.kept and self.kept[-1] is not self._group:
                    self._group += self.kept.pop()
            if is_own and not (self.kept and self.kept[-1] is self._group):
                self.kept.append(self._group)
        self._group = []


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _is_layout(bare: str) -> bool:
    """Whether a line has no words: a rule, a tag alone, a row of a table, a command of LaTeX."""
    ends = bare[0] + bare[-1]
    is_tag = ends == "<>" and " " not in bare
    return is_tag or ends == "||" or bare[0] == "\\" or not any(map(str.isalnum, bare))


def undressed(line: str) -> str:
    """A line without layout, and without what may stand before a statement."""
    line = line[:MAX_LINE]
    if not line.isascii():
        line = line.translate(_FOLDED)
    if "\\" in line or "<" in line:
        for command in _COMMANDS:
            line = line.replace(command, "")
    line = line.lstrip(OPENING)
    number, _, rest = line.partition(" ")
    if number[:-1].isdecimal() and number[-1] in ".)":
        return rest.lstrip(OPENING)
    return line


def label_at(text: str, labels: Sequence[str]) -> tuple[int, str] | None:
    """The place of the label that opens a text, in any dress, and the text behind it. Its case does
    not matter where that leaves one label."""
    text = text.lstrip(OPENING)
    if label := _label_at(text, labels):
        return label
    head = text[:_LONGEST_NOUN].lower()
    for noun in _NOUNS:
        if head.startswith(noun) and text[len(noun) : len(noun) + 1] in (" ", "("):
            return _label_at(text[len(noun) :].lstrip(OPENING), labels)
    return None


def _label_at(text: str, labels: Sequence[str]) -> tuple[int, str] | None:
    closing = _CLOSING_QUOTES.get(text[:1], "")
    text = text[len(closing) :]
    for label, place in _by_length(tuple(labels)):
        if text.startswith(label) or text[: len(label)].casefold() == label:
            behind = text[len(label) :]
            if behind[:1].isalnum() or (behind[:1] == "_" and behind[1:2].isalnum()):
                continue
            if behind.startswith(closing):
                return place, behind[len(closing) :].lstrip(CLOSING)
    return None


@lru_cache(maxsize=1024)
def _by_length(labels: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The labels with their places, the longest first, then those in one case that are one label's
    alone."""
    exact = [(label, place) for place, label in enumerate(labels)]
    cases = [label.casefold() for label in labels]
    alike = [(case, place) for place, case in enumerate(cases) if cases.count(case) == 1]
    return tuple(
        pair for pairs in (exact, alike) for pair in sorted(pairs, key=lambda pair: -len(pair[0]))
    )


def number_at(text: str) -> tuple[float, bool, str] | None:
    """The number that opens a text, in any dress; whether it has a percent sign; the text behind.
    None for no number, or for a part of a range, a fraction or a word."""
    bare = text.lstrip(_BEFORE_NUMBER)
    for word in _ABOUT if bare[:1].isalpha() else ():
        if bare[: len(word)].lower() == word:
            bare = bare[len(word) :].lstrip(_BEFORE_NUMBER)
            break
    is_bound = "<" in text[: len(text) - len(bare)]
    rest = bare.lstrip(_DIGITS)
    digits = bare[: len(bare) - len(rest)].rstrip(".,")
    behind = rest.lstrip(_BEHIND_NUMBER)
    sign = "%" if behind[:1] == "%" else ""
    for word in _SIGNS if behind[:1].isalpha() else ():
        sign = word if behind[: len(word)].lower() == word else sign
    after = behind[len(sign) :].lstrip(_BEHIND_NUMBER) if sign else behind
    if is_bound and ">" not in rest[: len(rest) - len(after)]:
        return None
    joined = behind[len(sign) : len(sign) + 1] if sign else rest[:1]
    if joined.isalnum() or joined == "_" or (sign and joined == "%") or _is_range(after):
        return None
    try:
        return float(digits.replace(",", ".")), bool(sign), after
    except ValueError:
        return None


def _is_range(text: str) -> bool:
    """Whether what follows a number makes it the start of a range or fraction: 60% to 70%, 6/10."""
    for sign in ("-", "–", "/", "to "):
        if text.startswith(sign):
            return text[len(sign) :].lstrip(" \t")[:1] in tuple(_DIGITS)
    return False


def number_in(value: object) -> tuple[float, bool] | None:
    """A value of a form as a finite number, also where it is a text, and whether it has a percent
    sign; None if it is none."""
    if isinstance(value, str):
        number = number_at(value)
        return number[:2] if number and not number[2].strip(AROUND) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value), False


def agreed(statements: Sequence[_Read], what: str, reply: Reply) -> _Read:
    """The one thing that is stated, however often. Unreadable if two differ."""
    if any(other != statements[0] for other in statements):
        raise unreadable(f"the reply states {what} twice, and differently", reply, "two statements")
    return statements[0]


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
            why = f"{key!r} is {number:g}, not a number from {least:g} to {most:g}"
            raise unreadable(why, self.reply)
        return number

    def whole(self, key: str, numbers: range) -> int:
        """One of `numbers`."""
        value = self.number(key)
        if value not in numbers:
            why = f"{key!r} is {value:g}, not one of {numbers[0]} to {numbers[-1]}"
            raise unreadable(why, self.reply)
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
            fields = schema["properties"].items()
            parts = (f"{orjson.dumps(k).decode()}: {_placeholder_of(part)}" for k, part in fields)
            return f"{{{', '.join(parts)}}}"
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
    return as_format(form.name, {REASONING: dict(TEXT)} | orjson.loads(form.schema)["properties"])


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
        value, stop = _DECODER.raw_decode(line if is_whole else text, 0 if is_whole else at)
        stop += at if is_whole else 0
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
            return normalized(value)[0]
        case list():
            return [_folded(item) for item in value]
        case dict():
            return {_folded(key): _folded(item) for key, item in value.items()}
    return value
