"""Verdicts that were produced elsewhere: JSON Lines, one question a line.

    {"id": "q1", "values": {"A": 1, "B": -1},
     "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}, "group": "text 7"}

`values` has each answer's value, `worlds` the verdict in the world where that answer was argued
for: a probability an answer, or null where there is no verdict. `group` may be left out; questions
of one group (a shared source text) are resampled together.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import UsageError

SUM_TOLERANCE = 1e-6
"""How far the probabilities of a world may be from 1 in sum. They are scored as given."""

MAX_VALUE = 1e9
"""Beyond it a value would drown every other one in a mean."""

SHAPES = {
    "id": "a text or a whole number",
    "values": 'a finite number for each answer, such as {"A": 1, "B": -1}',
    "worlds": "for each answer argued a probability for each answer, "
    "or null where there is no verdict",
    "group": "a text or a whole number, or left out",
}
"""What each key of a line holds."""


class VerdictsError(UsageError):
    """Verdicts that cannot be scored as they stand; nothing was printed."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line
        """From 1; 0 where the fault is of the whole file."""


class VerdictLine(BaseModel):
    """A line as it stands in the file, right in its types alone."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    id: str | int
    values: dict[str, float]
    worlds: dict[str, dict[str, float] | None]
    group: str | int | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One question's verdicts, as read."""

    id: str | int
    values: tuple[float, ...]
    """One an answer, in the order of the line."""
    worlds: tuple[tuple[float, ...] | None, ...]
    """One an answer argued: a probability an answer; None where there is no verdict."""
    group: str
    """What the question shares with others; "" if nothing."""


def read_verdicts(lines: Iterable[bytes], file: str) -> tuple[Verdicts, ...]:
    """Every question of the file, in its order. Blank lines are skipped.

    file: its name, for errors. VerdictsError on the first line that is wrong, or if there is none.
    """
    read: list[Verdicts] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            verdicts = _verdicts(_row(line))
            id = str(verdicts.id)
            if id in seen:
                raise ValueError(
                    f"id: {_shown(verdicts.id)}: line {seen[id]} has this id already; "
                    "give each question its own"
                )
        except ValueError as exc:
            raise VerdictsError(file, number, str(exc)) from exc
        seen[id] = number
        read.append(verdicts)
    if not read:
        raise VerdictsError(file, 0, "empty; write one JSON object a line, one line a question")
    return tuple(read)


def _row(line: bytes) -> VerdictLine:
    try:
        text = line.decode("utf-8-sig").strip()
        parsed = json.loads(text, object_pairs_hook=_without_twins, parse_int=_whole)
        _refuse_surrogates(line, parsed)
        return VerdictLine.model_validate(parsed)
    except UnicodeDecodeError as exc:
        byte = line[exc.start]
        raise ValueError(
            f"byte {byte:#04x} at place {exc.start + 1} is not UTF-8; save the file as UTF-8"
        ) from exc
    except json.JSONDecodeError as exc:
        near = _shown(text[exc.pos : exc.pos + 20]) if exc.pos < len(text) else "the end"
        raise ValueError(
            f"not JSON at character {exc.pos + 1}, {near}: {exc.msg}; "
            "write one whole JSON object a line"
        ) from exc
    except RecursionError as exc:
        raise ValueError(f"nested far too deeply; a line has {', '.join(SHAPES)}") from exc
    except ValidationError as exc:
        raise ValueError(_complaint(exc)) from exc


def _verdicts(row: VerdictLine) -> Verdicts:
    """The row, right in its meaning too. ValueError names key, value and mend."""
    labels = tuple(row.values)
    if len(labels) < 2:
        raise ValueError(f"values: {_shown(row.values)}: needs two answers or more")
    for label, value in row.values.items():
        if abs(value) > MAX_VALUE:
            raise ValueError(
                f"values.{label}: {value:g}: beyond ±{MAX_VALUE:g}; scale all values down"
            )
    if min(row.values.values()) == max(row.values.values()):
        raise ValueError(
            f"values: {_shown(row.values)}: no answer is better than another; "
            "give the true one a higher value"
        )
    _same_labels("worlds", row.worlds, labels, "a world, or null where it has no verdict")
    worlds = tuple(_world(label, row.worlds[label], labels) for label in labels)
    group = "" if row.group is None else str(row.group)
    return Verdicts(row.id, tuple(row.values.values()), worlds, group)


def _world(
    argued: str, world: dict[str, float] | None, labels: tuple[str, ...]
) -> tuple[float, ...] | None:
    if world is None:
        return None
    place = f"worlds.{argued}"
    _same_labels(place, world, labels, "a probability")
    for label, p in world.items():
        if not 0 <= p <= 1:
            raise ValueError(f"{place}.{label}: {p}: a probability lies between 0 and 1")
    total = math.fsum(world.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{place}: {_shown(world)}: probabilities sum to {total:.9g}, not to 1; "
            "divide each by their sum, or write null if this is no verdict"
        )
    return tuple(world[label] for label in labels)


def _same_labels(place: str, found: dict[str, Any], labels: tuple[str, ...], wanted: str) -> None:
    """ValueError unless the keys are the labels of `values`, in any order."""
    for label in found:
        if label not in labels:
            raise ValueError(
                f"{place}.{label}: {_shown(found[label])}: no such answer"
                f"{_meant(label, labels)}; values names {', '.join(labels)}"
            )
    for label in labels:
        if label not in found:
            raise ValueError(f"{place}.{label}: missing; each answer in values needs {wanted}")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; ValueError if a key occurs twice, which JSON readers settle as they please."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(
                f"{key}: {_shown(value)}: the key occurs twice in one object, "
                f"first with {_shown(found[key])}; keep one"
            )
        found[key] = value
    return found


def _whole(digits: str) -> int | float:
    # Python refuses to read very long integers, and without saying where they stand.
    return int(digits) if len(digits) <= 100 else float(digits)


def _refuse_surrogates(line: bytes, parsed: object) -> None:
    """ValueError if an escape such as \\ud800 stands alone: no text, and nothing could print it."""
    if rb"\ud" not in line.lower():
        return
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        raise ValueError(
            f"{_shown(exc.object[exc.start])}: half of a surrogate pair; write the whole character"
        ) from exc


def _complaint(error: ValidationError) -> str:
    """The first thing that is wrong with a row's types, with place, value and mend."""
    errors = error.errors(include_url=False)
    # A key misspelt is a key missing too: the spelling is the better news.
    first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    value = _shown(first["input"])
    if not first["loc"]:
        return f"{value}: not a JSON object; a line has {', '.join(SHAPES)}"
    key, *inside = map(str, first["loc"])
    if first["type"] == "missing":
        return f"{key}: missing; it is {SHAPES[key]}"
    if first["type"] == "extra_forbidden":
        return f"{key}: {value}: no such key{_meant(key, SHAPES)}; a line has {', '.join(SHAPES)}"
    if key in ("id", "group"):
        # What is inside names the types that pydantic tried.
        return f"{key}: {value}: wrong type; {key} is {SHAPES[key]}"
    return f"{'.'.join((key, *inside))}: {value}: wrong; {key} is {SHAPES[key]}"


def _meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:76]} …"
