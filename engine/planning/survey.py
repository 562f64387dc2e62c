"""Surveying problems: the calls that their cells would ask, counted and weighed model by model."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from oversight.cache.address import store_key
from oversight.cache.call import Call, Identity
from oversight.cache.errors import DamagedEntry
from oversight.cache.record import Record, records, stored_reply
from oversight.cache.reply import Reply
from oversight.cache.store import Reader
from oversight.engine.errors import InvalidRequest, Pending
from oversight.engine.planning.reply_statistics import ReplyStatistics
from oversight.engine.runs.scheduler import attempt
from oversight.engine.runs.walk import Walker, stand_ins, world_of
from oversight.engine.simulation import SimModel, SimProvider
from oversight.engine.simulation.model import PREFIX
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.question import Problem


@dataclass(slots=True)
class Amounts:
    """The calls to one model. Tokens are those of calls that are not stored yet."""

    calls: float = 0.0
    stored: float = 0.0
    input_low: float = 0.0
    input: float = 0.0
    input_high: float = 0.0
    output_low: float = 0.0
    output: float = 0.0
    output_high: float = 0.0
    most_output: float = 0.0
    """All of max_tokens, which some vendors count when a call arrives."""

    def add(self, other: "Amounts", times: float = 1.0) -> None:
        for field in fields(Amounts):
            added = getattr(self, field.name) + times * getattr(other, field.name)
            setattr(self, field.name, added)


Surveyed: TypeAlias = Mapping[str, Amounts]
"""Model -> calls about one problem."""


class Survey:
    """Walks problems of a sweep with what is stored, and with stand-ins for what is not."""

    def __init__(
        self,
        sweep: Sweep,
        simulated: Mapping[str, SimModel],
        identity: Identity,
        store: Reader | None,
    ) -> None:
        """identity: of the endpoint that answers a call. store: None if there is none yet."""
        self.habits = ReplyStatistics()
        self.cells = self.verdicts = 0
        """Cells that were walked, and those that came to a verdict."""
        self._sweep = sweep
        self._store = store
        self._identity = identity
        self._sim = SimProvider(world_of(sweep), stand_ins(sweep, simulated))
        self._recalled: set[str] = set()
        self._elsewhere: Counter[tuple[str, str]] = Counter()
        self._looked: set[str] = set()

    async def begun(self, problem: Problem, rows: int) -> bool:
        """Whether a problem was asked about before: the first call of any of so many rows is
        stored."""
        step = max(len(self._sweep.rows) // rows, 1)
        probed = replace(self._alone(problem), rows=self._sweep.rows[::step], draws=1)
        found = False

        async def first(call: Call) -> Reply:
            nonlocal found
            found = found or self._recall(call) is not None
            raise InvalidRequest("one call of each cell is enough to know")

        for cell in probed.cells() if self._store is not None else ():
            if cell.side == 0:
                await attempt(cell, first)
            if found:
                return True
        return False

    async def learn(self, problem: Problem) -> None:
        """Have the stored replies of a problem stand for those that are missing elsewhere."""

        def see(call: Call, reply: Reply) -> None:
            if reply.call in self._recalled:
                self.habits.observe(call, reply)

        await Walker(self._answer, see).walk(self._alone(problem).cells())

    async def problem(self, problem: Problem) -> Surveyed:
        """The calls of all rows and worlds of one problem."""
        found: defaultdict[str, Amounts] = defaultdict(Amounts)

        def see(call: Call, reply: Reply) -> None:
            amounts = found[call.model]
            amounts.calls += 1
            if reply.call in self._recalled:
                amounts.stored += 1
                return
            prompt, said = self.habits.input(call), self.habits.output(call, reply)
            amounts.input_low += prompt.low
            amounts.input += prompt.likely
            amounts.input_high += prompt.high
            amounts.output_low += said.low
            amounts.output += said.likely
            amounts.output_high += said.high
            amounts.most_output += call.max_tokens

        alone = self._alone(problem)
        self.verdicts += await Walker(self._answer, see).walk(alone.cells())
        self.cells += len(alone)
        return found

    async def waves(self, problem: Problem, batched: Collection[str]) -> int:
        """How many batches must come back one after the other until every cell of a problem is
        done. batched: models whose calls go in batches; others answer at once."""
        known: set[str] = set()
        noted: set[str] = set()

        async def ask(call: Call) -> Reply:
            address = call.address
            reply = replace(self._answer(call), call=address)
            if call.model in batched and address not in known and address not in self._recalled:
                noted.add(address)
                raise Pending(address)
            return reply

        cells, waves = list(self._alone(problem).cells()), 0
        while True:
            left = []
            for cell in cells:
                try:
                    await attempt(cell, ask)
                except Pending:
                    left.append(cell)
            if not left:
                return waves
            known |= noted
            cells, waves = left, waves + 1

    def _alone(self, problem: Problem) -> Sweep:
        return replace(self._sweep, problems=(problem,))

    def _answer(self, call: Call) -> Reply:
        return self._recall(call) or self.habits.reply(call) or self._sim.reply(call)

    def _recall(self, call: Call) -> Reply | None:
        if self._store is None:
            return None
        address = call.address
        key = store_key(address, self._identity(call))
        try:
            value = self._store.get(key)
            reply = None if value is None else stored_reply(key, value, address)
        except DamagedEntry:
            return None  # the run itself will name it
        if reply is not None:
            self._recalled.add(address)
        elif address not in self._looked and not call.model.startswith(PREFIX):
            self._looked.add(address)
            self._look_elsewhere(call.model, address)
        return reply

    def _look_elsewhere(self, model: str, address: str) -> None:
        """Note whose reply to the call is stored, where it is not that of the endpoint."""
        assert self._store is not None
        for _, record in records(self._store.items(f"{address}.")):
            if isinstance(record, Record):
                self._elsewhere[model, record.identity] += 1
                return

    def elsewhere(self) -> tuple["Elsewhere", ...]:
        """By model, calls that were walked and are stored under another identity only."""
        return tuple(
            Elsewhere(model, identity, calls)
            for (model, identity), calls in self._elsewhere.most_common()
        )


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Calls to a model whose replies are stored, but under the identity of another endpoint."""

    model: str
    identity: str
    calls: int


@dataclass(frozen=True, slots=True)
class Stratum:
    """Similar problems, and the surveys of some of them."""

    problems: int
    found: tuple[Surveyed, ...]

    def total(self, model: str) -> Amounts:
        """The calls to one model about all of them."""
        total = Amounts()
        for surveyed in self.found:
            if model in surveyed:
                total.add(surveyed[model], self.problems / len(self.found))
        return total

    def variance(self, model: str, weigh: Callable[[Amounts], float]) -> float:
        """Of the sum of weights over all of them, as far as some had to stand for all."""
        n, nothing = len(self.found), Amounts()
        if n == self.problems or n < 2:
            return 0.0
        weights = [weigh(surveyed.get(model, nothing)) for surveyed in self.found]
        return self.problems**2 * (1 - n / self.problems) * statistics.variance(weights) / n
