"""`slots`: eight servers of 256 slots each, in virtual time: how many of their slots are busy?

What decides is real: workers, canaries, the rate limiter of one's own server, and the choice among
its replicas. Only the servers are simulated: a call takes its seconds, and longer where its first
message is not in the server's cache.
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
from oversight.engine.models.limits.limits import Limits
from oversight.engine.models.own_servers import LOAD_SECONDS
from oversight.engine.models.router import CELLS_A_SLOT, MIN_CELLS
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.replicas import Replica, Replicas
from oversight.engine.providers.settings import Settings
from oversight.engine.run.canaries import Canaries
from oversight.engine.run.lanes import run_lanes
from oversight.engine.run.order import Plain
from oversight.engine.run.scheduler import NotedOutcome
from oversight.engine.stop import StopToken
from oversight.protocols.transcript import Transcript, Verdict
from tests import virtual
from tests.world import shipments
from tools.bench.measured import Measured, at_least, at_most
from tools.bench.options import Options

SERVERS, SLOTS = 8, 256
PROBLEMS = 220
CHAINS = (1, 2, 2, 4, 4, 5, 8, 8, 12, 16)
"""Calls of a cell of each row, one after another; two worlds of a problem."""
SECONDS = 5.5
"""Of a call, on average: log-normal, as the lengths of replies are."""
PREFILL = 0.4
"""Seconds more where the server has not read the first message."""
REMEMBERED = 64
"""First messages that a server keeps."""


@dataclass(frozen=True, slots=True)
class Found:
    seconds: float
    """Virtual seconds from the first call to the last reply."""
    ideal: float
    """All work divided by all slots."""
    chain: float
    """Of the longest chain alone."""
    hits: float
    """Part of the calls whose first message was found, of those that could find it."""


class FakeServer(Provider):
    """Slots, a queue, and a memory for first messages."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(SLOTS)
        self.here = 0
        """Calls that it serves, or that wait."""
        self._known: OrderedDict[str, None] = OrderedDict()
        self.found = 0
        self.work = 0.0

    async def __call__(self, call: Call) -> Reply:
        beginning = call.messages[0].text
        self.here += 1
        async with self._slots:
            seconds = duration(call)
            if beginning in self._known:
                self.found += 1
            else:
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
    whether the servers state their load."""
    servers = SERVERS

    async def main() -> Found:
        fakes = [FakeServer() for _ in range(servers)]
        settings = Settings("vllm", "http://127.0.0.1:1/v1", "vllm")
        ways = [Replica(f"http://{n}", fake) for n, fake in enumerate(fakes)]
        replicas = Replicas(settings, ways)
        replicas.trust("vllm/m")
        limits, accounting = Limits(concurrency=concurrency), Accounting(listed())
        ask = Sender("vllm/m", replicas, limits, StopToken(), accounting, own=True, servers=servers)
        order = Canaries(
            Plain(cells()),  # type: ignore[arg-type]
            ROWS,  # type: ignore[arg-type]
            canaries=None,
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
                running = sum(min(fake.here, SLOTS) for fake in fakes)
                ask.limiter.load_stated(running, sum(fake.here for fake in fakes) - running)

        told = asyncio.create_task(telling())
        await run_lanes(order, attempt, keep, lanes=lanes, stop_token=StopToken())  # type: ignore[arg-type]
        told.cancel()
        asked = PROBLEMS * 2 * sum(CHAINS)
        longest = max(sum(map(duration, calls(cell))) for cell in cells())
        return Found(
            asyncio.get_running_loop().time(),
            sum(fake.work for fake in fakes) / (servers * SLOTS),
            longest,
            sum(fake.found for fake in fakes) / (asked - PROBLEMS),
        )

    return virtual.run(main())


def measure(options: Options) -> Measured:
    runs = {
        "servers that state nothing": simulated(),
        "servers that state their load": simulated(states=True),
        "width set by hand": simulated(concurrency=SERVERS * SLOTS),
    }
    body = tuple(
        (what, f"{found.seconds:.0f}", f"{found.ideal / found.seconds:.0%}", f"{found.hits:.0%}")
        for what, found in runs.items()
    )
    best = runs["servers that state their load"]
    title = (
        f"slots: {SERVERS} servers of {SLOTS} slots, {PROBLEMS * 2 * sum(CHAINS):,} calls; ideal "
        f"by work {best.ideal:.0f} s, longest chain {best.chain:.0f} s"
    )
    table = Table(title, ("settings", "virtual s", "slots busy", "prefixes found"), body, 1)
    goals = (
        at_most("load stated: virtual time", best.seconds, 130, " s", digits=0),
        at_least("prefixes found at 8 servers", 100 * best.hits, 70, " %"),
    )
    return Measured("slots", table, goals)
