"""A run as five tables: rows, cells, turns, judgements and calls, read some problems at a time.

    rows         one a line of the report, with its axes and its figures
    cells        one a world of a problem under a row, failed and missing ones too
    turns        what was said in each world        (from the store)
    judgements   what the judge made of it          (from the store)
    calls        every distinct call with its reply (from the store)

`row, problem, world, draw` is the key of cells, turns and judgements; `call` that of calls.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import orjson

from ...cache.errors import ReplayMiss
from ...cache.store import Reader
from ...protocols.scores import SCORES, applicable
from ...protocols.scoring.worlds import BETAS
from ...protocols.transcript import Verdict
from ..accounting.prices import PriceList
from ..runs.loaded_sweep import LoadedSweep
from ..runs.outcome import OutcomeRecord
from ..runs.outcome_index import OutcomeIndex
from ..runs.run_folder import OUTCOMES, outcomes
from ..sweeps.sweep import Cell
from .frame_tables import FROM_OUTCOMES, SPENT, TABLES
from .replayed import Recorded, ReplayedCell, replayed_cells
from .results import collect

TableLines: TypeAlias = Sequence[tuple[Any, ...]]
"""Some lines of a table; one value a column, None where there is nothing."""

Lines: TypeAlias = Mapping[str, TableLines]
"""Some lines of each table, by its name."""


WITHOUT_REPLIES = "--no-replies writes the tables of rows and cells, which need none"


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A run that is to become tables."""

    folder: Path
    opened: LoadedSweep
    prices: PriceList
    replies: Callable[[], AbstractContextManager[Reader]] | None
    """Opens the store of its replies; None for the tables of outcomes alone."""
    score: str = "brier"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that there will be."""
        return tuple(TABLES) if self.replies else FROM_OUTCOMES


class FrameReader:
    """Reads the tables of a run, some problems at a time; as a context manager it holds the store
    open."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        sweep = source.opened.sweep
        self._axes = [
            (row.kind, row.agent, row.judge, *astuple(replace(row.axes, seed=sweep.seed)))
            for row in sweep.rows
        ]
        self._numbers = {row.address: n for n, row in enumerate(sweep.rows)}
        self._outcomes = OutcomeIndex(source.folder / OUTCOMES, len(sweep))
        self._store: Reader | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._source.replies:
            self._store = self._open.enter_context(self._source.replies())
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def rows(self) -> TableLines:
        """The lines of the table of rows."""
        return list(_rows(self._source, self._axes))

    async def problems(self, numbers: range) -> Lines:
        """The lines of all other tables that are of some problems, by their numbers; of calls each
        one once. ReplayMiss where the store lacks a call of an outcome that followed from replies.
        """
        sweep, opened = self._source.opened.sweep, self._source.opened
        records = self._outcomes.records(
            range(sweep.span(numbers[0]).start, sweep.span(numbers[-1]).stop)
        )
        lines: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES if name != "rows"}
        calls: dict[str, Recorded] = {}
        spent = _Spent(self._source.prices)
        landed = (cell for n in numbers for cell in sweep.cells_of(n) if cell.place in records)
        store = self._store
        replays = None if store is None else replayed_cells(opened, landed, store)
        for cell in (cell for n in numbers for cell in sweep.cells_of(n)):
            record = records.get(cell.place)
            replayed = await anext(replays) if record and replays else None
            if record and record.from_replies and replayed and (miss := replayed.missed):
                raise ReplayMiss(miss.model, miss.address, WITHOUT_REPLIES)
            row = self._numbers[cell.row.address]
            told = spent.of_cell(replayed) if replayed else NOTHING_SPENT
            lines["cells"].append(_cell(self._source, cell, row, self._axes[row], record, told))
            if replayed is None:
                continue
            calls |= replayed.calls
            if isinstance(replayed.outcome, Verdict):
                label = cell.problem.question.answers[cell.side].label
                key = (row, cell.problem.id, label, cell.draw)
                lines["turns"] += _turns(key, replayed.outcome)
                lines["judgements"] += _judgements(key, replayed.outcome)
        lines["calls"] = [_call(address, one, spent.of_call(one)) for address, one in calls.items()]
        return lines


def _settings(value: object) -> Any:
    """The plain settings of a protocol and its roles, as JSON takes them."""
    if isinstance(value, tuple):
        return [_settings(part) for part in value]
    if hasattr(value, "__dataclass_fields__"):
        inner = {f.name: _settings(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]
        return {"kind": type(value).__name__, **inner}
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _rows(source: FrameSource, axes: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    results = collect(source.opened.sweep, outcomes(source.folder), score=source.score)
    every = zip(source.opened.sweep.rows, results.rows, results.samples, strict=True)
    for n, (row, result, samples) in enumerate(every):
        figures: list[float | None] = []
        for figure in (result.asd, result.lift):
            low, high = (figure and figure.interval) or (None, None)
            figures += [figure.value if figure else None, low, high]
        chosen = [
            measure[beta].value if beta in measure else None
            for measure in (result.jse, result.eas)
            for beta in BETAS
        ]
        captured = result.captured and result.captured.truth
        yield (
            n,
            *axes[n],
            orjson.dumps(_settings(row.protocol)).decode(),
            result.n,
            result.cells,
            result.failed,
            result.missing,
            *figures,
            samples.asd.std if samples else None,
            result.bounds.worst if result.bounds else None,
            result.bounds.best if result.bounds else None,
            *chosen,
            result.chose_right,
            captured.value if captured else None,
        )


def _cell(
    source: FrameSource,
    cell: Cell,
    row: int,
    axes: tuple[Any, ...],
    record: OutcomeRecord | None,
    spent: tuple[Any, ...],
) -> tuple[Any, ...]:
    problem, side = cell.problem, cell.side
    probs = record.probs if record else None
    best = [value == max(problem.values) for value in problem.values]
    scores = applicable(len(problem.values))
    failure = record.failure if record else None
    status = "missing" if record is None else "failed" if failure else "ok"
    return (
        row,
        problem.id,
        problem.question.answers[side].label,
        cell.draw,
        source.folder.name,
        *axes,
        problem.group or None,
        problem.values[side],
        best[side],
        cell.id,
        status,
        failure.kind if failure else None,
        failure.message if failure else None,
        probs,
        probs[side] if probs else None,
        sum(p for p, is_best in zip(probs, best, strict=True) if is_best) if probs else None,
        *(scores[s](probs, side) if probs and s in scores else None for s in SCORES),
        (1.0 if record.captured is None else record.captured) if probs and record else None,
        _json(record.measures) if record else None,
        _json(record.counts) if record else None,
        *spent,
    )


NOTHING_SPENT = (None,) * (1 + len(SPENT))


class _Spent:
    """Tokens and dollars. Rows and worlds share calls: those of each are reckoned once."""

    def __init__(self, prices: PriceList) -> None:
        self._prices = prices
        self._known: dict[str, tuple[int, int, int, float | None]] = {}

    def of_cell(self, replayed: ReplayedCell) -> tuple[Any, ...]:
        """Calls, tokens in, out and cached, dollars."""
        read = wrote = cached = 0
        dollars: float | None = 0.0
        for one in replayed.calls.values():
            each = self.of_call(one)
            read, wrote, cached = read + each[0], wrote + each[1], cached + each[2]
            dollars = None if dollars is None or each[3] is None else dollars + each[3]
        return len(replayed.calls), read, wrote, cached, dollars

    def of_call(self, one: Recorded) -> tuple[int, int, int, float | None]:
        """Tokens in, out and cached, dollars."""
        found = self._known.get(one.key)
        if found is None:
            usage, price = one.reply.usage, self._prices.find(one.call.model)
            dollars = None if price is None else price.cost(usage)
            tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
            found = self._known[one.key] = (*tokens, dollars)
        return found


def _turns(key: tuple[Any, ...], verdict: Verdict) -> list[tuple[Any, ...]]:
    return [
        (
            *key,
            n,
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
            _json(turn.tools),
            _json(turn.quotes),
        )
        for n, turn in enumerate(verdict.transcript.turns)
    ]


def _judgements(key: tuple[Any, ...], verdict: Verdict) -> list[tuple[Any, ...]]:
    return [
        (*key, n, each.probs, each.captured, each.text, each.call or None)
        for n, each in enumerate(verdict.judgements)
    ]


def _call(
    address: str, recorded: Recorded, spent: tuple[int, int, int, float | None]
) -> tuple[Any, ...]:
    reply = recorded.reply
    return (
        address,
        recorded.key,
        recorded.call.model,
        reply.served_model or None,
        reply.outcome,
        # UTF-8 already, which is what every format writes.
        recorded.call.canonical,
        reply.text,
        recorded.stored_at,
        *spent,
    )


def _json(value: Iterable[Any] | Mapping[str, Any]) -> str | None:
    return orjson.dumps(value).decode() if value else None
