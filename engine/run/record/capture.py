"""Converts the notes of a cell's `Ask` and its outcome into a record."""

import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias, get_type_hints

import orjson

from ....cache.call import Call, Exchange, Part, Request
from ....cache.reply import Reply
from ....protocols.counts import counted, unread_by_seat
from ....protocols.judges.judge import ParsedReply
from ....protocols.transcript import Failure, Verdict
from ...models.accounting.prices import PriceList, charged
from ...models.directory import Directory
from ...providers.catalogue import entry, provider_of
from ...providers.simulated import PREFIX
from ...sweep.sweep import Cell, Sweep
from .values import CallCost, LeftOut, Origin, RecordedCall, RecordedCell, RecordedJudgement

JUDGE = "judge"
"""Role of a judge's reply that the protocol itself asks for, and no layer such as best of N."""

MAX_MADE = 8192
"""Calls and beliefs that are kept, for the cells that share them: some more than one problem's."""

Placed: TypeAlias = tuple[tuple[object, ...], RecordedCall, Reply]
"""(position of a call within its cell, the call, its reply)."""


class Capture:
    """Makes rows of cells, for one run in one process."""

    def __init__(
        self, sweep: Sweep, models: Directory, prices: PriceList, new: set[str], run: str = ""
    ) -> None:
        """new: addresses of calls paid for in this process; each is removed when it is recorded.
        run: ending of the origin of each reply that this run has paid for."""
        self._sweep = sweep
        self._rows = {row.address: number for number, row in enumerate(sweep.rows)}
        self._identity = models.identity
        self._price = cache(prices.find)
        self._new = new
        self._live = models.origin
        self._sources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._run = run
        self._costs: dict[str, tuple[Reply, CallCost]] = {}
        """By address, a reply and what it cost."""
        self._calls: dict[tuple[Part, str], Placed] = {}
        """By part and address."""
        self._beliefs: dict[int, tuple[ParsedReply, RecordedJudgement]] = {}
        """By identity of a reading."""

    def cell(
        self, cell: Cell, outcome: Verdict | Failure | LeftOut, notes: Sequence[object] = ()
    ) -> RecordedCell:
        """A cell that has ended. notes: of its `RecordingAsk`."""
        for memory in (self._costs, self._calls, self._beliefs):
            if len(memory) > MAX_MADE:
                memory.clear()
        placed: list[Placed] = []
        readings: list[ParsedReply] = []
        for note in notes:
            if isinstance(note, Exchange):
                placed.append(self._asked(note.part, note.call, note.reply))
            # The verdict itself holds the judgements that it combines.
            elif isinstance(note, ParsedReply) and not _decides(note, outcome):
                readings.append(note)
        placed.sort(key=_PLACE)
        calls: dict[str, RecordedCall] = {}
        for _, call, _ in placed:
            calls.setdefault(call.address, call)
        row, problem = self._rows[cell.row.address], self._sweep.problem_at(cell.place)
        return RecordedCell(
            *(cell.place, cell.id, row, problem, cell.side, cell.draw, outcome),
            tuple(calls.values()),
            tuple(sorted(dict.fromkeys(map(self._belief, readings)), key=_ORDER_OF_BELIEFS)),
            counted(outcome) if isinstance(outcome, Verdict) else {},
            unread_by_seat(outcome) if isinstance(outcome, Verdict) else {},
        )

    def _asked(self, part: Part, call: Call, reply: Reply) -> Placed:
        address = call.address
        entry = self._calls.get((part, address))
        if entry is None or entry[2] is not reply:
            cost = self._costs.get(address)
            if cost is None or (cost[0] is not reply and cost[0].text != reply.text):
                cost = self._costs[address] = reply, self._cost(call, reply)
            recorded = RecordedCall(
                *(address, call.request.model, *part, call.draw, reply.text, reply.outcome),
                *(reply.tool_calls, cost[1], reply.reasoning, stated_settings(call.request)),
            )
            role, seat, turns = part
            # Canonical: by nothing that depends on how long a reply took. A loop of tools makes
            # longer calls, step by step.
            place = turns, role, seat, call.draw, len(call.request.messages), address
            entry = self._calls[part, address] = place, recorded, reply
        return entry

    def _cost(self, call: Call, reply: Reply) -> CallCost:
        model, usage, source = call.request.model, reply.usage, reply.origin
        price = self._price(model)
        came = self._sources.get((model, source)) or self._source(call, source)
        origin: Origin = "stored"
        at: int | None = None
        deferred = source.startswith("batch ")
        ours = deferred and bool(self._run) and source.endswith(f" {self._run}")
        if ours or call.address in self._new:
            self._new.discard(call.address)
            at = int(time.time())
            origin = _origin_of(model)
            if deferred:
                origin, price = "batch", price and price.deferred()
        return CallCost(
            *(self._identity(call), reply.served_model, reply.stop_reason, *_tokens_of(usage)),
            *(charged(usage, price), origin, at, *came),
        )

    def _source(self, call: Call, origin: str) -> tuple[str, bool]:
        """`CallCost.came` and `CallCost.elsewhere` of a reply with this origin."""
        model, entry = call.request.model, ("", False)
        if not model.startswith(PREFIX):
            # Simulated models come from nowhere.
            from ....cache.entry import source

            came, live = source(origin), self._live(call)
            entry = came, came not in (live, live.replace("live ", "batch ", 1))
        self._sources[model, origin] = entry
        return entry

    def _belief(self, reading: ParsedReply) -> RecordedJudgement:
        entry = self._beliefs.get(id(reading))
        if entry is None:
            # It is kept, so that nothing else gets its address.
            entry = self._beliefs[id(reading)] = reading, _belief(reading)
        return entry[1]


@cache
def _origin_of(model: str) -> Origin:
    """The origin of new replies of a model."""
    return "new" if model.startswith(PREFIX) else entry(provider_of(model)).origin


def stated_settings(request: Request) -> str:
    """How a model was asked, as JSON."""
    return _settings(_stated(request))


@lru_cache(1024)
def _settings(values: tuple[Any, ...]) -> str:
    """Return the settings of a request as JSON. values: of all fields but the messages."""
    pairs = zip(_STATED, values, strict=True)
    settings = {name: value for name, value in pairs if value not in (None, "", ())}
    return orjson.dumps(settings).decode()


_tokens_of = attrgetter("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_PLACE: Callable[[tuple[Any, ...]], Any] = itemgetter(0)
_STATED = [
    name
    for name in get_type_hints(Request)
    if name not in ("model", "messages", "tools", "response_format")
]
_stated = attrgetter(*_STATED)
_ORDER_OF_BELIEFS = attrgetter("heard", "role", "judge", "calls", "about", "statement", "error")


def _decides(reading: ParsedReply, outcome: Verdict | Failure | LeftOut) -> bool:
    """Whether an outcome is the verdict of a reading."""
    verdict = reading.verdict
    if verdict is None or reading.role != JUDGE or reading.case.statement:
        return False
    return verdict is outcome or (
        isinstance(outcome, Verdict)
        and verdict.probs == outcome.probs
        and [part.call for part in verdict.judgements] == [part.call for part in outcome.judgements]
    )


def _belief(reading: ParsedReply) -> RecordedJudgement:
    role, judge, case, verdict, fault = reading
    turns, judgements = case.transcript.turns, verdict.judgements if verdict else ()
    words = judgements[0].text if judgements else ""
    calls = tuple([part.call for part in judgements])
    if fault is not None and fault.call:
        calls = (fault.call,)
    captured = 1.0 if not judgements else min([part.captured for part in judgements])
    return RecordedJudgement(
        role,
        judge,
        len(turns),
        verdict.probs if verdict else (),
        turns[-1].call if turns else "",
        case.side.label if case.side else "",
        case.statement,
        captured,
        words,
        calls,
        fault.reason if fault else "",
    )
