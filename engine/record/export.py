"""A record as JSON Lines, in the sweep's order: what was said, and apart from it what it took.

What was said is equal to the byte for two runs of one sweep, in whatever order their cells landed;
what it took (tokens, dollars, times, where replies came from) need not be.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from ...protocols.transcript import Failure, Verdict
from .tables import RecordTables
from .values import NotRun, RecordedCall, RecordedCell


def what_was_said(record: RecordTables) -> Iterator[bytes]:
    """Problems, rows, and then cells, each after the conversation, judgements and calls that no
    cell before it has. Things are numbered from 0, each kind by itself. RunFolderError."""
    for problem in record.problems:
        yield _line("problem", {"digest": problem.digest, **msgspec.to_builtins(problem.problem)})
    for row in record.rows:
        yield _line("row", row)
    numbers: dict[str, dict[object, int]] = {"call": {}, "conversation": {}, "judgement": {}}

    def number(kind: str, key: object, value: object) -> Iterator[bytes]:
        known = numbers[kind]
        if key not in known:
            known[key] = len(known)
            yield _line(kind, value)

    for cell in record.cells():
        for call in cell.calls:
            yield from number("call", call.address, _said(call))
        end, told = cell.outcome, _head(cell)
        if isinstance(end, Verdict):
            turns = end.transcript.turns
            if turns:
                key = (cell.problem, cell.draw, turns)
                yield from number("conversation", key, {"problem": cell.problem, "turns": turns})
                told["conversation"] = numbers["conversation"][key]
            told["probs"], told["made_of"] = end.probs, end.judgements
            told["measures"], told["redraws"] = dict(end.measures), end.redraws
            told["bounds"], told["doubts"] = end.bounds, end.doubts
        elif isinstance(end, Failure):
            told["failure"] = end
        elif isinstance(end, NotRun):
            told["not_run"] = end.reason
        for each in cell.judgements:
            yield from number("judgement", (cell.problem, each), each)
        told["judgements"] = [numbers["judgement"][cell.problem, each] for each in cell.judgements]
        told["calls"] = [
            [numbers["call"][call.address], call.role, call.seat, call.heard] for call in cell.calls
        ]
        yield _line("cell", told)


def what_it_took(record: RecordTables) -> Iterator[bytes]:
    """What each call took, in the order in which `what_was_said` has them. RunFolderError."""
    seen = set[str]()
    for cell in record.cells():
        for call in cell.calls:
            if call.address not in seen:
                seen.add(call.address)
                yield _line("call", {"address": call.address, "cost": call.cost})


def _head(cell: RecordedCell) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: getattr(cell, name) for name in ("place", "id", "row", "problem", "side", "draw")
    }
    told |= {name: getattr(cell, name) for name in ("rewards", "why") if getattr(cell, name)}
    return told if cell.included is None else {**told, "included": cell.included}


def _said(call: RecordedCall) -> dict[str, object]:
    """A call without the part that one cell gave it, and without what it took."""
    told: dict[str, object] = {"address": call.address, "model": call.model, "text": call.text}
    told |= {"draw": call.draw} if call.draw else {}
    told |= {"outcome": call.outcome} if call.outcome != "ok" else {}
    return {**told, "tool_calls": call.tool_calls} if call.tool_calls else told


def _line(kind: str, value: object) -> bytes:
    return orjson.dumps({kind: value}, option=orjson.OPT_APPEND_NEWLINE)
