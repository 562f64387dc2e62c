"""One run in virtual time: real cache, endpoint and scheduler; all else injected from one seed."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

from cache.address import call_address
from cache.cached import Cache
from cache.call import Call
from cache.reply import Reply
from cache.store import MemoryStore
from engine.books.budget import Budget
from engine.books.ledger import Ledger
from engine.books.prices import listed
from engine.limits.endpoint import Books, Endpoint
from engine.limits.latch import Latch
from engine.limits.limits import Limits
from engine.runs.outcome import line
from engine.runs.scheduler import Outcome, run_cells
from engine.sweeps.rows import rows
from engine.sweeps.sweep import Cell, Sweep
from protocols.agents import Agent
from protocols.baselines import NaiveJudge, Propaganda
from protocols.debate import Debate
from protocols.judges.stated import StatedJudge
from protocols.question import labelled
from protocols.transcript import Failure
from tests import virtual
from tests.campaign.troubles import FaultyProvider, FaultyStore
from tests.campaign.vendor import opinion
from tests.server import busiest

MODEL = "openai/gpt-4o"
LONGEST = 3 * 86_400.0
"""Virtual seconds after which a run counts as stuck: far beyond every retry, pause and probe."""


def sweep() -> Sweep:
    judge, agent = StatedJudge(MODEL), Agent(MODEL)
    problems = tuple(
        labelled(f"p{n}", f"How many in {n}?", [(f"{n}", "", 1.0), (f"{n + 1}", "", -1.0)])
        for n in range(5)
    )
    protocols = (NaiveJudge(judge), Propaganda(judge, agent), Debate(judge, agent, rounds=1))
    return Sweep("simulated", problems, rows(protocols))


SWEEP = sweep()


@dataclass(frozen=True)
class Found:
    finished: int
    requests: int
    stopped: bool
    ends: dict[str, int]


class Simulation:
    """A sweep under all faults; then, without faults, what it left undone, from the same store."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.share = self.chance.choice((0.0, 0.05, 0.3, 0.6))
        self.deadly = self.chance.choice((0.0, 0.0, 0.02))
        self.limits = Limits(
            requests=self.chance.choice((None, 60.0, 600.0)),
            tokens=self.chance.choice((None, 200_000.0)),
            concurrency=self.chance.choice((1, 4, 16)),
        )
        self.lanes = self.chance.choice((1, 5, 40))
        self.cap = self.chance.choice((None, None, 0.01, 1.0))
        self.full = self.chance.choice((0.0, 0.0, 0.05))
        self.store = FaultyStore(self.chance, self.full)

    def run(self) -> Found:
        return virtual.run(self._bounded())

    async def _bounded(self) -> Found:
        async with asyncio.timeout(LONGEST):
            return await self._run()

    async def _run(self) -> Found:
        latch, ledger = Latch(), Ledger()
        provider = FaultyProvider(self.chance, self.share, self.deadly)
        budget = None if self.cap is None else Budget(self.cap)
        books = Books(ledger, listed(), budget)
        endpoint = Endpoint(MODEL, provider, self.limits, latch, books, self.chance.random)
        cache = Cache(self.store, endpoint, identity=lambda call: "lab", clock=lambda: 0)
        kept: dict[int, tuple[bytes, Outcome]] = {}

        def keep(cell: Cell, outcome: Outcome) -> None:
            assert cell.place not in kept, "two outcomes of one cell"
            kept[cell.place] = line(cell, outcome), outcome

        stop = self.chance.random() < 0.2
        running = asyncio.create_task(
            run_cells(SWEEP.cells(), cache, keep, lanes=self.lanes, latch=latch)
        )
        if stop:
            # Cancelled at any moment, as by a second signal.
            await asyncio.wait([running], timeout=self.chance.uniform(0, 100))
            running.cancel()
        await asyncio.wait([running])
        await (cache.abandon() if stop else cache.close())
        if not running.cancelled() and (fault := running.exception()):
            raise fault
        self._check(provider, ledger, budget, cache)
        assert stop or latch.halt is not None or len(kept) == len(SWEEP), "an outcome was lost"
        await self._compare(kept)
        await self._resume(kept)
        ends = Counter(
            outcome.kind if isinstance(outcome, Failure) else "verdict"
            for _, outcome in kept.values()
        )
        if latch.halt is not None:
            ends[f"halt: {type(latch.halt).__name__}"] += 1
        stopped = stop or latch.halt is not None
        return Found(len(kept), provider.requests, stopped, dict(ends))

    def _check(
        self, provider: FaultyProvider, ledger: Ledger, budget: Budget | None, cache: Cache
    ) -> None:
        account = ledger.account(MODEL)
        assert not provider.in_flight.total(), "a flight was left behind"
        # What is cancelled in flight the ledger calls ambiguous, also where nobody was there.
        cut_off = sum(count for _, kind, count in account.faults if kind == "Abandoned")
        assert 0 <= account.sent - provider.requests <= cut_off, "the ledger is wrong"
        assert account.stored == provider.answered
        assert len(self.store) <= provider.answered
        assert self.full or len(self.store) == provider.answered == cache.statistics.new
        assert provider.most <= (self.limits.concurrency or provider.most), "too many at once"
        if self.limits.requests is not None:
            rate = self.limits.requests / 60
            times = [(at, 1.0) for at in provider.at]
            for window in (1.0, 10.0, 60.0):
                assert busiest(times, window) <= rate * window + max(1.0, rate) + 1, "too fast"
        if budget is not None:
            assert budget.spent <= budget.cap + 1e-9, "more was spent than may be"
            assert budget.reserved == 0.0, "money is reserved for nobody"

    async def _compare(self, kept: dict[int, tuple[bytes, Outcome]]) -> None:
        """Cells that have a verdict have that of a run without faults; failures are told."""
        calm = await _calm()
        for place, (written, outcome) in kept.items():
            if not isinstance(outcome, Failure):
                assert written == calm[place], "another outcome than without faults"
            else:
                assert outcome.kind != "crash", outcome.message

    async def _resume(self, kept: dict[int, tuple[bytes, Outcome]]) -> None:
        """A later sitting finishes every cell, and asks for nothing that is stored."""
        self.store.share = 0.0
        stored = {key.partition(".")[0] for key in self.store.walk()}

        async def ask(call: Call) -> Reply:
            assert call_address(call) not in stored, "a stored call was sent again"
            return opinion(call)

        cache = Cache(self.store, ask, identity=lambda call: "lab", clock=lambda: 0)
        todo = [cell for cell in SWEEP.cells() if cell.place not in kept]
        rest: dict[int, bytes] = {}
        await run_cells(
            todo,
            cache,
            lambda cell, outcome: rest.update({cell.place: line(cell, outcome)}),
            lanes=self.lanes,
            latch=Latch(),
        )
        await cache.close()
        calm = await _calm()
        assert rest == {cell.place: calm[cell.place] for cell in todo}


async def _calm() -> dict[int, bytes]:
    if not _CALM:

        async def ask(call: Call) -> Reply:
            return opinion(call)

        cache = Cache(MemoryStore(), ask, identity=lambda call: "lab")
        await run_cells(
            SWEEP.cells(),
            cache,
            lambda cell, outcome: _CALM.update({cell.place: line(cell, outcome)}),
            lanes=4,
            latch=Latch(),
        )
        await cache.close()
    return _CALM


_CALM: dict[int, bytes] = {}
