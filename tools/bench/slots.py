"""`slots`: a server of 2,048 slots, in virtual time: how many of them are busy?

Workers, first cells and the rate limiter of a self-hosted server are real. Only the server is
simulated: a call takes its seconds, and longer if its first message is not in the server's cache.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Reply, Usage
from oversight.engine.display.table import Table
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.directory import CELLS_A_SLOT, MIN_CELLS
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.self_hosted import LOAD_SECONDS
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.providers.provider import Provider
from oversight.engine.run.lanes import NotedOutcome, run_lanes
from oversight.engine.run.schedule import InOrder, StagedStart
from oversight.engine.stop import StopToken
from oversight.protocols.transcript import Transcript, Verdict
from tests import virtual
from tests.world import shipments
from tools.bench.measured import Measured, at_most
from tools.bench.options import Options

SLOTS = 2_048
PROBLEMS = 220
CHAINS = (1, 2, 2, 4, 4, 5, 8, 8, 12, 16)
"""Calls of a cell of each row, one after another; two worlds of a problem."""
SECONDS = 5.5
"""Of a call, on average: log-normal, as the lengths of replies are."""
PREFILL = 0.4
"""Seconds more where the server has not read the first message."""
REMEMBERED = 512
"""First messages that the server keeps."""


@dataclass(frozen=True, slots=True)
class Found:
    seconds: float
    """Virtual seconds from the first call to the last reply."""
    ideal: float
    """All work divided by all slots."""
    chain: float
    """Of the longest chain alone."""


class FakeServer(Provider):
    """Slots, a queue, and a memory for first messages."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(SLOTS)
        self.here = 0
        """Calls that it serves, or that wait."""
        self._known: OrderedDict[str, None] = OrderedDict()
        self.work = 0.0

    async def __call__(self, call: Call) -> Reply:
        beginning = call.messages[0].text
        self.here += 1
        async with self._slots:
            seconds = duration(call)
            if beginning not in self._known:
                seconds += PREFILL
            self._known[beginning] = None
            self._known.move_to_end(beginning)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            self.work += seconds
            await asyncio.sleep(seconds)
        self.here -= 1
        return Reply("fine", usage=Usage(100, 100))

    async def close(self) -> None:
        """Nothing to release."""


def duration(call: Call) -> float:
    draw = random.Random(call.address)
    return SECONDS * draw.lognormvariate(-0.08, 0.4)


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    chain: int
    agent: str = ""
    judge: str = ""

    @property
    def address(self) -> str:
        return self.kind


ROWS = [Row(f"row {n}", chain) for n, chain in enumerate(CHAINS)]


@dataclass(frozen=True, slots=True)
class Cell:
    place: int
    row: Row
    problem: int


def cells() -> Iterator[Cell]:
    every = ((problem, row) for problem in range(PROBLEMS) for row in ROWS for _ in range(2))
    return (Cell(place, row, problem) for place, (problem, row) in enumerate(every))


def calls(cell: Cell) -> Iterator[Call]:
    beginning = Message("system", f"problem {cell.problem}")
    for n in range(cell.row.chain):
        yield Call(Request("vllm/m", (beginning, Message("user", f"{cell.place}:{n}"))))


def simulated(*, concurrency: int | None = None, states: bool = False) -> Found:
    """One run at the defaults. concurrency: as the sweep file sets it; None: unknown. states:
    whether the server states its load."""

    async def main() -> Found:
        fake = FakeServer()
        limits, accounting = Limits(concurrency=concurrency), Accounting(listed())
        ask = Sender("vllm/m", fake, limits, StopToken(), accounting, own=True)
        schedule = StagedStart(
            InOrder(cells()),  # type: ignore[arg-type]
            ROWS,  # type: ignore[arg-type]
            first_cells=None,
            total=PROBLEMS * 2 * len(ROWS),
            steps={row.address: row.chain for row in ROWS},
        )
        end = NotedOutcome(Verdict((0.5, 0.5), Transcript(shipments(1)[0].question)), [])

        async def attempt(cell: Cell) -> NotedOutcome:
            for call in calls(cell):
                await ask(call)
            return end

        def keep(cell: Cell, end: NotedOutcome) -> None:
            """Nothing is written."""

        def lanes() -> int:
            return max(MIN_CELLS, int(CELLS_A_SLOT * (concurrency or ask.limiter.unknown_width)))

        async def telling() -> None:
            while states:
                await asyncio.sleep(LOAD_SECONDS)
                running = min(fake.here, SLOTS)
                ask.limiter.load_stated(running, fake.here - running)

        told = asyncio.create_task(telling())
        await run_lanes(schedule, attempt, keep, lanes=lanes, stop_token=StopToken())  # type: ignore[arg-type]
        told.cancel()
        longest = max(sum(map(duration, calls(cell))) for cell in cells())
        return Found(
            asyncio.get_running_loop().time(),
            fake.work / SLOTS,
            longest,
        )

    return virtual.run(main())


def measure(options: Options) -> Measured:
    runs = {
        "a server that states nothing": simulated(),
        "one that states its load": simulated(states=True),
        "width set by hand": simulated(concurrency=SLOTS),
    }
    body = tuple(
        (what, f"{found.seconds:.0f}", f"{found.ideal / found.seconds:.0%}")
        for what, found in runs.items()
    )
    best = runs["one that states its load"]
    title = (
        f"slots: a server of {SLOTS:,} slots, {PROBLEMS * 2 * sum(CHAINS):,} calls; ideal by work "
        f"{best.ideal:.0f} s, longest chain {best.chain:.0f} s"
    )
    table = Table(title, ("settings", "virtual s", "slots busy"), body, 1)
    silent = runs["a server that states nothing"]
    goals = (
        at_most("load stated: virtual time", best.seconds, 130, " s", digits=0),
        at_most("nothing stated: virtual time", silent.seconds, 195, " s", digits=0),
    )
    return Measured("slots", table, goals)
