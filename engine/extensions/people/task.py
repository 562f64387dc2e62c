"""A person's task, parsed from the call that a model in the same seat would be sent.

A person reads the very words that a model reads, and answers in the form that the seat demands:
percentages where a judge states them, a label, the fields of a form, or a speech. So a person fits
into any seat of any mechanism, and what comes back is a reply like any other.
"""

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

Way: TypeAlias = Literal["percentages", "probabilities", "label", "vote", "form", "text"]
"""Form of the answer; the first three are probabilities of the options."""

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
"""A mark in the words of an instruction, as `<turn>`."""


@dataclass(frozen=True, slots=True)
class SpeechPart:
    """A stretch of a speech: plain, a quote that was looked up, or what a tool computed."""

    kind: Literal["plain", "verified", "unverified", "unchecked", "tool"]
    text: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    kind: FieldKind
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `choice`: the value of each, by what is shown."""
    columns: tuple["FormField", ...] = ()
    """Of `texts`: what each line has, between bars; empty where a line is one text."""


class DoubtfulPercentage(ValueError):
    """A percentage of at most one, which a person who thinks in parts of one would write for up to
    a hundred. It is taken only when the person says that it is meant so."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """A person's answer, as the reply that the seat reads."""

    text: str
    probs: tuple[float, ...] | None = None
    """One an option, in the order of the page; None where no probabilities are asked for."""
    logprobs: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in which conversation a task stands, by digests: what a journal keeps of it."""

    system: str
    side: str
    """Label of the answer that the person argues for; empty for none."""
    draw: int
    """The sweep's draw, from 0."""
    length: int
    """Characters of what was heard."""
    heard: str
    asked: str


@dataclass(frozen=True)
class PersonTask:
    """One call as a person reads it, with nothing beyond its prompt.

    Thousands may wait at one time, so that what is read out of the prompt is not kept.
    """

    call: Call

    @property
    def system(self) -> str:
        return next((each.text for each in self.call.messages if each.role == "system"), "")

    @property
    def user(self) -> str:
        return "\n\n".join(each.text for each in self.call.messages if each.role != "system")

    @property
    def todo(self) -> Todo:
        return read_instructions(self.user) or Todo("", "", self.user)

    @property
    def asked(self) -> str:
        """What the seat is asked, for a person to read: without the marks that a model is told of.
        Empty where the page asks in its own words: which of the answers is right, or how likely
        each is."""
        if self.way != "form" and self.way != "text" and not self.todo.options:
            return ""
        return _TAG.sub(r"\1", self.todo.told)

    @property
    def rules(self) -> str:
        return read_rules(self.system)[0]

    @property
    def passage(self) -> str:
        """Empty where the seat may not read it."""
        return read_rules(self.system)[1]

    @property
    def question(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Its text, and (label, text) of each answer in the order of presentation."""
        return read_question(find_question(self.system))

    @property
    def heard(self) -> str:
        """The transcript, as in the prompt."""
        return self.user.rpartition("<instructions task=")[0]

    @property
    def turns(self) -> list[tuple[str, list[SpeechPart]]]:
        """(speaker, speech) in order."""
        return [(speaker, parts_of(said)) for speaker, said in read_marked_turns(self.heard)]

    @cached_property
    def problem(self) -> str:
        """What all calls about one question have in common, whatever world, protocol or order."""
        text, answers = self.question
        return problem_digest(text or self.system, [body for _, body in answers])

    @property
    def request(self) -> str:
        """What all draws of one call have in common: several persons on one transcript."""
        return Call(self.call.request).address

    @property
    def options(self) -> tuple[str, ...]:
        """Labels of the options, in the order of presentation."""
        return self.todo.options or tuple(label for label, _ in self.question[1])

    @property
    def order(self) -> tuple[str, ...]:
        """Digests of the answers in the order of presentation; empty where the options are no
        answers."""
        if self.todo.options:
            return ()
        return tuple(short_digest(body) for _, body in self.question[1])

    @cached_property
    def way(self) -> Way:
        if self.call.response_format is not None:
            numbers = {each.name for each in self.fields if each.kind == "number"}
            as_labels = numbers == set(self.options) and len(self.fields) == len(numbers) > 0
            return "probabilities" if as_labels else "form"
        if self.todo.task == "label" and not self.call.top_logprobs:
            return "vote"
        ways: dict[str, Way] = {"percentages": "percentages", "label": "label", "vote": "vote"}
        return ways.get(self.todo.task, "text")

    @property
    def is_probable(self) -> bool:
        """Whether probabilities of the options are asked for."""
        return self.way in ("percentages", "probabilities", "label")

    @property
    def reasons(self) -> bool:
        """Whether there is room for reasons beside the answer."""
        return self.way not in ("text", "label")

    @property
    def fields(self) -> tuple[FormField, ...]:
        """What a form asks for; the room to think in is left to `reasons`."""
        named = self._properties.items()
        return tuple(form_field(name, of) for name, of in named if name != REASONING)

    @cached_property
    def moment(self) -> Moment:
        # The side of a statement is not the person's own.
        side = "" if self.todo.options else self.todo.side
        draw = self.call.draw[0] if self.call.draw else 0
        heard, asked = short_digest(self.heard), short_digest(self.todo.told)
        return Moment(short_digest(self.system), side, draw, len(self.heard), heard, asked)

    def continues(self, earlier: Moment) -> bool:
        """Whether it is a later moment of the same conversation, in the same part of it: then the
        person who answered the earlier one may answer this one, and should."""
        now = self.moment
        return (
            (now.system, now.side, now.draw) == (earlier.system, earlier.side, earlier.draw)
            and short_digest(self.heard[: earlier.length]) == earlier.heard
            and (now.heard, now.asked) != (earlier.heard, earlier.asked)
        )

    def read(self, posted: Mapping[str, str]) -> PersonAnswer:
        """The answer in a form as the page sends it. ValueError, in words for the person, if it is
        not whole."""
        reason = posted.get("reason", "").strip()
        if max(map(len, posted.values()), default=0) > MAX_ANSWER_TEXT:
            raise ValueError(f"A text is longer than {MAX_ANSWER_TEXT:,} characters: shorten it.")
        match self.way:
            case "percentages":
                probs = self.probabilities(posted)
                stated = zip(self.options, probs, strict=True)
                lines = "\n".join(f"{label}: {100 * p:g}%" for label, p in stated)
                return PersonAnswer(self._thought(reason) + lines, probs)
            case "probabilities":
                probs = self.probabilities(posted)
                filled = self._reasoning(reason)
                filled |= dict(zip(self.options, probs, strict=True))
                return PersonAnswer(orjson.dumps(filled).decode(), probs)
            case "label":
                return self._likeliest(self.probabilities(posted))
            case "vote":
                label = self._chosen(posted)
                if self.todo.task == "label":
                    return PersonAnswer(label)
                return PersonAnswer(f"{self._thought(reason)}Answer: {label}")
            case "form":
                filled = self._reasoning(reason)
                for each in self.fields:
                    filled[each.name] = field_value(each, posted.get(f"f-{each.name}", "").strip())
                return PersonAnswer(orjson.dumps(filled).decode())
        said = posted.get("text", "").strip()
        if not said:
            raise ValueError("You have not written anything yet.")
        return PersonAnswer(said)

    def reply(self, answer: PersonAnswer | None, rater: str) -> Reply:
        """The reply of a rater; None: the rater abstained, which is a refusal and never a default.

        It names the rater, by the sign that stands for a person, as the model that served it.
        """
        if answer is None:
            return Reply("", outcome="refused", stop_reason="abstained", served_model=rater)
        return Reply(answer.text, stop_reason="stop", logprobs=answer.logprobs, served_model=rater)

    @cached_property
    def _properties(self) -> dict[str, Any]:
        """Of the form that is asked for; none where there is no form."""
        form = self.call.response_format
        found: dict[str, Any] = orjson.loads(form.schema).get("properties", {}) if form else {}
        return found

    def probabilities(self, posted: Mapping[str, str]) -> tuple[float, ...]:
        """One an option, as stated in percent. ValueError as in `read`; DoubtfulPercentage where
        one is at most 1 and `CONFIRMED` was not sent."""
        stated: list[float] = []
        for place, label in enumerate(self.options):
            said = posted.get(f"p{place}", "").strip().rstrip("%").replace(",", ".")
            try:
                percent = float(said)
            except ValueError:
                raise ValueError(f"Please give a percentage for ({label}).") from None
            if not 0 <= percent <= 100:
                raise ValueError(f"({label}) has {said}%: give 0 to 100.")
            stated.append(percent)
        if math.isclose(sum(stated), 1, abs_tol=PERCENT_TOLERANCE / 100):
            raise ValueError("These add up to 1. Write them in percent: 70 for 0.7.")
        for label, percent in zip(self.options, stated, strict=True):
            if not 0 < percent <= 1 or CONFIRMED in posted:
                continue
            raise DoubtfulPercentage(
                f"({label}) has {percent:g}%. If you mean {100 * percent:g}%, write "
                f"{100 * percent:g}; if you mean {percent:g} in a hundred, tick the box below."
            )
        if not math.isclose(sum(stated), 100, abs_tol=PERCENT_TOLERANCE):
            raise ValueError(f"The percentages add up to {sum(stated):g}, not to 100.")
        return tuple(percent / sum(stated) for percent in stated)

    def _chosen(self, posted: Mapping[str, str]) -> str:
        said = posted.get("choice", "")
        if said not in map(str, range(len(self.options))):
            raise ValueError("You have not chosen an answer yet.")
        return self.options[int(said)]

    def _likeliest(self, probs: tuple[float, ...]) -> PersonAnswer:
        """The likeliest label with the logarithms of all, as a model that reports them has them."""
        stated = sorted(zip(probs, self.options, strict=True), key=lambda each: -each[0])
        top = tuple((label, math.log(p)) for p, label in stated if p > 0)
        return PersonAnswer(top[0][0], probs, (Token(*top[0], top),))

    def _thought(self, reason: str) -> str:
        if not reason:
            return ""
        return f"<private>{reason}</private>\n" if self.todo.private else f"{reason}\n"

    def _reasoning(self, reason: str) -> dict[str, Any]:
        return {REASONING: reason} if reason or REASONING in self._properties else {}


KINDS: Mapping[str, FieldKind] = {"number": "number", "integer": "whole", "array": "texts"}
"""The kind of a field, by the type in its schema; any other is a text."""


def form_field(name: str, schema: Any) -> FormField:
    """The field of one property of a JSON schema."""
    if options := schema.get("enum"):
        return FormField(name, "choice", {str(each): each for each in options})
    if schema.get("type") == "boolean":
        return FormField(name, "choice", {"yes": True, "no": False})
    kind = KINDS.get(schema.get("type", ""), "text")
    within = schema.get("items", {}).get("properties", {}) if kind == "texts" else {}
    columns = tuple(form_field(each, of) for each, of in within.items())
    return FormField(name, kind, columns=columns)


def field_value(of: FormField, said: str) -> Any:
    """What was written into a field, as the schema has it. ValueError, in words for a person."""
    name = of.name.replace("_", " ")
    if not said and of.kind != "texts":
        raise ValueError(f"“{name}” is still empty.")
    match of.kind:
        case "number" | "whole":
            try:
                number = float(said.replace(",", "."))
            except ValueError:
                number = math.nan
            if not math.isfinite(number) or (of.kind == "whole" and number % 1):
                what = "a whole number" if of.kind == "whole" else "a number"
                raise ValueError(f"“{name}” has {said[:40]!r}, which is not {what}.")
            return int(number) if of.kind == "whole" else number
        case "texts":
            return [_row(of, line) for line in said.splitlines() if line.strip()]
        case "choice":
            if said not in of.options:
                raise ValueError(f"“{name}” has {said[:40]!r}, which is not a choice.")
            return of.options[said]
    return said


def _row(of: FormField, line: str) -> Any:
    """One line of a list: a text, or what its columns make."""
    if not of.columns:
        return line.strip()
    cells = line.rsplit("|", len(of.columns) - 1)
    if len(cells) != len(of.columns):
        wanted = " | ".join(each.name for each in of.columns)
        raise ValueError(f"“{line.strip()[:40]}” is to be written as {wanted}.")
    pairs = zip(of.columns, cells, strict=True)
    return {each.name: field_value(each, cell.strip()) for each, cell in pairs}


def parts_of(speech: str) -> list[SpeechPart]:
    """A speech without our tags: what tools computed, quotes that were looked up, and the rest."""
    parts: list[SpeechPart] = []
    end = 0
    for found in _MARKED.finditer(speech):
        if found.start() > end:
            parts.append(SpeechPart("plain", speech[end : found.start()]))
        match found["kind"]:
            case "verified" | "unverified" | "unchecked" as kind:
                parts.append(SpeechPart(kind, found["quote"]))
            case _:
                parts.append(SpeechPart("tool", found["result"], found["tool"]))
        end = found.end()
    return [*parts, SpeechPart("plain", speech[end:])] if end < len(speech) else parts


def answer_digests(question: Question) -> tuple[str, tuple[str, ...]]:
    """The digest of a question, and of each of its answers, as they stand in a task."""
    bodies = [answer_body(answer) for answer in question.answers]
    return problem_digest(escape_tags(question.text), bodies), tuple(map(short_digest, bodies))


def problem_digest(text: str, bodies: list[str]) -> str:
    """16 hex digits of a question and its answers, in whatever order they are shown."""
    return short_digest("\0".join([text, *sorted(bodies)]))


def short_digest(text: str) -> str:
    """16 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
