"""What a cell asked and came to, as a row of the record: taken from the notes of its `Ask`."""

import time
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ....cache.call import Call, Identity, Part
from ....cache.reply import Reply
from ....cache.stats import source
from ....protocols.judges.judge import Reading
from ....protocols.transcript import Failure, Verdict
from ...models.accounting.prices import Price, PriceList, charged
from ...providers.simulated import PREFIX
from ...sweep.sweep import Cell, Sweep
from .values import CallCost, NotRun, Origin, RecordedCall, RecordedCell, RecordedJudgement

PERSON = "person/"
"""Prefix of the names of models that are people."""

JUDGE = "judge"
"""Role of a judge's reply that the protocol itself asks for, and no layer such as best of N."""

NOTHING: Container[str] = frozenset()
Noted: TypeAlias = tuple[Part, Call, Reply]


class Capture:
    """Makes rows of cells, for one run in one process."""

    def __init__(
        self,
        sweep: Sweep,
        identity: Identity,
        prices: PriceList,
        new: set[str],
        *,
        live: Callable[[Call], str] = lambda call: "",
        run: str = "",
        stored_at: Callable[[Call], int | None] = lambda call: None,
    ) -> None:
        """identity: of the endpoint that answers a call. new: addresses of calls that were paid for
        in this process; each is taken out when it is recorded. live: the origin of a call that
        the run itself asks, as `Reply.origin` has it. run: what the origin of a reply ends with
        that this run has paid for. stored_at: when a reply that is not new was stored, in seconds
        since 1970."""
        self._sweep = sweep
        self._rows = {row.address: number for number, row in enumerate(sweep.rows)}
        self._identity = identity
        self._prices = prices
        self._price: dict[str, Price | None] = {}
        self._new = new
        self._live = live
        self._sources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._run = run
        self._stored_at = stored_at

    def cell(
        self, cell: Cell, outcome: Verdict | Failure | NotRun, notes: Sequence[Any] = ()
    ) -> "CapturedCell":
        """A cell that has ended. notes: of its `RecordingAsk`."""
        return CapturedCell(
            self,
            cell.place,
            cell.id,
            self._rows[cell.row.address],
            self._sweep.problem_at(cell.place),
            cell.side,
            cell.draw,
            outcome,
            notes,
        )

    def call(self, noted: Noted, known: Container[str]) -> RecordedCall:
        """A call of a cell; of one that is `known` by its address, no more than its part in the
        cell."""
        part, call, reply = noted
        about = (call.address, call.request.model, *part, call.draw)
        if call.address in known:
            return RecordedCall(*about)
        return RecordedCall(
            *about,
            reply.text,
            reply.outcome,
            reply.tool_calls,
            self._cost(call, reply),
            reply.reasoning,
        )

    def _cost(self, call: Call, reply: Reply) -> CallCost:
        model, usage = call.request.model, reply.usage
        if model not in self._price:
            self._price[model] = self._prices.find(model)
        price = self._price[model]
        origin: Origin = "stored"
        batch = reply.origin.startswith("batch ")
        ours = batch and bool(self._run) and reply.origin.endswith(f" {self._run}")
        if ours or call.address in self._new:
            self._new.discard(call.address)
            at: int | None = int(time.time())
            origin = "person" if model.startswith(PERSON) else "new"
            if batch:
                origin, price = "batch", price and price.batched()
        else:
            at = self._stored_at(call)
        return CallCost(
            self._identity(call),
            reply.served_model,
            reply.stop_reason,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            charged(usage, price),
            origin,
            at,
            *self._source(call, reply.origin),
        )

    def _source(self, call: Call, origin: str) -> tuple[str, bool]:
        """`CallCost.came` and `CallCost.elsewhere` of a reply with this origin."""
        model = call.request.model
        if model.startswith(PREFIX):
            return "", False
        known = self._sources.get((model, origin))
        if known is None:
            came, here = source(origin), self._live(call)
            elsewhere = came not in (here, here.replace("live ", "batch ", 1))
            known = self._sources[model, origin] = came, elsewhere
        return known


class CapturedCell(Struct, frozen=True):
    """A cell that has ended, with what its `Ask` noted; its row is made where it is written."""

    capture: Capture
    place: int
    id: str
    row: int
    problem: int
    side: int
    draw: int
    outcome: Verdict | Failure | NotRun
    notes: Sequence[Any] = ()
    """Notes of the cell's `RecordingAsk`."""

    def recorded(self, known: Container[str] = NOTHING) -> RecordedCell:
        """The row of the cell. known: addresses of calls that are recorded of its problem."""
        asked: dict[str, Noted] = {}
        for each in sorted([each for each in self.notes if type(each) is tuple], key=_order):
            asked.setdefault(each[1].address, each)
        return RecordedCell(
            self.place,
            self.id,
            self.row,
            self.problem,
            self.side,
            self.draw,
            self.outcome,
            tuple([self.capture.call(each, known) for each in asked.values()]),
            self._judgements(),
        )

    def _judgements(self) -> tuple[RecordedJudgement, ...]:
        """What judges believed before the verdict, each belief once."""
        readings = [each for each in self.notes if type(each) is Reading]
        if isinstance(self.outcome, Verdict):
            end = self.outcome
            calls = [each.call for each in end.judgements]
            # What the verdict is made of stands in the verdict.
            readings = [
                each
                for each in readings
                if each.verdict is None
                or each.role != JUDGE
                or each.case.statement
                or each.verdict.probs != end.probs
                or [part.call for part in each.verdict.judgements] != calls
            ]
        return tuple(sorted({_belief(each) for each in readings}, key=_order_of_beliefs))


def _order(noted: Noted) -> tuple[object, ...]:
    """Canonical: by nothing that depends on how long a reply took."""
    (role, seat, heard), call, _ = noted
    # A loop of tools makes longer calls, step by step.
    return heard, role, seat, call.draw, len(call.request.messages), call.address


def _order_of_beliefs(each: RecordedJudgement) -> tuple[object, ...]:
    return each.heard, each.role, each.judge, each.calls, each.about, each.statement, each.error


def _belief(each: Reading) -> RecordedJudgement:
    role, judge, case, verdict, fault = each
    turns, said = case.transcript.turns, verdict.judgements if verdict else ()
    words = said[0].text if said else ""
    calls = tuple([part.call for part in said])
    if fault is not None and fault.call:
        calls = (fault.call,)
    captured = 1.0 if not said else min([part.captured for part in said])
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
