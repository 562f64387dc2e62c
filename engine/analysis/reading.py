"""Judgements made elsewhere: one reader for tables, study folders and runs that people judged.

A line of JSON has `values`, and `worlds` or one `verdict`; a line of a spreadsheet has `question`,
`world`, and `p_right` or `probs` (`oversight measure judgements --help`). A world that is left out
was not run. An empty `world` means that every answer is argued, and an empty name means none.
`first` is the belief before anything was said.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ...protocols.datasets.columns import is_mark, is_missing, name_of, number_in
from ...protocols.datasets.rows import DELIMITERS, TABLES, each_record, ending, json_line, regular
from ...protocols.datasets.rows import strict as checked_rows
from ...protocols.errors import DatasetError
from ...protocols.scores import check_probabilities
from ...protocols.settings import suggestion
from ..errors import UsageError
from ..run.folders import is_run
from ..system.process import JUDGEMENTS_GROUP, load_one, registered
from .scoring.judgements import Judgement, Judgements

TABLE = ".jsonl"
"""Ending of JSON Lines; other tables have the endings of data sets."""

STDIN = Path("-")

MAX_VALUE = 1e9
"""Largest absolute value of an answer; a larger one would drown all others in a mean."""

TOLD_APART = ("judge", "speaker", "setting", "mode", "repeat")
"""Keys that distinguish judgements of one question."""

KEYS = ("group", *TOLD_APART)

NAME = "a text or a whole number"
SHAPES = {
    "id": NAME,
    "values": 'a finite number for each answer, such as {"A": 1, "B": -1}',
    "worlds": "for each answer argued a probability for each answer, or null without a verdict",
    "verdict": "instead of worlds, a probability for each answer where all were argued",
    "first": "a probability for each answer before anything was said, or left out",
    **{key: f"{NAME}, or left out" for key in KEYS},
}
"""Content of each key of a line."""

SINGLE = ("question", "answers", "world", "probs", "p_right")
"""Further keys of a line with a single verdict."""

CELLS = ("values", "worlds", "verdict", "first", "answers", "probs", "p_right")
"""Columns of CSV and TSV that hold numbers, or JSON."""

ASIDE = "aside"
"""Key of judgements that a study's own figures leave out; `measure people` compares them."""


class VerdictLine(BaseModel):
    """A line as it stands in the file; only its types are checked."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    id: str | int
    values: dict[str, float]
    worlds: dict[str, dict[str, float] | None] | None = None
    verdict: dict[str, float] | None = None
    first: dict[str, float] | None = None
    group: str | int | None = None
    judge: str | int | None = None
    speaker: str | int | None = None
    setting: str | int | None = None
    mode: str | int | None = None
    repeat: str | int | None = None


class JudgementSource(ABC):
    """A reader of judgements that are not in a table, registered under `oversight.judgements`."""

    @abstractmethod
    def holds(self, path: Path) -> bool:
        """Whether this source can read the path; cheap."""

    @abstractmethod
    def judgements(self, path: Path) -> Iterator[Judgement]:
        """All judgements at the path. UsageError if it has none, or if they are unreadable."""


def is_table(path: Path) -> bool:
    """Whether judgements can be read from the path, and it is not a run."""
    if ending(path) in (TABLE, *TABLES) and not path.is_dir():
        return True
    return not is_run(path) and _source(path) is not None


def read_judgements(
    *paths: Path, columns: Mapping[str, str] = MappingProxyType({}), aside: bool = False
) -> Judgements:
    """The judgements of tables, study folders, and runs that people judged; `-` is standard input.
    Judgements of several paths have the stem of their file as the key `file`. columns: by key, the
    column that has it. aside: also read judgements that a study's own figures leave out.
    UsageError, with file, line and value, if a line is wrong, contradicts another or repeats it, or
    if the paths have no judgement."""

    def every() -> Iterator[Judgement]:
        for path in paths:
            judgement = None
            for judgement in _judgements(path, columns):
                if aside or ASIDE not in judgement.keys:
                    file_key = {"file": path.stem} if len(paths) > 1 else {}
                    yield replace(judgement, keys={**judgement.keys, **file_key})
            if judgement is None and len(paths) > 1:
                raise UsageError(f"{path}: no judgements in it")

    return checked(every(), " and ".join("<stdin>" if p == STDIN else str(p) for p in paths))


def _source(path: Path) -> JudgementSource | None:
    names = registered(JUDGEMENTS_GROUP)
    sources = (load_one(JUDGEMENTS_GROUP, name, JudgementSource) for name in names)
    return next((source for source in sources if source.holds(path)), None)


def _judgements(path: Path, columns: Mapping[str, str]) -> Iterator[Judgement]:
    if path == STDIN:
        yield from parsed(sys.stdin.buffer, "<stdin>", columns)
        return
    try:
        if ending(path) in TABLES or path.suffix == ".gz":
            text, strict = ending(path) in DELIMITERS, ending(path) == TABLE
            rows = checked_rows(each_record(path))
            yield from _parsed(rows, str(path), columns, text=text, strict=strict)
        elif source := _source(path):
            yield from _guarded(source.judgements(path), path)
        else:
            with regular(path).open("rb") as lines:
                yield from parsed(lines, str(path), columns)
    except DatasetError as exc:
        raise UsageError(str(exc)) from exc
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from exc


def _guarded(judgements: Iterable[Judgement], path: Path) -> Iterator[Judgement]:
    for judgement in judgements:
        try:
            for probs in filter(None, (*judgement.worlds, judgement.first)):
                check_probabilities(probs)
        except ValueError as exc:
            raise UsageError(f"{path}:{judgement.line}: {judgement.question}: {exc}") from exc
        yield judgement


def checked(every: Iterable[Judgement], file: str) -> Judgements:
    """The judgements as a table. UsageError for lines that contradict or repeat, or none."""
    try:
        table = Judgements.of(every)
    except ValueError as exc:
        how = "empty; write one JSON object a line, one line a judgement"
        raise UsageError(f"{file}: {how}") from exc
    for kind, values in (
        ("values", table.codes["labels"][:, None]),
        ("values", np.nan_to_num(table.values)),
        ("group", table.clusters(("problem",))["problem"][:, None]),
    ):
        if pair := table.contradicted(values):
            earlier, later = (_stated(table, kind, n) for n in pair)
            place, id = _place(table, file, pair[0])
            raise UsageError(
                f"{place}: {kind}: {earlier}: line {table.line[pair[1]]} has {later} for the "
                f"question {id}; a question has one"
            )
    if twice := table.repeated(("file", *TOLD_APART)):
        place, id = _place(table, file, twice[0])
        raise UsageError(
            f"{place}: id: {id}: line {table.line[twice[1]]} judges the same worlds of it already; "
            f"tell them apart by {', '.join(TOLD_APART)}, or give each question its own id"
        )
    return table


def _place(table: Judgements, file: str, n: int) -> tuple[str, str]:
    """Where a judgement stands, and the id of its question."""
    if "file" in table.codes:
        file = table.names["file"][table.codes["file"][n]]
    return f"{file}:{table.line[n]}", _shown(table.questions[table.question[n]])


def _stated(table: Judgements, kind: str, n: int) -> str:
    """The value that a line states for its question."""
    if kind == "group":
        code = table.codes["group"][n]
        return _shown(table.names["group"][code] if code >= 0 else None)
    labels = json.loads(table.names["labels"][table.codes["labels"][n]])
    return _shown(dict(zip(labels, table.values[n].tolist(), strict=False)))


def parsed(
    lines: Iterable[bytes], file: str, columns: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Judgement]:
    """The judgements of JSON Lines, with answers in the order of their labels. Blank lines are
    skipped. UsageError on the first line that is wrong."""
    rows = ((n, json_line(file, n, line)) for n, line in enumerate(lines, 1) if line.strip())
    return _parsed(rows, file, columns, strict=True)


def _parsed(
    rows: Iterable[tuple[int, Any]],
    file: str,
    columns: Mapping[str, str],
    *,
    text: bool = False,
    strict: bool = False,
) -> Iterator[Judgement]:
    """text: whether all fields are text. strict: whether keys of other names are refused; tables
    may have other columns."""
    number = 0
    try:
        for number, row in rows:
            if isinstance(row, dict):
                row = _named(row, columns, strict)
                row = _one_form(_cells(row, file, number) if text else row)
            line = VerdictLine.model_validate(row)
            labels = _labels(line)
            worlds, first = _worlds(line, labels)
            named = {name: name_of(str(getattr(line, name))) for name in KEYS}
            keys = {key: name for key, name in named.items() if name}
            keys["labels"] = json.dumps(labels)
            values = tuple(line.values[label] for label in labels)
            everywhere = line.verdict is not None
            id = line.id if isinstance(line.id, int) else name_of(line.id)
            if id == "":
                raise ValueError(f"id: {_shown(line.id)}: empty; name the question")
            yield Judgement(id, values, worlds, keys, first, everywhere, number)
    except DatasetError as exc:
        raise UsageError(str(exc)) from exc
    except ValueError as exc:
        reason = _complaint(exc) if isinstance(exc, ValidationError) else str(exc)
        raise UsageError(f"{file}:{number}: {reason}") from exc


def _named(row: dict[str, Any], columns: Mapping[str, str], strict: bool) -> dict[str, Any]:
    """The row under the keys of a line. ValueError for an unknown column or key."""
    for key, column in columns.items():
        if column not in row:
            raise ValueError(f"--column {key}={column}: unknown column{suggestion(column, row)}")
    # With `--column question=…`, a column `id` numbers the lines.
    gone = {*columns, *columns.values(), *(("id", "question") if "question" in columns else ())}
    values = {key: value for key, value in row.items() if key not in gone}
    if not strict:
        for key in values.keys() - {*SHAPES, *SINGLE}:
            if near := _misspelt(key):
                raise ValueError(f"{key}: unknown column{near}; rename it, or use --column")
            del values[key]
    values |= {key: row[column] for key, column in columns.items()}
    if strict:
        return values
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    """A field of a table: None if it is missing or marked so; 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    blank = isinstance(value, str) and (not value.strip() or is_mark(value))
    return None if blank or is_missing(value) else value


@cache
def _misspelt(column: str) -> str:
    return suggestion(column, (*SHAPES, *SINGLE), cutoff=0.8)


def _cells(row: dict[str, Any], file: str, line: int) -> dict[str, Any]:
    """A row of CSV with its numbers and JSON read."""

    def read(text: str) -> Any:
        if text.lstrip()[:1] in ("{", "["):
            return json_line(file, line, text.encode())
        return number_in(text, text)

    return {key: read(text) if text and key in CELLS else text for key, text in row.items()}


def _one_form(row: dict[str, Any]) -> dict[str, Any]:
    """The line as a `VerdictLine`, if it has a single verdict. ValueError names key and value."""
    if "question" in row:
        if "id" in row:
            raise ValueError("question: a line has an id or a question, not both")
        row = {"id": row.pop("question"), **row}
    if "p_right" in row:
        pairs = ("probs", row.pop("p_right"), "p_right"), ("first", row.get("first"), "first")
        for key, p, name in pairs:
            if p is not None and not (type(p) in (int, float) and 0 <= p <= 1):
                raise ValueError(f"{name}: {_shown(p)}: a probability lies between 0 and 1")
            row[key] = None if p is None else {"right": p, "wrong": 1 - p}
        row["values"] = {"right": 1, "wrong": -1}
        if row.get("world") == "all":
            del row["world"]
    if "probs" not in row:
        if row.keys() & {"world", "answers"}:
            raise ValueError("p_right: missing, and no probs; --column p_right=COLUMN names it")
        return row
    world = row.pop("world", None)
    if isinstance(answers := row.pop("answers", None), list):
        for key in ("values", "probs", "first"):
            if isinstance(numbers := row.get(key), list):
                if len(numbers) != len(answers):
                    raise ValueError(f"{key}: {_shown(numbers)}: one for each of {_shown(answers)}")
                row[key] = dict(zip(map(str, answers), numbers, strict=True))
    probs = row.pop("probs")
    if world in (None, "") and probs is not None:
        return row | {"verdict": probs}
    worlds = (row.get("values") or ()) if world in (None, "") else [str(world)]
    return row | {"worlds": dict.fromkeys(worlds, probs)}


def _labels(row: VerdictLine) -> tuple[str, ...]:
    """Labels of the answers, sorted. ValueError names key, value and fix."""
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
    """The verdict in each world, and the belief before. ValueError names key, value and fix."""
    if row.worlds is None and row.verdict is None:
        raise ValueError(f"worlds: missing; it is {SHAPES['worlds']}")
    if row.worlds is not None and row.verdict is not None:
        raise ValueError("verdict: a line has worlds, or one verdict for all of them, not both")
    worlds: tuple[tuple[float, ...] | None, ...]
    if row.verdict is not None:
        worlds = (_world("verdict", row.verdict, labels),) * len(labels)
    else:
        decided = row.worlds or {}
        _known_labels("worlds", decided, labels)
        if not decided:
            raise ValueError("worlds: {}: no world was run; leave the line out")
        worlds = tuple(
            _world(f"worlds.{label}", decided[label], labels) if label in decided else ()
            for label in labels
        )
    return worlds, None if row.first is None else _world("first", row.first, labels)


def _world(
    place: str, world: dict[str, float] | None, labels: tuple[str, ...]
) -> tuple[float, ...] | None:
    if world is None:
        return None
    _known_labels(place, world, labels)
    for label in labels:
        if label not in world:
            raise ValueError(f"{place}.{label}: missing; each answer in values needs a probability")
    try:
        check_probabilities(tuple(world.values()))
    except ValueError as exc:
        raise ValueError(
            f"{place}: {_shown(world)}: {exc}, or write null for a world without a verdict"
        ) from exc
    return tuple(world[label] for label in labels)


def _known_labels(place: str, content: dict[str, Any], labels: tuple[str, ...]) -> None:
    for label in content:
        if label not in labels:
            raise ValueError(
                f"{place}.{label}: {_shown(content[label])}: no such answer"
                f"{suggestion(label, labels)}; values names {', '.join(labels)}"
            )


def _complaint(error: ValidationError) -> str:
    """The first thing that is wrong with a row's types, with place, value and remedy."""
    errors = error.errors(include_url=False)
    # A key misspelt is a key missing too: the spelling is the better news.
    first = min(errors, key=lambda fault: fault["type"] != "extra_forbidden")
    value = _shown(first["input"])
    if not first["loc"]:
        return f"{value}: not a JSON object; a line has {', '.join(SHAPES)}"
    key, *inside = map(str, first["loc"])
    if first["type"] == "missing":
        return f"{key}: missing; it is {SHAPES[key]}"
    if first["type"] == "extra_forbidden":
        near = "; it is called 'repeat'" if key == "draw" else suggestion(key, SHAPES)
        return f"{key}: {value}: no such key{near}; a line has {', '.join(SHAPES)}"
    if key in ("id", *KEYS):
        # The path inside the key names the types that pydantic tried.
        return f"{key}: {value}: wrong type; {key} is {SHAPES[key]}"
    return f"{'.'.join((key, *inside))}: {value}: wrong; {key} is {SHAPES[key]}"


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:76]} …"
