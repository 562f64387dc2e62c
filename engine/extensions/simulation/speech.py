"""Speeches and forms of simulated models.

A speech opens with its strength, then comes plausible filler. A form is told by its JSON Schema,
and filled with values that fit it."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import cycle, islice
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from ....protocols.prompts.forms import REASONING
from .model import DECIMALS, Chance

OPENING = "({label}){strength:+.{decimals}f} nats is the weight of this simulated case."
"""The first word holds side and strength, so that no word limit cuts them off."""

SENTENCES: Mapping[str, list[str]] = tomllib.loads(
    files(__package__).joinpath("sentences.toml").read_text("utf-8")
)

Bank: TypeAlias = tuple[tuple[str, int], ...]
"""Sentences, each with its number of words; a power of two of them."""


class SideCase:
    """Sentences for one answer of one question, against a rival answer."""

    def __init__(self, question: str, answer: tuple[str, str], rival: tuple[str, str]) -> None:
        """answer, rival: (label, text and work as shown)."""
        question_sentences = in_sentences(question)
        self.label, answer_text = answer
        self.rival, opposed = rival
        text, steps = _text_and_steps(answer_text)
        other, rival_steps = _text_and_steps(opposed)

        def filled(templates: Sequence[str]) -> Bank:
            sentences = (
                template.format(
                    question=question_sentences[-1 - n % len(question_sentences)],
                    label=self.label,
                    text=text,
                    steps=excerpt("; ".join(steps), 200),
                    step=steps[n % len(steps)],
                    rival=self.rival,
                    other=other,
                    rival_step=rival_steps[n % len(rival_steps)],
                )
                for n, template in enumerate(templates)
            )
            return tuple((sentence, length(sentence)) for sentence in sentences)

        self._case, self._rebuttal, self._doubts = (
            filled(SENTENCES[kind]) for kind in ("case", "rebuttal", "doubt")
        )

    def speech(
        self, strength: float, words: int, chance: Chance, *, replies: bool, aside: str
    ) -> str:
        """A speech of at most `words` words, but at least its opening. replies: whether it rebuts a
        speech for the rival. aside: an additional sentence."""
        sentences = [OPENING.format(label=self.label, strength=strength, decimals=DECIMALS)]
        sentences += [aside] * bool(aside)
        sentences += [self._rebuttal[chance.start % len(self._rebuttal)][0]] * replies
        rest = words - sum(map(length, sentences))
        return " ".join([*sentences, *prose(self._case, rest, chance)])

    def doubt(self, chance: Chance) -> str:
        """A question that a judge might ask about this answer."""
        return self._doubts[chance.start % len(self._doubts)][0]


def prose(bank: Bank, words: int, chance: Chance) -> Iterator[str]:
    """Whole sentences with at most `words` words in total; none repeats before all have come."""
    at, stride = chance.start, chance.stride | 1
    while True:
        sentence, count = bank[at % len(bank)]
        if count > words:
            return
        words -= count
        at += stride
        yield sentence


def neutral(question: str, task: str, words: int, chance: Chance) -> str:
    """A neutral reply to any question; at least one sentence."""
    last_sentence, task_text = in_sentences(question)[-1], excerpt(task or "something unmarked")
    about = {"question": last_sentence, "task": task_text}
    sentences = [template.format(**about) for template in SENTENCES["neutral"]]
    bank = tuple((sentence, length(sentence)) for sentence in sentences)
    first, count = bank[0]
    return " ".join([first, *prose(bank, words - count, chance)])


def stated_strength(speech: str) -> tuple[str, float] | None:
    """(label, nats) from the opening of a simulated speech; None for any other text."""
    if not speech.startswith("("):
        return None
    close = speech.find(")", 0, _LONGEST)
    if close < 0 or speech[close + 1 : close + 2] not in ("+", "-"):
        return None
    try:
        nats = float(speech[close + 1 : close + _LONGEST].split(None, 1)[0])
    except ValueError:
        return None
    return (speech[1:close], nats) if math.isfinite(nats) else None


def length(text: str) -> int:
    """The number of words in a text."""
    return len(text.split())


def excerpt(text: str, characters: int = 90) -> str:
    """The beginning of a text on one line, cut between words."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line.rstrip(".!;:,")
    return f"{line[:characters].rpartition(' ')[0] or line[:characters]} …"


def in_sentences(text: str) -> list[str]:
    """Sentences of a text, each as an excerpt; at least one."""
    parts = re.split(r"(?<=[.?!])\s+", text.strip())
    return [excerpt(part) for part in parts if part] or ["nothing"]


def _text_and_steps(answer_text: str) -> tuple[str, list[str]]:
    """First line of an answer, and its other lines; the first line again without others."""
    lines = [excerpt(line) for line in answer_text.splitlines() if line.strip()] or ["nothing"]
    return lines[0], lines[1:] or lines


_LONGEST = 64
"""Maximum length in characters of a label, and of a strength."""


FormKind: TypeAlias = Literal["probabilities", "choice", "side", "rating", "other"]

MAX_ENTRIES = 3
"""Maximum number of texts in a list; fewer if the sentences run out."""


class Contents(NamedTuple):
    """Values with which a form is filled."""

    text: str
    """Value of a text field; a list of texts gets its sentences."""
    belief: float = 0.5
    """Value of a number field, in [0, 1]."""
    agrees: bool = False
    """Value of a boolean field."""
    pick: int = 0
    """Index of the value of an enum, modulo the number of choices."""


def form_kind(schema: Any, labels: Sequence[str]) -> FormKind:
    """Kind of a form: `probabilities` has a number per label, `choice` one label, `side` the label
    that a speech argues for, `rating` other numbers or booleans. Only the shape counts, not the
    form's name."""
    fields = schema.get("properties", {}) if isinstance(schema, dict) else {}
    if isinstance(fields, dict):
        # A field for reasoning does not change the kind.
        fields = {name: field for name, field in fields.items() if name != REASONING}
    if not labels or not fields or not isinstance(fields, dict):
        return "other"
    if set(fields) == set(labels) and all(_is(field, "number") for field in fields.values()):
        return "probabilities"
    if list(fields) == ["answer"] and _choices(fields["answer"]) == sorted(labels):
        return "choice"
    if "argues_for" in fields:
        return "side"
    if all(_is(field, "number") or _is(field, "boolean") for field in fields.values()):
        return "rating"
    return "other"


def fill_form(schema: Any, contents: Contents) -> Any:
    """A value that fits a JSON Schema, filled with `contents`."""
    if not isinstance(schema, dict):
        return contents.text
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][contents.pick % len(schema["enum"])]
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return fill_form(schema[choice][0], contents)
    match _type(schema):
        case "object":
            fields = schema.get("properties", {})
            return {name: fill_form(field, contents) for name, field in fields.items()}
        case "array":
            return _listed(schema, contents)
        case "integer":
            return int(_within(schema, 1))
        case "number":
            return _within(schema, contents.belief)
        case "boolean":
            return contents.agrees
        case "null":
            return None
    # A simulated model quotes nothing: where nothing stands for all, it picks all.
    return "" if "empty for all" in schema.get("description", "") else contents.text


def filled(schema: str, contents: Contents) -> str:
    """JSON that fits a JSON Schema, filled with `contents`."""
    return orjson.dumps(fill_form(orjson.loads(schema), contents)).decode()


def _listed(schema: dict[str, Any], contents: Contents) -> list[Any]:
    least = max(schema.get("minItems", 1), 1)
    if not _is(schema.get("items"), "string") or schema["items"].get("enum"):
        return [fill_form(schema.get("items"), contents)] * least
    texts = in_sentences(contents.text)[:MAX_ENTRIES]
    return list(islice(cycle(texts), max(least, len(texts))))


def _within(schema: dict[str, Any], value: float) -> float:
    least = max(value, float(schema.get("minimum", value)))
    return min(least, float(schema.get("maximum", least)))


def _choices(schema: Any) -> list[str]:
    enum = schema.get("enum", []) if isinstance(schema, dict) else []
    return sorted(choice for choice in enum if isinstance(choice, str))


def _is(schema: Any, kind: str) -> bool:
    return isinstance(schema, dict) and _type(schema) == kind


def _type(schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    return kind[0] if isinstance(kind, list) and kind else kind
