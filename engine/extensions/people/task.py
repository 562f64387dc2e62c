"""A person's task, parsed from the call that a model in the same role would be sent.

A person reads the same words as a model, and answers in the form that the role asks for:
percentages, a label, the fields of a form, or a speech. So a person fits into any role of any
mechanism, and the answer is a reply like any other."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import orjson

from ....cache.call import Call
from ....cache.reply import Reply, Token
from ....protocols.prompts.forms import REASONING
from ....protocols.prompts.render import (
    Todo,
    answer_body,
    find_question,
    read_instructions,
    read_marked_turns,
    read_question,
    read_rules,
)
from ....protocols.question import Question
from ....protocols.tags import escape_tags

AnswerKind: TypeAlias = Literal["percentages", "probabilities", "label", "vote", "form", "text"]
"""Kind of answer; the first three are probabilities of the options."""
FieldKind: TypeAlias = Literal["text", "texts", "number", "whole", "choice"]
PERCENT_TOLERANCE = 0.5
"""Maximum distance of the sum of percentages from 100."""
CONFIRMED = "sure"
"""Field of a form with which a person confirms a percentage of at most 1."""
MAX_ANSWER_TEXT = 50_000
"""Maximum length of a person's text, in characters."""
_MARKED = re.compile(
    r'<tool name="(?P<tool>[^"]*)">(?P<result>.*?)</tool>\n?'
    r"|<(?P<kind>verified|unverified|unchecked)>(?P<quote>.*?)</(?P=kind)>",
    re.DOTALL,
)
_TAG = re.compile(r"</?([a-z_]+)(?: [^<>]*)?>")
"""A tag in the words of an instruction, as `<turn>`."""


@dataclass(frozen=True, slots=True)
class SpeechPart:
    """A part of a speech: plain text, a quote that was looked up, or the result of a tool."""

    kind: Literal["plain", "verified", "unverified", "unchecked", "tool"]
    text: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    kind: FieldKind
    options: Mapping[str, Any] = field(default_factory=dict)
    """For `choice`: the value of each option, by its text."""
    columns: tuple["FormField", ...] = ()
    """For `texts`: the columns of each line, separated by bars; empty if a line is one text."""


class DoubtfulPercentage(ValueError):
    """A percentage of at most 1, perhaps meant as a fraction. The person must confirm it."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """A person's answer, as the reply that the role reads."""

    text: str
    probs: tuple[float, ...] | None = None
    """One per option, in the order of the page; None if the task asks for none."""
    logprobs: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """The point of a conversation that a task is about, by digests, as the journal keeps it."""

    system: str
    side: str
    """Label of the answer that the person argues for; empty for none."""
    draw: int
    """The sweep's repeat, from 0."""
    length: int
    """Length of the transcript in characters."""
    heard: str
    asked: str


@dataclass(frozen=True)
class PersonTask:
    """One call as a person reads it: nothing but its prompt.

    Thousands may wait at one time, so parts of the prompt are parsed on each use."""

    call: Call

    @property
    def system(self) -> str:
        return next((m.text for m in self.call.messages if m.role == "system"), "")

    @property
    def user(self) -> str:
        return "\n\n".join(m.text for m in self.call.messages if m.role != "system")

    @property
    def todo(self) -> Todo:
        return read_instructions(self.user) or Todo("", "", self.user)

    @property
    def asked(self) -> str:
        """The instruction, without tags. Empty if the page asks in its words: which answer is
        right, or how likely each is."""
        if self.kind != "form" and self.kind != "text" and not self.todo.options:
            return ""
        return _TAG.sub(r"\1", self.todo.told)

    @property
    def rules(self) -> str:
        return read_rules(self.system)[0]

    @property
    def passage(self) -> str:
        """Empty if the role may not read it."""
        return read_rules(self.system)[1]

    @property
    def question(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """(text, ((label, text) of each answer, in the order shown))."""
        return read_question(find_question(self.system))

    @property
    def heard(self) -> str:
        """The transcript, as in the prompt."""
        return self.user.rpartition("<instructions task=")[0]

    @property
    def turns(self) -> list[tuple[str, list[SpeechPart]]]:
        """(speaker, speech) in order."""
        return [(speaker, parts_of(text)) for speaker, text in read_marked_turns(self.heard)]

    @cached_property
    def problem(self) -> str:
        """A digest that all calls about one question share, in any world, protocol or order."""
        text, answers = self.question
        return problem_digest(text or self.system, [body for _, body in answers])

    @property
    def request(self) -> str:
        """An address that all draws of one call share, such as several people on one transcript."""
        return Call(self.call.request).address

    @property
    def options(self) -> tuple[str, ...]:
        """Labels of the options, in the order shown."""
        return self.todo.options or tuple(label for label, _ in self.question[1])

    @property
    def order(self) -> tuple[str, ...]:
        """Digests of the answers in the order shown; empty if the options are not answers."""
        if self.todo.options:
            return ()
        return tuple(short_digest(body) for _, body in self.question[1])

    @cached_property
    def kind(self) -> AnswerKind:
        if self.call.response_format is not None:
            numbers = {field.name for field in self.fields if field.kind == "number"}
            as_labels = numbers == set(self.options) and len(self.fields) == len(numbers) > 0
            return "probabilities" if as_labels else "form"
        if self.todo.task == "label" and not self.call.top_logprobs:
            return "vote"
        kinds: tuple[AnswerKind, ...] = "percentages", "label", "vote"
        return next((kind for kind in kinds if kind == self.todo.task), "text")

    @property
    def is_probable(self) -> bool:
        """Whether the task asks for probabilities of the options."""
        return self.kind in ("percentages", "probabilities", "label")

    @property
    def reasons(self) -> bool:
        """Whether the answer may include reasons."""
        return self.kind not in ("text", "label")

    @property
    def fields(self) -> tuple[FormField, ...]:
        """The fields of the form, without the reasoning."""
        names = (name for name in self._properties if name != REASONING)
        return tuple(form_field(name, self._properties[name]) for name in names)

    @cached_property
    def moment(self) -> Moment:
        # The side of a statement is not the person's.
        side = "" if self.todo.options else self.todo.side
        draw = self.call.draw[0] if self.call.draw else 0
        digests = map(short_digest, (self.heard, self.todo.told))
        return Moment(short_digest(self.system), side, draw, len(self.heard), *digests)

    def continues(self, earlier: Moment) -> bool:
        """Whether it is a later moment of the same conversation, in the same role. Then the person
        who answered the earlier one should answer this one."""
        now = self.moment
        return (
            (now.system, now.side, now.draw) == (earlier.system, earlier.side, earlier.draw)
            and short_digest(self.heard[: earlier.length]) == earlier.heard
            and (now.heard, now.asked) != (earlier.heard, earlier.asked)
        )

    def read(self, posted: Mapping[str, str]) -> PersonAnswer:
        """The answer in a form as the page sends it. ValueError, in words for the person, for an
        incomplete answer."""
        reason = posted.get("reason", "").strip()
        if max(map(len, posted.values()), default=0) > MAX_ANSWER_TEXT:
            raise ValueError(f"A text is longer than {MAX_ANSWER_TEXT:,} characters: shorten it.")
        match self.kind:
            case "percentages":
                probs = self.probabilities(posted)
                by_label = zip(self.options, probs, strict=True)
                lines = "\n".join(f"{label}: {100 * p:g}%" for label, p in by_label)
                return PersonAnswer(self._reason(reason) + lines, probs)
            case "probabilities":
                probs = self.probabilities(posted)
                values = self._reasoning(reason)
                values |= dict(zip(self.options, probs, strict=True))
                return PersonAnswer(orjson.dumps(values).decode(), probs)
            case "label":
                # The likeliest label, with log-probabilities in the form that models report.
                probs = self.probabilities(posted)
                percents = sorted(zip(probs, self.options, strict=True), key=lambda pair: -pair[0])
                top = tuple((label, math.log(p)) for p, label in percents if p > 0)
                return PersonAnswer(top[0][0], probs, (Token(*top[0], top),))
            case "vote":
                number = posted.get("choice", "")
                if number not in map(str, range(len(self.options))):
                    raise ValueError("You have not chosen an answer yet.")
                label = self.options[int(number)]
                if self.todo.task == "label":
                    return PersonAnswer(label)
                return PersonAnswer(f"{self._reason(reason)}Answer: {label}")
            case "form":
                values = self._reasoning(reason)
                for field in self.fields:
                    text = posted.get(f"f-{field.name}", "").strip()
                    values[field.name] = field_value(field, text)
                return PersonAnswer(orjson.dumps(values).decode())
        text = posted.get("text", "").strip()
        if not text:
            raise ValueError("You have not written anything yet.")
        return PersonAnswer(text)

    def reply(self, answer: PersonAnswer | None, rater: str) -> Reply:
        """The reply of a rater, named as the model that served it. None: the rater abstained, which
        is a refusal and never a default."""
        if answer is None:
            return Reply("", outcome="refused", stop_reason="abstained", served_model=rater)
        return Reply(answer.text, stop_reason="stop", logprobs=answer.logprobs, served_model=rater)

    @cached_property
    def _properties(self) -> dict[str, Any]:
        """The properties in the schema of the form; empty without a form."""
        form = self.call.response_format
        return orjson.loads(form.schema).get("properties", {}) if form else {}

    def probabilities(self, posted: Mapping[str, str]) -> tuple[float, ...]:
        """One per option, from percentages. ValueError as in `read`; DoubtfulPercentage for one of
        at most 1 without `CONFIRMED`."""
        percents: list[float] = []
        for n, label in enumerate(self.options):
            text = posted.get(f"p{n}", "").strip().rstrip("%").replace(",", ".")
            try:
                percent = float(text)
            except ValueError:
                raise ValueError(f"Please give a percentage for ({label}).") from None
            if not 0 <= percent <= 100:
                raise ValueError(f"({label}) has {text}%: give 0 to 100.")
            percents.append(percent)
        if math.isclose(sum(percents), 1, abs_tol=PERCENT_TOLERANCE / 100):
            raise ValueError("These add up to 1. Write them in percent: 70 for 0.7.")
        for label, percent in zip(self.options, percents, strict=True):
            if not 0 < percent <= 1 or CONFIRMED in posted:
                continue
            raise DoubtfulPercentage(
                f"({label}) has {percent:g}%. If you mean {100 * percent:g}%, write "
                f"{100 * percent:g}; if you mean {percent:g} in a hundred, tick the box below."
            )
        if not math.isclose(sum(percents), 100, abs_tol=PERCENT_TOLERANCE):
            raise ValueError(f"The percentages add up to {sum(percents):g}, not to 100.")
        return tuple(percent / sum(percents) for percent in percents)

    def _reason(self, reason: str) -> str:
        if not reason:
            return ""
        return f"<private>{reason}</private>\n" if self.todo.private else f"{reason}\n"

    def _reasoning(self, reason: str) -> dict[str, Any]:
        return {REASONING: reason} if reason or REASONING in self._properties else {}


_KINDS: Mapping[str, FieldKind] = {"number": "number", "integer": "whole", "array": "texts"}
"""The kind of a field, by the type in its schema; any other is a text."""


def form_field(name: str, schema: Any) -> FormField:
    """The field of one property of a JSON schema."""
    if options := schema.get("enum"):
        return FormField(name, "choice", {str(option): option for option in options})
    if schema.get("type") == "boolean":
        return FormField(name, "choice", {"yes": True, "no": False})
    kind = _KINDS.get(schema.get("type", ""), "text")
    columns = schema.get("items", {}).get("properties", {}) if kind == "texts" else {}
    return FormField(name, kind, columns=tuple(form_field(*column) for column in columns.items()))


def field_value(field: FormField, text: str) -> Any:
    """The value of the text in a field, as the schema asks. ValueError, in words for a person."""
    name = field.name.replace("_", " ")
    if not text and field.kind != "texts":
        raise ValueError(f"“{name}” is still empty.")
    match field.kind:
        case "number" | "whole":
            try:
                number = float(text.replace(",", "."))
            except ValueError:
                number = math.nan
            if not math.isfinite(number) or (field.kind == "whole" and number % 1):
                expected = "a whole number" if field.kind == "whole" else "a number"
                raise ValueError(f"“{name}” has {text[:40]!r}, which is not {expected}.")
            return int(number) if field.kind == "whole" else number
        case "texts":
            return [_row(field, line) for line in text.splitlines() if line.strip()]
        case "choice":
            if text not in field.options:
                raise ValueError(f"“{name}” has {text[:40]!r}, which is not a choice.")
            return field.options[text]
    return text


def _row(field: FormField, line: str) -> Any:
    """One line of a list: a text, or an object with its columns."""
    if not field.columns:
        return line.strip()
    cells = line.rsplit("|", len(field.columns) - 1)
    if len(cells) != len(field.columns):
        pattern = " | ".join(column.name for column in field.columns)
        raise ValueError(f"“{line.strip()[:40]}”: write it as {pattern}.")
    pairs = zip(field.columns, cells, strict=True)
    return {column.name: field_value(column, cell.strip()) for column, cell in pairs}


def parts_of(speech: str) -> list[SpeechPart]:
    """A speech without our tags: results of tools, quotes that were looked up, and the rest."""
    parts: list[SpeechPart] = []
    end = 0
    for tag in _MARKED.finditer(speech):
        if tag.start() > end:
            parts.append(SpeechPart("plain", speech[end : tag.start()]))
        match tag["kind"]:
            case "verified" | "unverified" | "unchecked" as kind:
                parts.append(SpeechPart(kind, tag["quote"]))
            case _:
                parts.append(SpeechPart("tool", tag["result"], tag["tool"]))
        end = tag.end()
    return [*parts, SpeechPart("plain", speech[end:])] if end < len(speech) else parts


def answer_digests(question: Question) -> tuple[str, tuple[str, ...]]:
    """The digests of a question and of each of its answers, as in a task."""
    bodies = [answer_body(answer) for answer in question.answers]
    return problem_digest(escape_tags(question.text), bodies), tuple(map(short_digest, bodies))


def problem_digest(text: str, bodies: list[str]) -> str:
    """16 hex digits of a question and its answers, in any order."""
    return short_digest("\0".join([text, *sorted(bodies)]))


def short_digest(text: str) -> str:
    """16 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
