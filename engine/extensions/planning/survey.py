"""Surveys of problems: number and tokens of the calls of their cells, by model."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from msgspec import structs

from ....cache.address import store_key
from ....cache.call import Call, Identity
from ....cache.errors import DamagedEntry
from ....cache.record import Record, records, stored_reply
from ....cache.reply import Reply
from ....cache.store import Reader
from ....protocols.question import Problem
from ...errors import InvalidRequest, Pending
from ...providers.prompt_cache import expected_prefix
from ...providers.simulated import PREFIX, SimulatedModel
from ...run.dry_run import Walker, stand_ins
from ...run.scheduler import attempt
from ...sweep.sweep import Sweep
from .reply_statistics import ReplyStatistics


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
    cache_read: float = 0.0
    """Input tokens that the vendor's prompt cache should have, where no reply tells it yet."""
    cache_write: float = 0.0
    most_output: float = 0.0
    """Sum of max_tokens, which some vendors count against the limit when a call arrives."""

    def add(self, other: "Amounts", times: float = 1.0) -> None:
        for field in fields(Amounts):
            added = getattr(self, field.name) + times * getattr(other, field.name)
            setattr(self, field.name, added)


Surveyed: TypeAlias = Mapping[str, Amounts]
"""Model -> amounts of its calls about one problem."""


class Survey:
    """Walks problems of a sweep with stored replies, and with stand-ins for missing ones."""

    def __init__(
        self,
        sweep: Sweep,
        simulated: Mapping[str, SimulatedModel],
        identity: Identity,
        store: Reader | None,
    ) -> None:
        """identity: of the endpoint that answers a call. store: None if there is none yet."""
        self.habits = ReplyStatistics()
        self.cells = self.verdicts = 0
        """Number of cells walked, and of those that reached a verdict."""
        self._sweep = sweep
        self._store = store
        self._identity = identity
        self._sim = stand_ins(sweep, simulated)
        self._recalled: set[str] = set()
        self._elsewhere: Counter[tuple[str, str]] = Counter()
        self._looked: set[str] = set()
        self._begun: set[object] = set()
        """Model, tools and prefix of the calls seen so far."""

    async def begun(self, problem: Problem, rows: int) -> bool:
        """Whether a problem was begun: the first call of any of about `rows` rows is stored."""
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
        """Add the stored replies of a problem to the statistics that fill in for missing ones."""

        def see(call: Call, reply: Reply) -> None:
            if reply.call in self._recalled:
                self.habits.observe(call, reply)

        await Walker(self._answer, see).walk(self._alone(problem).cells())

    async def problem(self, problem: Problem) -> Surveyed:
        """The calls of all rows and worlds of one problem."""
        by_model: defaultdict[str, Amounts] = defaultdict(Amounts)

        def see(call: Call, reply: Reply) -> None:
            amounts = by_model[call.model]
            amounts.calls += 1
            if reply.call in self._recalled:
                amounts.stored += 1
                return
            prompt, said = self.habits.input(call), self.habits.output(call, reply)
            amounts.input_low += prompt.low
            amounts.input += prompt.likely
            amounts.input_high += prompt.high
            if prefix := expected_prefix(call):
                kept = prompt.likely * len(prefix) / sum(len(each.text) for each in call.messages)
                first = (call.model, call.tools, prefix) not in self._begun
                amounts.cache_write += kept * first
                amounts.cache_read += kept * (not first)
                self._begun.add((call.model, call.tools, prefix))
            amounts.output_low += said.low
            amounts.output += said.likely
            amounts.output_high += said.high
            amounts.most_output += call.max_tokens

        alone = self._alone(problem)
        self.verdicts += await Walker(self._answer, see).walk(alone.cells())
        self.cells += len(alone)
        return by_model

    async def waves(self, problem: Problem, batched: Collection[str]) -> int:
        """Number of waves of batches until every cell of a problem is done.
        batched: models whose calls go in batches; others answer at once."""
        answered: set[str] = set()
        pending: set[str] = set()

        async def ask(call: Call) -> Reply:
            address = call.address
            reply = structs.replace(self._answer(call), call=address)
            if call.model in batched and address not in answered and address not in self._recalled:
                pending.add(address)
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
            answered |= pending
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
        """Count a call whose only stored reply has another identity than that of its endpoint."""
        assert self._store is not None
        for _, record in records(self._store.items(f"{address}.")):
            if isinstance(record, Record):
                self._elsewhere[model, record.identity] += 1
                return

    def elsewhere(self) -> tuple["OtherIdentity", ...]:
        """Walked calls that are stored only under another identity, by model and identity."""
        return tuple(
            OtherIdentity(model, identity, calls)
            for (model, identity), calls in self._elsewhere.most_common()
        )


@dataclass(frozen=True, slots=True)
class OtherIdentity:
    """Calls to a model whose replies are stored, but under the identity of another endpoint."""

    model: str
    identity: str
    calls: int


@dataclass(frozen=True, slots=True)
class Stratum:
    """A group of similar problems, with surveys of a sample of them."""

    problems: int
    found: tuple[Surveyed, ...]

    def total(self, model: str) -> Amounts:
        """Amounts of one model's calls over all problems of the group."""
        total = Amounts()
        for surveyed in self.found:
            if model in surveyed:
                total.add(surveyed[model], self.problems / len(self.found))
        return total

    def variance(self, model: str, weigh: Callable[[Amounts], float]) -> float:
        """Sampling variance of the sum of weights over all problems of the group."""
        n, nothing = len(self.found), Amounts()
        if n == self.problems or n < 2:
            return 0.0
        weights = [weigh(surveyed.get(model, nothing)) for surveyed in self.found]
        return self.problems**2 * (1 - n / self.problems) * statistics.variance(weights) / n
