"""A model server in virtual time: an `Ask` that keeps a book of all that reached it."""

import asyncio
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oversight.cache.call import Ask, Call, Message, Request
from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import Unreachable
from oversight.engine.models.accounting.budget import Budget
from oversight.engine.models.accounting.ledger import Ledger
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.breaker import GIVE_UP
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.limits.concurrency import Connections
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.stop import StopToken
from tests.virtual import now


@dataclass(frozen=True)
class Arrival:
    """One request as the server saw it."""

    at: float
    """Loop time (s) at which it arrived."""
    call: Call
    input_tokens: int
    output_tokens: int


class Server:
    """Answers after `latency` seconds; `fault` may make it raise.

    fault: called with the request as it arrives; its result is raised after the latency (None: the
    call is answered). An Unreachable is not recorded in the book."""

    def __init__(
        self,
        latency: float = 1.0,
        fault: Callable[[Arrival], Exception | None] = lambda request: None,
        tokens: Callable[[Call], tuple[int, int]] = lambda call: (100, 10),
    ) -> None:
        self.latency = latency
        self.fault = fault
        self.tokens = tokens
        self.book: list[Arrival] = []
        self.answered: list[float] = []
        """Loop times (s) at which replies went out."""
        self.in_flight = 0
        self.most_in_flight = 0

    async def __call__(self, call: Call) -> Reply:
        request = Arrival(now(), call, *self.tokens(call))
        fault = self.fault(request)
        if not isinstance(fault, Unreachable):
            self.book.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.in_flight -= 1
        if fault is not None:
            raise fault
        self.answered.append(now())
        return Reply("yes", usage=Usage(request.input_tokens, request.output_tokens))


def sender(
    server: Ask,
    limits: Limits | None = None,
    jitter: Callable[[], float] = random.random,
    *,
    model: str = "sim/m",
    ledger: Ledger | None = None,
    stop_token: StopToken | None = None,
    budget: Budget | None = None,
    own: bool = False,
    connections: Connections | None = None,
    give_up: float = GIVE_UP,
) -> Sender:
    """The server under limits, retries, a budget and a ledger."""
    accounting = Accounting(listed(), budget, ledger=ledger or Ledger())
    stop_token = stop_token or StopToken()
    args = (model, server, limits or Limits(), stop_token, accounting, jitter)
    return Sender(*args, own=own, connections=connections, give_up=give_up)


async def ask_in_lanes(ask: Ask, lanes: int, goes_on: Callable[[], bool]) -> None:
    """Each lane asks one call after another for as long as `goes_on` says so."""

    async def lane() -> None:
        while goes_on():
            await ask(call_of(100))

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())


def sent_inside(sent: Iterable[float], refusals: list[float], delay: float) -> int:
    """How many calls were sent while a refusal's `delay` (s) was not over. refusals: in order."""
    hair, inside = 1e-6, 0
    for at in sent:
        latest = bisect_left(refusals, at - hair) - 1
        inside += latest >= 0 and at < refusals[latest] + delay - hair
    return inside


async def ask_all_at_once(limited: Ask, calls: Iterable[Call]) -> dict[int, float]:
    """Loop time at which each call returned, in seconds, by its draw."""
    back: dict[int, float] = {}

    async def ask(call: Call) -> None:
        await limited(call)
        back[call.draw[0]] = now()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(ask(call))
    return back


def call_of(tokens: float, n: int = 0, max_tokens: int = 100, model: str = "sim/m") -> Call:
    """A call that is estimated at `tokens` input tokens, the `n`-th of its like."""
    return Call(
        Request(model, (Message("user", "x" * round(4 * tokens - 16)),), max_tokens=max_tokens),
        (n,),
    )


def mixed_sizes(count: int, seed: int, least: int = 50, most: int = 4_000) -> list[int]:
    """Input tokens of `count` calls, log-uniform: as many small ones as large ones."""
    rng = random.Random(seed)
    return [round(least * (most / least) ** rng.random()) for _ in range(count)]


def busiest(times: list[tuple[float, float]], window: float) -> float:
    """Maximum sum of amounts in any window of this many seconds.

    times: (loop time, amount), in order of time."""
    most = total = 0.0
    first = 0
    for at, amount in times:
        total += amount
        while times[first][0] <= at - window:
            total -= times[first][1]
            first += 1
        most = max(most, total)
    return most
