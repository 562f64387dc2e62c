"""Surveys of problems: number and tokens of the calls of their cells, by model; and what the stored
replies to each kind of call tell of those to come."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
from msgspec import structs

from ....cache.call import Call, Effort, Identity, Request, store_key
from ....cache.entry import stored_reply
from ....cache.errors import DamagedEntry
from ....cache.reply import Reply
from ....cache.store import Reader
from ....protocols.prompts.render import read_instructions
from ....protocols.question import Problem
from ...analysis.scoring.inference import Floats
from ...errors import InvalidRequest, Pending
from ...providers.capabilities import abilities
from ...providers.simulated import SimulatedModel
from ...providers.wire import expected_prefix
from ...run.dry_run import Trace, Walker, stand_ins
from ...run.lanes import attempt
from ...sweep.sweep import Cell, Sweep
from ...tokens import BYTES_A_TOKEN, prompt_tokens

MIN_KNOWN_REPLIES = 12
"""Minimum number of replies to one kind of call for their statistics to be used."""

HIDDEN_SHARE: dict[Effort, float] = {
    "minimal": 0.02,
    "low": 0.1,
    "medium": 0.3,
    "high": 0.6,
    "xhigh": 0.75,
    "max": 0.9,
}
"""Assumed share of max_tokens used by hidden reasoning, before any reply is known."""

CallKind: TypeAlias = tuple[Request, str, str, bool]


@dataclass(slots=True)
class _Known:
    """Known replies of one kind, and the sums over their output tokens."""

    replies: list[Reply] = field(default_factory=list)
    total: float = 0.0
    squares: float = 0.0

    @property
    def spread(self) -> float:
        """Twice the relative standard error of the mean number of output tokens."""
        count, mean = len(self.replies), self.total / len(self.replies)
        variance = max(self.squares / count - mean * mean, 0.0)
        return 2 * math.sqrt(variance / count) / mean if mean else 0.0


@dataclass(slots=True)
class _Prompts:
    """Input tokens of one model: estimated from length, and as billed."""

    length: float = 0.0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0


class ReplyStatistics:
    """Replies, and tokens as (low, likely, high), by kind of call: model, task, side, settings."""

    MARGIN = 0.03
    """Relative error that remains even for a mean of many replies."""
    UNKNOWN_INPUT = np.array((0.85, 1.0, 1.25))
    UNKNOWN_OUTPUT = (0.6, 1.6)
    """Range of true over estimated tokens, for an estimate from length alone."""

    def __init__(self) -> None:
        self._known: defaultdict[CallKind, _Known] = defaultdict(_Known)
        self._prompts: defaultdict[str, _Prompts] = defaultdict(_Prompts)
        self.usable = False
        """Whether `MIN_KNOWN_REPLIES` of any kind are known."""

    @property
    def replies(self) -> int:
        """Number of replies observed."""
        return sum(len(kind.replies) for kind in self._known.values())

    def observe(self, call: Call, reply: Reply) -> None:
        """Add a paid reply to the statistics."""
        of_kind, output = self._known[_kind(call)], _output(reply)
        of_kind.replies.append(reply)
        self.usable |= len(of_kind.replies) >= MIN_KNOWN_REPLIES
        of_kind.total += output
        of_kind.squares += output * output
        if reply.usage.input_tokens:
            prompts = self._prompts[call.model]
            prompts.length += prompt_tokens(call)
            prompts.input += reply.usage.input_tokens
            prompts.cache_read += reply.usage.cache_read_tokens
            prompts.cache_write += reply.usage.cache_write_tokens

    def _enough(self, call: Call) -> _Known | None:
        known = self._known.get(_kind(call)) if self.usable else None
        return known if known and len(known.replies) >= MIN_KNOWN_REPLIES else None

    def reply(self, call: Call) -> Reply | None:
        """A known reply to a call of this kind; None below `MIN_KNOWN_REPLIES` of them."""
        if (statistics := self._enough(call)) is None:
            return None
        return statistics.replies[int(call.address[:8], 16) % len(statistics.replies)]

    def input(self, call: Call) -> Floats:
        """Expected input tokens of a call."""
        length, prompts = prompt_tokens(call), self._prompts.get(call.model)
        if prompts is None:
            return length * _density(call.model) * self.UNKNOWN_INPUT
        return _around(length * prompts.input / prompts.length, self.MARGIN)

    def cached(self, model: str) -> tuple[float, float] | None:
        """Shares of input tokens that the vendor's cache reads and writes; None if unknown."""
        prompts = self._prompts.get(model)
        if prompts is None:
            return None
        return prompts.cache_read / prompts.input, prompts.cache_write / prompts.input

    def output(self, call: Call, reply: Reply) -> Floats:
        """Expected output tokens of a call. reply: a known one of this kind, or a simulated one."""
        likely = _output(reply)
        if (statistics := self._enough(call)) is not None:
            return _around(likely, statistics.spread + self.MARGIN)
        low, high = self.UNKNOWN_OUTPUT
        likely = min(likely * _density(call.model), call.max_tokens)
        if hidden := _hidden(call):
            return np.array((low * likely, likely + hidden, call.max_tokens))
        return np.array((low * likely, likely, min(high * likely, call.max_tokens)))


def _around(likely: float, off: float) -> Floats:
    return likely * np.array((1 - min(off, 1.0), 1.0, 1 + off))


def _kind(call: Call) -> CallKind:
    """Facts that largely determine a reply's length: the request without its messages, the task and
    the side in them, and whether a tool has answered."""
    user_text = next((m.text for m in reversed(call.messages) if m.role == "user"), "")
    todo = read_instructions(user_text)
    answered = bool(call.messages) and call.messages[-1].role == "tool"
    shape = structs.replace(call.request, messages=())
    return shape, todo.task if todo else "", todo.side if todo else "", answered


def _output(reply: Reply) -> float:
    if reply.usage.output_tokens:
        return reply.usage.output_tokens
    return 1 + len(reply.text) / BYTES_A_TOKEN


def _density(model: str) -> float:
    """Tokens that a model's tokenizer makes of a text, relative to the usual tokenizers."""
    return BYTES_A_TOKEN / abilities(model).characters_a_token


def _hidden(call: Call) -> float:
    """Hidden reasoning tokens of a model that reasons by default."""
    able = abilities(call.model)
    # If sampling is only allowed at a stated effort, the model reasons by default.
    reasons = bool(able.efforts) and ("none" not in able.efforts or "" not in able.sampling_needs)
    return call.max_tokens * HIDDEN_SHARE.get(call.effort or ("medium" if reasons else ""), 0.0)


@dataclass(slots=True)
class Amounts:
    """The calls to one model. Tokens count only calls that are not stored yet."""

    calls: float = 0.0
    stored: float = 0.0
    input: Floats = field(default_factory=lambda: np.zeros(3))
    """(low, likely, high)"""
    output: Floats = field(default_factory=lambda: np.zeros(3))
    cache_read: float = 0.0
    """Input tokens that the vendor's prompt cache should have, where no reply tells it yet."""
    cache_write: float = 0.0
    most_output: float = 0.0
    """Sum of max_tokens, which some vendors count against the limit when a call arrives."""

    @property
    def tokens(self) -> float:
        """Likely tokens, in and out."""
        return float(self.input[1] + self.output[1])

    def add(self, other: "Amounts", times: float = 1.0) -> None:
        for amount in fields(Amounts):
            added = getattr(self, amount.name) + times * getattr(other, amount.name)
            setattr(self, amount.name, added)


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
        """identity: of the endpoint that answers a call. store: None before it exists."""
        self.habits = ReplyStatistics()
        self.cells = self.verdicts = 0
        """Number of cells walked, and of those that reached a verdict."""
        self.traces: Mapping[str, Trace] = {}
        """The traces of all rows on the problem that was walked last."""
        self._sweep = sweep
        self._store = store
        self._identity = identity
        self._sim = stand_ins(sweep, simulated)
        self._recalled: set[str] = set()
        self._begun: set[object] = set()
        """Model, tools and prefix of the calls seen so far."""
        self._learnt: dict[str, tuple[Walker, int]] = {}
        """By problem, the walks from which statistics were taken, and their verdicts."""
        self._donors: list[dict[object, Reply]] = []
        """Stored replies of each problem learnt, by their place in it."""
        self._donor: Mapping[object, Reply] = {}
        self._cell: tuple[object, ...] = ()
        self._places: Counter[object] = Counter()

    async def begun(self, problem: Problem, rows: int) -> bool:
        """Whether a problem was begun: the first call of any of about `rows` rows is stored."""
        if self._store is None:
            return False
        replies: list[Reply | None] = []

        async def first(call: Call) -> Reply:
            replies.append(self._recall(call))
            raise InvalidRequest("one call of each cell is enough to know")

        step = max(len(self._sweep.rows) // rows, 1)
        probed = replace(self._alone(problem), rows=self._sweep.rows[::step], draws=1)
        for cell in probed.cells():
            if cell.side == 0:
                await attempt(cell, first)
            if any(replies):
                return True
        return False

    async def learn(self, problem: Problem) -> None:
        """Add the stored replies of a problem to the statistics that fill in for missing ones."""
        stored: dict[object, Reply] = {}

        def answer(call: Call) -> Reply:
            place, reply = self._place(call), self._recall(call)
            if reply is None:
                return self._sim.reply(call)
            self.habits.observe(call, reply)
            stored[place] = reply
            return reply

        walker = Walker(answer, lambda call, reply: None)
        self._learnt[problem.id] = walker, await walker.walk(self._cells(problem))
        self._donors.append(stored)

    async def problem(self, problem: Problem) -> Surveyed:
        """The calls of all rows and worlds of one problem."""
        by_model: defaultdict[str, Amounts] = defaultdict(Amounts)

        def see(call: Call, reply: Reply) -> None:
            amounts = by_model[call.model]
            amounts.calls += 1
            if reply.call in self._recalled:
                amounts.stored += 1
                return
            prompt = self.habits.input(call)
            amounts.input += prompt
            if prefix := expected_prefix(call):
                characters = sum(len(message.text) for message in call.messages)
                prefix_tokens = prompt[1] * len(prefix) / characters
                first = (call.model, call.tools, prefix) not in self._begun
                amounts.cache_write += prefix_tokens * first
                amounts.cache_read += prefix_tokens * (not first)
                self._begun.add((call.model, call.tools, prefix))
            amounts.output += self.habits.output(call, reply)
            amounts.most_output += call.max_tokens

        walker, verdicts = self._learnt.pop(problem.id, (None, 0))
        if walker and (not self.habits.usable or self._recalled >= walker.seen.keys()):
            # Every reply is as it was, since the statistics fill in for none.
            for call, reply in walker.seen.values():
                see(call, reply)
        else:
            if self._donors:  # each in turn
                turn = self.cells // len(self._alone(problem))
                self._donor = self._donors[turn % len(self._donors)]
            walker = Walker(self._answer, see)
            verdicts = await walker.walk(self._cells(problem))
        self.verdicts += verdicts
        self.cells += len(self._alone(problem))
        self.traces = walker.traces
        return by_model

    async def waves(self, problem: Problem, batched: Collection[str]) -> int:
        """Number of waves of batches until every cell of a problem is done.
        batched: models whose calls go in batches; others answer at once."""
        answered: set[str] = set()
        pending: set[str] = set()

        async def ask(call: Call) -> Reply:
            reply = structs.replace(self._answer(call), call=call.address)
            is_answered = call.address in answered or call.address in self._recalled
            if call.model in batched and not is_answered:
                pending.add(call.address)
                raise Pending(call.address)
            return reply

        waiting, waves = list(self._alone(problem).cells()), 0
        while True:
            cells, waiting = waiting, []
            for cell in cells:
                self._enter(cell)
                try:
                    await attempt(cell, ask)
                except Pending:
                    waiting.append(cell)
            if not waiting:
                return waves
            answered |= pending
            waves += 1

    def _alone(self, problem: Problem) -> Sweep:
        return replace(self._sweep, problems=(problem,))

    def _cells(self, problem: Problem) -> Iterator[Cell]:
        for cell in self._alone(problem).cells():
            self._enter(cell)
            yield cell

    def _enter(self, cell: Cell) -> None:
        self._cell = cell.row.address, cell.side, cell.draw
        self._places.clear()

    def _place(self, call: Call) -> object:
        """Cell, kind and number of a call among the new ones of its kind: equal for calls with the
        same part in two problems."""
        kind = self._cell, _kind(call)
        self._places[kind] += 1
        return kind, self._places[kind]

    def _answer(self, call: Call) -> Reply:
        place, recalled = self._place(call), self._recall(call)
        if recalled or (known := self.habits.reply(call)) is None:
            return recalled or self._sim.reply(call)
        # The same place in another problem: replies drawn at random would differ where those of a
        # run are equal, and end a debate or a market at another turn.
        return self._donor.get(place, known)

    def _recall(self, call: Call) -> Reply | None:
        if self._store is None:
            return None
        key = store_key(call.address, self._identity(call))
        try:
            value = self._store.get(key)
            reply = None if value is None else stored_reply(key, value, call.address)
        except DamagedEntry:
            return None  # the run itself will name it
        if reply is not None:
            self._recalled.add(call.address)
        return reply


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
