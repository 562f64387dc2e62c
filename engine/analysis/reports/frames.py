"""A run as six tables, read some problems at a time.

    rows         one a line of the report, with its axes and its figures
    cells        one a world of a problem under a row, failed and missing ones too
    turns        what was said in each world; in a failed one, up to its fault
    judgements   what the judge made of it
    calls        every distinct call with its reply (its request from a store)
    notes        notes of people on transcripts

`row, problem, world, draw` is the key of cells, turns and judgements; `call` is the key of calls.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from math import isnan
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import orjson

from ....cache.call import store_key
from ....cache.entry import read_entry
from ....cache.store import Reader
from ....protocols.question import Problem
from ....protocols.scores import SCORES, applicable
from ....protocols.transcript import Turn, Verdict
from ...models.accounting.prices import PriceList
from ...run.outcome import OutcomeRecord
from ...run.reader import RunReader
from ...run.reader_notes import read_notes
from ...run.record.values import LeftOut, RecordedCall, turns_of
from ..scoring.asd import BETAS, beta_name
from .aggregate import OutcomeTable
from .report import finding
from .results import MEASURES, Results, score_rows

Kind: TypeAlias = Literal["text", "word", "int", "float", "flag", "floats", "time", "json"]
"""Type of a column: `text` is free text, `word` has few values, `json` is JSON in a text."""


class TableColumn(NamedTuple):
    """A column of a table, as engine/data/tables.toml declares it."""

    kind: Kind
    unit: str
    """Unit or range; empty for words."""
    sentence: str


Columns: TypeAlias = Mapping[str, TableColumn]

DECLARED = tomllib.loads(files("oversight.engine").joinpath("data/tables.toml").read_text())

TABLES: Mapping[str, Columns] = {
    table: {
        name: TableColumn(*column)
        for section in sections
        for name, column in DECLARED[section].items()
    }
    for table, sections in DECLARED["tables"].items()
}
"""The columns of each table, in order."""

NOTE_FIELDS = ("id", "row", "problem", "draw", "cell", "turn", "kind", "text", "at")

FIGURES = ("accuracy", "asd", "lift")

FROM_OUTCOMES = ("rows", "cells", "notes")
"""Tables that need no store; without one the cells have no calls, tokens and dollars."""

TableLines: TypeAlias = Sequence[tuple[Any, ...]]
"""Some lines of a table; one value per column, None for a missing one."""

Lines: TypeAlias = Mapping[str, TableLines]
"""Some lines of each table, by its name."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A run that is to become tables."""

    run: RunReader
    prices: PriceList
    conversations: bool = True
    """Whether to read what was said; False for the tables of outcomes alone."""
    requests: Callable[[], AbstractContextManager[Reader | None]] | None = None
    """Opens the store that has the requests; None to leave them out."""
    score: str = "brier"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that there will be."""
        return tuple(TABLES) if self.conversations else FROM_OUTCOMES


class FrameReader:
    """Reads the tables of a run, some problems at a time. store: has the requests, if anybody."""

    def __init__(self, source: FrameSource, store: Reader | None) -> None:
        self._source, self._store, sweep = source, store, source.run.sweep
        self._axes = [
            (*row.shown_names, *astuple(replace(row.axes, seed=sweep.seed))) for row in sweep.rows
        ]
        self._table = OutcomeTable(sweep)
        for record in source.run.outcomes():
            self._table.add(record)
        self._notes = read_notes(source.run).notes
        self._judge_right = np.full(len(sweep), np.nan)
        for row in range(len(sweep.rows)):
            places = self._table.cells.places(row)
            self._judge_right[places] = self._table.counted_right(row)

    def rows(self) -> TableLines:
        return list(_rows(score_rows(self._table, self._source.score), self._axes))

    def problems(self, numbers: range) -> Lines:
        """The lines of all other tables that are of some problems, by their numbers; of calls each
        one once. RunFolderError for a run that is damaged."""
        source, sweep = self._source, self._source.run.sweep
        places = range(sweep.span(numbers[0]).start, sweep.span(numbers[-1]).stop)
        records = source.run.records(places)
        cells = source.run.cells(places) if source.conversations else {}
        ended = {at: cell for at, cell in cells.items() if not isinstance(cell.outcome, LeftOut)}
        calls = {call.address: call for cell in ended.values() for call in cell.calls}
        spent = {address: _spent(call, source.prices) for address, call in calls.items()}
        lines: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES if name != "rows"}
        for number in numbers:
            problem = sweep.problems[number]
            for place in sweep.span(number):
                at, side = source.run.where(place)
                record, end = records.get(place), ended.get(place)
                world = (at.row, problem.id, problem.question.answers[side].label, at.draw)
                took = NOTHING_SPENT
                if end and record:
                    took = of_cell([spent[call.address] for call in end.calls])
                cell = _cell(problem, side, record, self._judge_right[place])
                line = *world, source.run.name, *self._axes[at.row], *cell, *took
                lines["cells"].append(line)
                if end is None:
                    continue
                turns = turns_of(end.outcome, end.calls, problem.question)
                lines["turns"] += [(*world, n, *_turn(turn)) for n, turn in enumerate(turns)]
                if isinstance(end.outcome, Verdict):
                    lines["judgements"] += [
                        (*world, n, one.probs, one.captured, one.text, one.call or None)
                        for n, one in enumerate(end.outcome.judgements)
                    ]
        lines["calls"] = [self._call(call, spent[address]) for address, call in calls.items()]
        notes = (note for note, place in self._notes if place and place.problem in numbers)
        lines["notes"] = [tuple(getattr(note, name) for name in NOTE_FIELDS) for note in notes]
        return lines

    def _call(self, call: RecordedCall, spent: tuple[Any, ...]) -> tuple[Any, ...]:
        key = store_key(call.address, call.cost.identity)
        value = self._store.get(key) if self._store else None
        stored = read_entry(key, value) if value else None
        return (
            call.address,
            key,
            call.model,
            call.cost.served or None,
            call.outcome,
            # UTF-8 already, which is what every format writes.
            stored.call().canonical if stored and stored.call_size else None,
            call.text,
            call.reasoning or None,
            call.cost.at,
            *spent,
        )


def _cell(
    problem: Problem, side: int, record: OutcomeRecord | None, judge_right: float
) -> tuple[Any, ...]:
    """A line of the table of cells, after its key and axes, and before its calls and cost."""
    probs = record.probs if record else None
    failure = record.failure if record else None
    status = "missing" if record is None else "failed" if failure else "ok"
    scores = applicable(len(problem.values)) if probs else {}
    best = [value == max(problem.values) for value in problem.values]
    return (
        problem.group or None,
        problem.values[side],
        best[side],
        record.cell if record else None,
        status,
        failure.kind if failure else None,
        (failure.cause or None) if failure else None,
        failure.message if failure else None,
        probs,
        probs[side] if probs else None,
        sum(p for p, is_best in zip(probs, best, strict=True) if is_best) if probs else None,
        None if isnan(judge_right) else float(judge_right),
        *(scores[s](probs, side) if probs and s in scores else None for s in SCORES),
        (1.0 if record.captured is None else record.captured) if probs and record else None,
        _json(record.measures) if record else None,
        _json(record.counts) if record else None,
        _json(record.unread) if record else None,
    )


def _rows(results: Results, axes: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    plain = finding(results).parts[0].plain()
    for n, (line, result) in enumerate(zip(plain, results.rows, strict=True)):
        asd = result.samples.asd
        figures = [(m, part) for m in FIGURES for part in ENDS]
        chosen = [(m, beta_name(beta), "value") for m in MEASURES for beta in BETAS]
        paths = [("chose_right", "value"), ("captured", "truth", "value")]
        counts = ("n", "imputed", "cells", "failed", "missing", "verdict")
        yield (
            n,
            *axes[n],
            orjson.dumps(result.row.settings, default=dict).decode(),
            *(line[name] for name in counts),
            *(_at(line, path) for path in figures),
            float(asd.values.std()) if asd and asd.questions else None,
            *(_at(line, ("bounds", end)) for end in ("worst", "best")),
            *(_at(line, path) for path in (*chosen, *paths)),
            _json(result.unread),
        )


def _at(line: Any, path: Sequence[str]) -> Any:
    for name in path:
        line = line and line.get(name)
    return line


ENDS = ("value", "low", "high")

NOTHING_SPENT = (None,) * (1 + len(DECLARED["spent"]))


def _spent(call: RecordedCall, prices: PriceList) -> tuple[int, int, int, float | None]:
    """Tokens in, out and cached, dollars."""
    usage, price = call.cost.usage, prices.find(call.model)
    dollars = None if price is None else price.cost(usage)
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, dollars


def _turn(turn: Turn) -> tuple[Any, ...]:
    """A line of the table of turns, after its key and number."""
    tools = [
        {"tool": use.tool, "arguments": use.arguments, "result": use.result} for use in turn.tools
    ]
    quotes = [{"text": quote.text, "verified": quote.verified} for quote in turn.quotes]
    return (
        turn.speaker,
        turn.side.label if turn.side else None,
        turn.text,
        turn.call or None,
        turn.outcome,
        turn.cut,
        turn.conceded,
        turn.forged,
        turn.retries,
        turn.check,
        len(turn.text.split()),
        _json(tools),
        _json(quotes),
    )


def of_cell(spent: Sequence[tuple[int, int, int, float | None]]) -> tuple[Any, ...]:
    """Calls, tokens in, out and cached, dollars."""
    read = wrote = cached = 0
    dollars: float | None = 0.0
    for call in spent:
        read, wrote, cached = read + call[0], wrote + call[1], cached + call[2]
        dollars = None if dollars is None or call[3] is None else dollars + call[3]
    return len(spent), read, wrote, cached, dollars


def _json(value: Iterable[Any] | Mapping[str, Any]) -> str | None:
    return orjson.dumps(value).decode() if value else None
