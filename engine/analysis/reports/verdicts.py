"""Judgements that were produced elsewhere: JSON Lines, one judgement a line.

    {"id": "q1", "values": {"A": 1, "B": -1},
     "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}, "group": "text 7"}

`values` has each answer's value, `worlds` the verdict in the world where that answer was argued
for: a probability an answer, or null where there is no verdict. A world that is left out was not
run. `verdict` in place of `worlds` is one verdict on a conversation in which every answer was
argued. A question may stand in several lines, if `judge`, `speaker`, `setting` or `draw` tell them
apart. Questions of one `group` (a shared source text) depend on each other, and so do the
judgements of one `judge`. `first` is what the judge believed before anything was said.
"""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ....protocols.datasets.rows import json_line
from ....protocols.errors import DatasetError
from ....protocols.spelling import meant
from ...errors import UsageError
from ..scoring.judgements import Judgement, Judgements

SUM_TOLERANCE = 1e-6
"""How far the probabilities of a world may be from 1 in sum. They are scored as given."""

MAX_VALUE = 1e9
"""Beyond it a value would drown every other one in a mean."""

SHAPES = {
    "id": "a text or a whole number",
    "values": 'a finite number for each answer, such as {"A": 1, "B": -1}',
    "worlds": "for each answer argued a probability for each answer, "
    "or null where there is no verdict",
    "verdict": "instead of worlds, a probability for each answer where all were argued",
    "first": "a probability for each answer before anything was said, or left out",
    "judge": "a text, or left out",
    "speaker": "a text, or left out",
    "setting": "a text, or left out",
    "mode": "a text, or left out",
    "draw": "a text or a whole number, or left out",
    "group": "a text or a whole number, or left out",
}
"""What each key of a line holds."""


class VerdictLine(BaseModel):
    """A line as it stands in the file, right in its types alone."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    id: str | int
    values: dict[str, float]
    worlds: dict[str, dict[str, float] | None] | None = None
    verdict: dict[str, float] | None = None
    first: dict[str, float] | None = None
    group: str | int | None = None
    judge: str | None = None
    speaker: str | None = None
    setting: str | None = None
    mode: str | None = None
    draw: str | int | None = None


TOLD_APART = ("judge", "speaker", "setting", "mode", "draw")
"""Keys that tell two judgements of one question apart."""

KEYS = ("group", *TOLD_APART)


def read_verdicts(lines: Iterable[bytes], file: str) -> Judgements:
    """Every judgement of the file, in its order. Blank lines are skipped.

    file: its name, for errors. UsageError on a line that is wrong, that contradicts an earlier
    one or repeats it, or if there is none.
    """
    return told_apart(parsed(lines, file), file)


def told_apart(every: Iterable[Judgement], file: str) -> Judgements:
    """The judgements as a table. UsageError for lines that contradict or repeat each other, or
    if there is none."""
    try:
        found = Judgements.of(every)
    except ValueError as exc:
        told = "empty; write one JSON object a line, one line a judgement"
        raise UsageError(f"{file}: {told}") from exc
    for kind, held in (
        ("values", found.codes["labels"][:, None]),
        ("values", np.nan_to_num(found.values)),
        ("group", found.clusters(("problem",))["problem"][:, None]),
    ):
        if other := found.contradicted(held):
            here, there = (_stated(found, kind, n) for n in other)
            raise _error(
                found,
                file,
                other[0],
                f"{kind}: {here}: line {found.line[other[1]]} has {there} for the question "
                f"{_id(found, other[0])}; a question has one",
            )
    if twice := found.repeated(("file", *TOLD_APART)):
        raise _error(
            found,
            file,
            twice[0],
            f"id: {_id(found, twice[0])}: line {found.line[twice[1]]} judges the same worlds of it "
            f"already; tell them apart by {', '.join(TOLD_APART)}, or give each question its own "
            "id",
        )
    return found


def _error(found: Judgements, file: str, n: int, message: str) -> UsageError:
    if "file" in found.codes:
        file = found.names["file"][found.codes["file"][n]]
    return UsageError(f"{file}:{found.line[n]}: {message}")


def _id(found: Judgements, n: int) -> str:
    return _shown(found.questions[found.question[n]])


def _stated(found: Judgements, kind: str, n: int) -> str:
    """What a line states of its question."""
    if kind == "group":
        code = found.codes["group"][n]
        return _shown(found.names["group"][code] if code >= 0 else None)
    labels = json.loads(found.names["labels"][found.codes["labels"][n]])
    return _shown(dict(zip(labels, found.values[n].tolist(), strict=False)))


def parsed(lines: Iterable[bytes], file: str) -> Iterator[Judgement]:
    """The judgements of a file, one by one, with answers in the order of their labels. UsageError
    on the first line that is wrong."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = VerdictLine.model_validate(json_line(file, number, line))
            labels = _labels(row)
            worlds, first = _worlds(row, labels)
        except DatasetError as exc:
            raise UsageError(str(exc)) from exc
        except ValueError as exc:
            told = _complaint(exc) if isinstance(exc, ValidationError) else str(exc)
            raise UsageError(f"{file}:{number}: {told}") from exc
        # A blank name is none: otherwise all such lines would be of one group, or of one judge.
        keys = {name: str(key) for name in KEYS if (key := getattr(row, name)) not in (None, "")}
        keys["labels"] = json.dumps(labels)
        values = tuple(row.values[label] for label in labels)
        everywhere = row.verdict is not None
        yield Judgement(row.id, values, worlds, keys, first, everywhere, number)


def _labels(row: VerdictLine) -> tuple[str, ...]:
    """Labels of the answers, sorted. ValueError names key, value and remedy."""
    labels = tuple(sorted(row.values))
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
    return labels


def _worlds(
    row: VerdictLine, labels: tuple[str, ...]
) -> tuple[tuple[tuple[float, ...] | None, ...], tuple[float, ...] | None]:
    """The verdict in each world, and the belief before. ValueError names key, value and remedy."""
    if row.worlds is None and row.verdict is None:
        raise ValueError(f"worlds: missing; it is {SHAPES['worlds']}")
    if row.worlds is not None and row.verdict is not None:
        raise ValueError("verdict: a line has worlds, or one verdict for all of them, not both")
    worlds: tuple[tuple[float, ...] | None, ...]
    if row.verdict is not None:
        worlds = (_world("verdict", row.verdict, labels),) * len(labels)
    else:
        given = row.worlds or {}
        _known_labels("worlds", given, labels)
        if not given:
            raise ValueError("worlds: {}: no world was run; leave the line out")
        worlds = tuple(
            _world(f"worlds.{label}", given[label], labels) if label in given else ()
            for label in labels
        )
    first = None if row.first is None else _world("first", row.first, labels)
    return worlds, first


def _world(
    place: str, world: dict[str, float] | None, labels: tuple[str, ...]
) -> tuple[float, ...] | None:
    if world is None:
        return None
    _known_labels(place, world, labels)
    for label in labels:
        if label not in world:
            raise ValueError(f"{place}.{label}: missing; each answer in values needs a probability")
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


def _known_labels(place: str, found: dict[str, Any], labels: tuple[str, ...]) -> None:
    for label in found:
        if label not in labels:
            raise ValueError(
                f"{place}.{label}: {_shown(found[label])}: no such answer"
                f"{meant(label, labels)}; values names {', '.join(labels)}"
            )


def _complaint(error: ValidationError) -> str:
    """The first thing that is wrong with a row's types, with place, value and remedy."""
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
        return f"{key}: {value}: no such key{meant(key, SHAPES)}; a line has {', '.join(SHAPES)}"
    if key in ("id", "group", "draw"):
        # What is inside names the types that pydantic tried.
        return f"{key}: {value}: wrong type; {key} is {SHAPES[key]}"
    return f"{'.'.join((key, *inside))}: {value}: wrong; {key} is {SHAPES[key]}"


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:76]} …"
