"""Forms: replies that must be JSON of a given shape, and how they are read."""

import math
import re
from typing import Any, Literal

import orjson

from oversight.cache.call import ResponseFormat
from oversight.cache.reply import Reply
from oversight.protocols.errors import unreadable
from oversight.protocols.question import Question

NO_SIDE = "none"
"""In a side form: the speech argues for no answer, or for several."""


def probabilities_form(question: Question) -> ResponseFormat:
    """One number for each answer label."""
    labels = [answer.label for answer in question.answers]
    return _form("probabilities", {label: {"type": "number"} for label in labels})


def choice_form(question: Question) -> ResponseFormat:
    """One of the answer labels."""
    labels = [answer.label for answer in question.answers]
    return _form("choice", {"answer": {"type": "string", "enum": labels}})


def helpfulness_form() -> ResponseFormat:
    """One number, from 0 to 10."""
    return _form("helpfulness", {"helpfulness": {"type": "number"}})


def challenge_form(statements: int) -> ResponseFormat:
    """The number of a statement, from 1, and a question about it."""
    numbers = list(range(1, statements + 1))
    return _form(
        "challenge",
        {"statement": {"type": "integer", "enum": numbers}, "question": {"type": "string"}},
    )


def texts_form(name: str) -> ResponseFormat:
    """A list of texts, under the form's own name."""
    return _form(name, {name: {"type": "array", "items": {"type": "string"}}})


def number_form(name: str) -> ResponseFormat:
    """One number, under the form's own name."""
    return _form(name, {name: {"type": "number"}})


def odds_form() -> ResponseFormat:
    """Steps, each with the probability that it holds, and that of the conclusion."""
    step = _object({"step": {"type": "string"}, "probability": {"type": "number"}})
    return _form(
        "steps", {"steps": {"type": "array", "items": step}, "conclusion": {"type": "number"}}
    )


def step_form(steps: int, *, may_pass: bool) -> ResponseFormat:
    """The number of a step, from 1, or 0 for none where that may be."""
    numbers = list(range(0 if may_pass else 1, steps + 1))
    return _form("step", {"step": {"type": "integer", "enum": numbers}})


def check_form() -> ResponseFormat:
    """Whether what was shown holds."""
    return _form("check", {"holds": {"type": "boolean"}})


def split_form() -> ResponseFormat:
    """Subclaims, and how many of them must hold: all, any, or at least so many."""
    return _form(
        "subclaims",
        {
            "subclaims": {"type": "array", "items": {"type": "string"}},
            "needed": {"type": "string", "enum": ["all", "any", "at least"]},
            "at_least": {"type": "integer"},
        },
    )


def estimates_form(subclaims: int) -> ResponseFormat:
    """One number for each of so many subclaims, counted from 1."""
    return _form(
        "estimates", {str(number): {"type": "number"} for number in range(1, subclaims + 1)}
    )


def pick_form(subclaims: int) -> ResponseFormat:
    """The number of a subclaim, from 1, and which way its estimate is off."""
    numbers = list(range(1, subclaims + 1))
    return _form(
        "pick",
        {
            "subclaim": {"type": "integer", "enum": numbers},
            "truth_is": {"type": "string", "enum": ["higher", "lower"]},
        },
    )


def side_form(question: Question) -> ResponseFormat:
    """The label of the answer that a speech argues for, or `none`."""
    labels = [answer.label for answer in question.answers]
    return _form("side", {"argues_for": {"type": "string", "enum": [*labels, NO_SIDE]}})


def solution_form(answer: Literal["integer", "number", "string"]) -> ResponseFormat:
    """Steps, and the answer that they come to."""
    steps = {"type": "array", "items": {"type": "string"}}
    return _form("solution", {"steps": steps, "answer": {"type": answer}})


def plausibility_form() -> ResponseFormat:
    """How plausible a wrong answer is, from 0 to 10, and whether it is a right one after all."""
    return _form("plausibility", {"plausibility": {"type": "number"}, "right": {"type": "boolean"}})


def ranking_form(count: int) -> ResponseFormat:
    """The number of the best of so many, from 1."""
    return _form("ranking", {"best": {"type": "integer", "enum": list(range(1, count + 1))}})


def readable(reply: Reply) -> str:
    """The text that may be read for an answer.

    Of a truncated reply all but its last word, which may be half a word or half a number.
    Declined if the model refused, whatever it wrote: a refusal is no answer.
    """
    if reply.outcome == "refused":
        raise unreadable("refused", reply)
    return re.sub(r"\S*\Z", "", reply.text) if reply.outcome == "truncated" else reply.text


def read_form(reply: Reply, form: ResponseFormat) -> dict[str, Any]:
    """The filled-in form: every required field there. Unreadable if it is not.

    A fenced or introduced object is read as well, for models that decorate what they return.
    """
    text = readable(reply)
    start, end = text.find("{"), text.rfind("}")
    try:
        value = orjson.loads(text[start : end + 1])
    except orjson.JSONDecodeError:
        raise unreadable(f"the reply is not the JSON of a {form.name} form", reply) from None
    if not isinstance(value, dict):
        raise unreadable(f"the reply is not the JSON of a {form.name} form", reply)
    missing = [key for key in orjson.loads(form.schema)["required"] if key not in value]
    if missing:
        raise unreadable(f"the {form.name} form lacks {missing[0]!r}", reply)
    return value


def number_in(form: dict[str, Any], key: str, reply: Reply) -> float:
    """A finite number of a filled-in form, or Unreadable."""
    value = form[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise unreadable(f"{key!r} is {value!r}, not a number", reply)
    return float(value)


def text_in(form: dict[str, Any], key: str, reply: Reply) -> str:
    """A text of a filled-in form that says something, or Unreadable."""
    value = form[key]
    if not isinstance(value, str) or not value.strip():
        raise unreadable(f"{key!r} is {value!r}, not a text", reply)
    return value.strip()


def texts_in(form: dict[str, Any], key: str, reply: Reply) -> tuple[str, ...]:
    """The texts of a list in a filled-in form, blank ones left out, or Unreadable."""
    value = form[key]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise unreadable(f"{key!r} is {str(value)[:40]!r}, not a list of texts", reply)
    return tuple(text.strip() for text in value if text.strip())


def flag_in(form: dict[str, Any], key: str, reply: Reply) -> bool:
    """True or false as a filled-in form has it, or Unreadable."""
    value = form[key]
    if not isinstance(value, bool):
        raise unreadable(f"{key!r} is {str(value)[:40]!r}, neither true nor false", reply)
    return value


def place_in(form: dict[str, Any], key: str, numbers: range, reply: Reply) -> int:
    """A whole number of a filled-in form, one of `numbers`, or Unreadable."""
    value = number_in(form, key, reply)
    if value not in numbers:
        raise unreadable(f"{key!r} is {value:g}, not one of {numbers[0]} to {numbers[-1]}", reply)
    return int(value)


def probability_in(form: dict[str, Any], key: str, reply: Reply) -> float:
    """A number from 0 to 1 of a filled-in form, or Unreadable."""
    value = number_in(form, key, reply)
    if not 0 <= value <= 1:
        raise unreadable(f"{key!r} is {value:g}, not a number from 0 to 1", reply)
    return value


def _form(name: str, properties: dict[str, Any]) -> ResponseFormat:
    return ResponseFormat(name, orjson.dumps(_object(properties)).decode())


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
