"""One run in virtual time: real cache, endpoint and scheduler; all else injected from one seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from oversight.cache.cache import Cache
from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from oversight.engine.models.accounting.budget import Budget
from oversight.engine.models.accounting.ledger import Accounting, Ledger
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.sender import Sender
from oversight.engine.run.lanes import CellOutcome
from oversight.engine.run.outcome import outcome_of
from oversight.engine.stop import StopToken
from oversight.engine.sweep.sweep import Cell, Sweep, report_rows
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.question import labelled
from oversight.protocols.transcript import Failure
from tests import virtual
from tests.campaign.troubles import FaultyProvider, FaultyStore
from tests.fakes import run_cells
from tests.server import busiest
from tests.sittings import opinion

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
    return Sweep("simulated", problems, report_rows(protocols))


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
        stop_token, ledger = StopToken(), Ledger()
        provider = FaultyProvider(self.chance, self.share, self.deadly)
        budget = None if self.cap is None else Budget(self.cap)
        accounting = Accounting(listed(), budget, ledger=ledger)
        endpoint = Sender(MODEL, provider, self.limits, stop_token, accounting, self.chance.random)
        cache, saved = Cache(self.store, endpoint, identity=lambda call: "lab", clock=lambda: 0), {}

        def keep(cell: Cell, outcome: CellOutcome) -> None:
            assert cell.place not in saved, "two outcomes of one cell"
            saved[cell.place] = outcome_of(cell, outcome).line, outcome

        stop = self.chance.random() < 0.2
        running = asyncio.create_task(
            run_cells(SWEEP.cells(), cache, keep, lanes=self.lanes, stop_token=stop_token)
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
        assert stop or stop_token.halt is not None or len(saved) == len(SWEEP), "outcome lost"
        await self._compare(saved)
        await self._resume(saved)
        ends = Counter(
            outcome.kind if isinstance(outcome, Failure) else "verdict"
            for _, outcome in saved.values()
        )
        if stop_token.halt is not None:
            ends[f"halt: {type(stop_token.halt).__name__}"] += 1
        stopped = stop or stop_token.halt is not None
        return Found(len(saved), provider.requests, stopped, dict(ends))

    def _check(self, provider: FaultyProvider, ledger: Ledger, budget: Budget | None, cache: Cache):
        account = ledger.accounts()[MODEL]
        assert not provider.in_flight.total(), "a flight was left behind"
        # The ledger counts calls cancelled in flight as unconfirmed, even if no server saw them.
        cut_off = sum(count for _, kind, count in account.faults if kind == "Abandoned")
        assert 0 <= account.sent - provider.requests <= cut_off, "the ledger is wrong"
        assert account.stored == provider.answered and len(self.store) <= provider.answered
        assert self.full or len(self.store) == provider.answered == cache.statistics.new
        assert provider.most <= (self.limits.concurrency or provider.most), "too many at once"
        if self.limits.requests is not None:
            rate, times = self.limits.requests / 60, [(at, 1.0) for at in provider.at]
            for window in (1.0, 10.0, 60.0):
                assert busiest(times, window) <= rate * window + max(1.0, rate) + 1, "too fast"
        if budget is not None:
            assert budget.spent <= budget.cap + 1e-9, "more was spent than may be"
            assert budget.reserved == 0.0, "money is reserved for nobody"

    async def _compare(self, saved: dict[int, tuple[bytes, CellOutcome]]) -> None:
        """Verdicts equal the verdicts of a run without faults; failures are reported."""
        calm = await _calm()
        for place, (written, outcome) in saved.items():
            if not isinstance(outcome, Failure):
                assert written == calm[place], "another outcome than without faults"
            else:
                assert outcome.kind != "crash", outcome.message

    async def _resume(self, saved: dict[int, tuple[bytes, CellOutcome]]) -> None:
        """A later sitting finishes every cell, and asks for nothing that is stored."""
        self.store.share = 0.0
        stored = {key.partition(".")[0] for key, _ in self.store.items()}

        async def ask(call: Call) -> Reply:
            assert call.address not in stored, "a stored call was sent again"
            return opinion(call)

        todo = [cell for cell in SWEEP.cells() if cell.place not in saved]
        resumed = await _lines(todo, self.store, ask, self.lanes)
        calm = await _calm()
        assert resumed == {cell.place: calm[cell.place] for cell in todo}


async def _lines(cells: Iterable[Cell], store: MemoryStore, ask: Ask, lanes: int):
    """Outcomes, by place, of cells without faults."""
    cache, lines = Cache(store, ask, identity=lambda call: "lab", clock=lambda: 0), {}

    def keep(cell: Cell, outcome: CellOutcome) -> None:
        lines[cell.place] = outcome_of(cell, outcome).line

    await run_cells(cells, cache, keep, lanes=lanes, stop_token=StopToken())
    await cache.close()
    return lines


async def _calm() -> dict[int, bytes]:
    async def ask(call: Call) -> Reply:
        return opinion(call)

    if not _CALM:
        _CALM.update(await _lines(SWEEP.cells(), MemoryStore(), ask, 4))
    return _CALM


_CALM: dict[int, bytes] = {}
