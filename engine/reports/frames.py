"""A run as five tables: rows, cells, turns, judgements and calls, one pass over the run for all.

    rows         one a line of the report, with its axes and its figures
    cells        one a world of a problem under a row, failed and missing ones too
    turns        what was said in each world        (from the store)
    judgements   what the judge made of it          (from the store)
    calls        every distinct call with its reply (from the store)

`row, problem, world, draw` is the key of cells, turns and judgements; `call` that of calls.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from oversight.cache.reply import Usage
from oversight.cache.store import Reader
from oversight.engine.accounting.prices import PriceList
from oversight.engine.reports.replayed import Recorded, ReplayedCell, replayed_cells
from oversight.engine.reports.results import collect
from oversight.engine.runs.loaded_sweep import LoadedSweep
from oversight.engine.runs.outcome import OutcomeRecord
from oversight.engine.runs.run_folder import outcomes
from oversight.engine.sweeps.rows import Row
from oversight.engine.sweeps.sweep import Cell
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.scores import SCORES, applicable
from oversight.protocols.scoring.worlds import BETAS, beta_name
from oversight.protocols.transcript import Verdict

Kind: TypeAlias = Literal["text", "word", "int", "float", "flag", "floats", "time", "json"]
"""Of a column: free text; text of few values; …; JSON in a text."""

Columns: TypeAlias = Mapping[str, Kind]

KEY: Columns = {"row": "int", "problem": "word", "world": "word", "draw": "int"}

AXES: Columns = {
    "protocol": "word",
    "agent": "word",
    "judge": "word",
    "model": "word",
    "judge_model": "word",
    "rounds": "int",
    "simultaneous": "flag",
    "best_of": "int",
    "temperature": "float",
    "seed": "int",
}
"""What rows differ in. Empty where a protocol has no such setting."""

SPENT: Columns = {
    "tokens_in": "int",
    "tokens_out": "int",
    "tokens_cached": "int",
    "dollars": "float",
}

TABLES: Mapping[str, Columns] = MappingProxyType(
    {
        "rows": {
            "row": "int",
            **AXES,
            "settings": "json",
            "n": "int",
            "cells": "int",
            "failed": "int",
            "missing": "int",
            **{f"{m}{part}": "float" for m in ("asd", "lift") for part in ("", "_low", "_high")},
            "asd_std": "float",
            "bounds_low": "float",
            "bounds_high": "float",
            **{f"{m}_{beta_name(b)}": "float" for m in ("jse", "eas") for b in BETAS},
            "chose_right": "float",
            "captured": "float",
        },
        "cells": {
            **KEY,
            "run": "word",
            **AXES,
            "group": "word",
            "value": "float",
            "best": "flag",
            "cell": "text",
            "status": "word",
            "failure": "word",
            "message": "text",
            "probs": "floats",
            "p_side": "float",
            "p_best": "float",
            **dict.fromkeys(SCORES, "float"),
            "captured": "float",
            "measures": "json",
            "counts": "json",
            "calls": "int",
            **SPENT,
        },
        "turns": {
            **KEY,
            "turn": "int",
            "speaker": "word",
            "side": "word",
            "text": "text",
            "call": "text",
            "outcome": "word",
            "cut": "flag",
            "conceded": "flag",
            "forged": "int",
            "retries": "int",
            "check": "word",
            "words": "int",
            "tools": "json",
            "quotes": "json",
        },
        "judgements": {
            **KEY,
            "judgement": "int",
            "probs": "floats",
            "captured": "float",
            "text": "text",
            "call": "text",
        },
        "calls": {
            "call": "text",
            "key": "text",
            "model": "word",
            "served_model": "word",
            "outcome": "word",
            "request": "json",
            "reply": "text",
            "paid_at": "time",
            **SPENT,
        },
    }
)
"""The columns of each table, in order."""

FROM_OUTCOMES = ("rows", "cells")
"""Tables that need no store; without one the cells have no calls, tokens and dollars."""


class FrameRow(NamedTuple):
    """One line of a table."""

    table: str
    values: tuple[Any, ...]
    """One a column; None where there is nothing."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A run that is to become tables."""

    folder: Path
    opened: LoadedSweep
    prices: PriceList
    score: str = "brier"


async def frame_rows(source: FrameSource, store: Reader | None) -> AsyncIterator[FrameRow]:
    """Every line of all tables, those of each in its order. store: of replies; None for the tables
    of outcomes alone."""
    sweep = source.opened.sweep
    axes = [_axes(row, sweep.seed) for row in sweep.rows]
    for line in _rows(source, axes):
        yield line
    numbers = {row.address: n for n, row in enumerate(sweep.rows)}
    records = _ordered(source)
    seen: set[str] = set()
    replays = replayed_cells(source.opened, source.folder, store) if store is not None else None
    for cell in sweep.cells():
        record = records.get(cell.place)
        replayed = await anext(replays, None) if record and replays is not None else None
        row = numbers[cell.row.address]
        yield _cell(source, cell, row, axes[row], record, replayed)
        if replayed is None:
            continue
        for line in _said(cell, row, replayed):
            yield line
        for address, recorded in replayed.calls.items():
            if address not in seen:
                seen.add(address)
                yield _call(source, address, recorded)


def _ordered(source: FrameSource) -> dict[int, OutcomeRecord]:
    return {record.place: record for record in outcomes(source.folder)}


def _axes(row: Row, seed: int) -> tuple[Any, ...]:
    protocol = row.protocol
    agent = getattr(protocol, "agent", None)
    plain = agent.base_agent if isinstance(agent, Speaker) else None
    rounds = getattr(protocol, "rounds", getattr(protocol, "turns", None))
    return (
        row.kind,
        row.agent,
        row.judge,
        plain.model if plain else None,
        protocol.judge.base_agent.model,
        rounds if isinstance(rounds, int) else None,
        getattr(protocol, "simultaneous", None),
        getattr(agent, "n", 1) if plain else None,
        plain.temperature if plain else None,
        seed,
    )


def _settings(value: object) -> Any:
    """The plain settings of a protocol and its roles, as JSON takes them."""
    if isinstance(value, tuple):
        return [_settings(part) for part in value]
    if hasattr(value, "__dataclass_fields__"):
        inner = {f.name: _settings(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]
        return {"kind": type(value).__name__, **inner}
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _rows(source: FrameSource, axes: Sequence[tuple[Any, ...]]) -> Iterator[FrameRow]:
    results = collect(source.opened.sweep, outcomes(source.folder), score=source.score)
    for n, (row, result) in enumerate(zip(source.opened.sweep.rows, results.rows, strict=True)):
        figures: list[float | None] = []
        for figure in (result.asd, result.lift):
            low, high = (figure and figure.interval) or (None, None)
            figures += [figure.mean if figure else None, low, high]
        chosen = [
            measure[beta].mean if beta in measure else None
            for measure in (result.jse, result.eas)
            for beta in BETAS
        ]
        captured = result.captured and result.captured.truth
        yield FrameRow(
            "rows",
            (
                n,
                *axes[n],
                orjson.dumps(_settings(row.protocol)).decode(),
                result.n,
                result.cells,
                result.failed,
                result.missing,
                *figures,
                result.asd.std if result.asd else None,
                result.bounds.worst if result.bounds else None,
                result.bounds.best if result.bounds else None,
                *chosen,
                result.chose_right,
                captured.mean if captured else None,
            ),
        )


def _cell(
    source: FrameSource,
    cell: Cell,
    row: int,
    axes: tuple[Any, ...],
    record: OutcomeRecord | None,
    replayed: ReplayedCell | None,
) -> FrameRow:
    problem, side = cell.problem, cell.side
    probs = record.probs if record else None
    best = [value == max(problem.values) for value in problem.values]
    scores = applicable(len(problem.values))
    failure = record.failure if record else None
    status = "missing" if record is None else "failed" if failure else "ok"
    spent = _spent(source, replayed) if replayed else (None,) * (1 + len(SPENT))
    return FrameRow(
        "cells",
        (
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
        ),
    )


def _spent(source: FrameSource, replayed: ReplayedCell) -> tuple[Any, ...]:
    found = replayed.calls.values()
    if not found:
        return (0, 0, 0, 0, 0.0)
    each = [_paid(source, one.call.model, one.reply.usage) for one in found]
    read, wrote, cached = (sum(counts) for counts in zip(*(one[:3] for one in each), strict=True))
    dollars = [one[3] for one in each if one[3] is not None]
    return (len(each), read, wrote, cached, sum(dollars) if len(dollars) == len(each) else None)


def _paid(source: FrameSource, model: str, usage: Usage) -> tuple[int, int, int, float | None]:
    price = source.prices.find(model)
    dollars = None if price is None else price.cost(usage)
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, dollars


def _said(cell: Cell, row: int, replayed: ReplayedCell) -> Iterator[FrameRow]:
    if not isinstance(replayed.outcome, Verdict):
        return
    answers = cell.problem.question.answers
    key = (row, cell.problem.id, answers[cell.side].label, cell.draw)
    for n, turn in enumerate(replayed.outcome.transcript.turns):
        yield FrameRow(
            "turns",
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
            ),
        )
    for n, judgement in enumerate(replayed.outcome.judgements):
        values = (judgement.probs, judgement.captured, judgement.text, judgement.call or None)
        yield FrameRow("judgements", (*key, n, *values))


def _call(source: FrameSource, address: str, recorded: Recorded) -> FrameRow:
    reply = recorded.reply
    return FrameRow(
        "calls",
        (
            address,
            recorded.key,
            recorded.call.model,
            reply.served_model or None,
            reply.outcome,
            recorded.call.canonical.decode(),
            reply.text,
            recorded.stored_at,
            *_paid(source, recorded.call.model, reply.usage),
        ),
    )


def _json(value: Iterable[Any] | Mapping[str, Any]) -> str | None:
    return orjson.dumps(value).decode() if value else None
