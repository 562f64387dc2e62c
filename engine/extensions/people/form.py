"""The fields of a form that a person fills in, from the schema of a model's structured output."""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

FieldKind: TypeAlias = Literal["text", "texts", "number", "whole", "choice", "flag"]


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    kind: FieldKind
    options: tuple[str, ...] = ()
    columns: tuple["FormField", ...] = ()
    """Of `texts`: what each line has, between bars; empty where a line is one text."""
    is_whole: bool = False
    """Of `choice`: whether the options are whole numbers."""


def form_field(name: str, schema: Any) -> FormField:
    """The field of one property of a JSON schema."""
    if options := schema.get("enum"):
        whole = schema.get("type") == "integer"
        return FormField(name, "choice", tuple(map(str, options)), is_whole=whole)
    kinds: dict[str, FieldKind] = {
        "number": "number",
        "integer": "whole",
        "boolean": "flag",
        "array": "texts",
    }
    kind = kinds.get(schema.get("type", ""), "text")
    within = schema.get("items", {}).get("properties", {}) if kind == "texts" else {}
    columns = tuple(form_field(each, of) for each, of in within.items())
    return FormField(name, kind, ("yes", "no") if kind == "flag" else (), columns)


def field_value(field: FormField, said: str) -> Any:
    """What was written into a field, as the schema has it. ValueError, in words for a person."""
    name = field.name.replace("_", " ")
    if not said and field.kind != "texts":
        raise ValueError(f"“{name}” is still empty.")
    match field.kind:
        case "number" | "whole":
            try:
                number = float(said.replace(",", "."))
            except ValueError:
                number = math.nan
            if not math.isfinite(number) or (field.kind == "whole" and number % 1):
                what = "a whole number" if field.kind == "whole" else "a number"
                raise ValueError(f"“{name}” has {said[:40]!r}, which is not {what}.")
            return int(number) if field.kind == "whole" else number
        case "texts":
            return [_row(field, line) for line in said.splitlines() if line.strip()]
        case "choice" | "flag":
            if said not in field.options:
                raise ValueError(f"“{name}” has {said[:40]!r}, which is no choice.")
            if field.kind == "flag":
                return said == "yes"
            return int(said) if field.is_whole else said
    return said


def _row(field: FormField, line: str) -> Any:
    """One line of a list: a text, or what its columns make."""
    if not field.columns:
        return line.strip()
    cells = line.rsplit("|", len(field.columns) - 1)
    if len(cells) != len(field.columns):
        wanted = " | ".join(each.name for each in field.columns)
        raise ValueError(f"“{line.strip()[:40]}” is to be written as {wanted}.")
    pairs = zip(field.columns, cells, strict=True)
    return {each.name: field_value(each, cell.strip()) for each, cell in pairs}
