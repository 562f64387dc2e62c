"""Forms that a simulated model fills in: the kind of a JSON Schema, and values that fit it."""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from ....protocols.prompts.forms import REASONING
from .speech import in_sentences

FormKind: TypeAlias = Literal["probabilities", "choice", "side", "rating", "other"]

MAX_ENTRIES = 3
"""Maximum number of texts in a list; fewer if there are fewer sentences to fill it."""


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
    that a speech argues for, `rating` other numbers or booleans.

    Only the shape counts, not the form's name.
    """
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
