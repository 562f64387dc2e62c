"""Breaker, throttle, widths and retries, step by step, with every value: `traces.md`."""

import asyncio
import math
from pathlib import Path
from typing import Any

from oversight.cache.reply import Reply
from oversight.engine import errors
from oversight.engine.models.limits.breaker import Breaker, Tries, overlong_delay, spoken
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.limits.concurrency import AdaptiveConcurrency, ConcurrencySearch
from oversight.engine.models.limits.rate_limiter import RateLimiter, Reservation
from oversight.engine.models.limits.throttle import Throttle
from tests.server import Server, call_of, sender
from tests.sessions import sessions
from tests.tables import printed
from tests.virtual import now, run


def traced(one: Any, steps: tuple[str, ...]) -> list[str]:
    """The state after each step: `[N* ]METHOD NUMBER …`; several, separated by `; `, count as one.
    The last number of a step is the time."""
    lines, now = [], 0.0
    for step in steps:
        result = None
        for part in step.split("; "):
            times, _, words = part.rpartition("* ")
            name, *values = words.split()
            numbers = [float(value) for value in values]
            now = numbers[-1] if numbers else now
            for _ in range(int(times or 1)):
                result = getattr(one, name)(*numbers)
        lines.append(f"{step[-60:]}: {'' if result is None else f'{result}, '}{state(one, now)}")
    return lines


def state(one: Any, now: float) -> str:
    match one:
        case Breaker():
            wait = f"wait {one.wait:g}, silent {one.silence(now):g}"
            return f"{one.state}, probe at {one.probe_at:g}, {wait}"
        case Throttle():
            pace = f"pace {one.pace(now):.5g}, opens {one.opens_at(now):.7g}"
            return f"pause until {one.until:.7g}, {pace}"
    search_rest = f", rest {one._rest:g}" if isinstance(one, ConcurrencySearch) else ""
    return f"{one.busy} of {one.width:.5g}{search_rest}"


def breaker(*steps: str, give_up: float = 1800.0) -> list[str]:
    return traced(Breaker(give_up), steps)


def throttle(*steps: str, jitter: float = 0.5) -> list[str]:
    return traced(Throttle(lambda: jitter), steps)


def limited(at: float, every: float, answers: int) -> str:
    """Eight refusals as by a limit, with answers between them."""
    return "; ".join(
        f"refused 0.1 {at + n * every} {at + n * every}; {answers}* answered" for n in range(8)
    )


class Widths(AdaptiveConcurrency):
    """Slots that are taken and freed by steps."""

    def fill(self, most: float = math.inf) -> None:
        while self.free and self.busy < most:
            self.take()

    def done(self, took: float = 0.0) -> None:
        self.answered(took)
        self.busy -= 1

    def around(self, took: float = 0.0) -> None:
        """All slots are taken and freed once."""
        self.fill(1000)
        for _ in range(self.busy):
            self.done(took)

    def empty(self) -> None:
        self.busy = 0


class Search(Widths, ConcurrencySearch):
    def served(self, places: float) -> None:
        """All slots are taken and freed, at a server with this number of places."""
        self.fill(1000)
        self.around(max(self.busy / places, 1.0))


def widths(*steps: str, **settings: Any) -> list[str]:
    return traced(Widths(**{"ceiling": 100, **settings}), steps)


def search(*steps: str) -> list[str]:
    return traced(Search(), steps)


def waits(
    fault: str, closed: bool = True, running: bool = True, draw: float = 0.5, **state: Any
) -> str:
    """Seconds before each try of one call that always meets a fault."""
    tries, seconds = Tries(lambda: draw, 0), list[str]()
    kind, _, delay = fault.partition(" ")
    for _ in range(12):
        tries.failures += 1
        for name, value in state.items():
            setattr(tries, name, value)
        error = (
            getattr(errors, kind)("odd", float(delay)) if delay else getattr(errors, kind)("odd")
        )
        wait = tries.wait(error, closed, running)
        seconds.append("no more" if wait is None else f"{wait:g}")
        if wait is None:
            break
    return ", ".join(seconds)


def failing(
    fault: str, *delays: float, answers: int = 1, own: bool = False, out: int = 0, **settings: Any
) -> str:
    """The result of faults of a model after these answers, with `out` other calls in flight."""

    async def main() -> str:
        limiter = RateLimiter(Limits(concurrency=50), own=own, jitter=lambda: 0.0, **settings)
        call, end = call_of(10), None
        for _ in range(answers):
            limiter.answered(Reply("yes"), limiter.enter(call))
        for _ in range(out):
            limiter.enter(call)
        for delay in delays or [0.0]:
            error = getattr(errors, fault)("odd", *[delay] * bool(delay))
            sent = limiter.enter(call) or Reservation(now())
            limiter._open[sent] = None
            end = limiter.failed(error, sent, Tries(lambda: 0.0, limiter.answers))
        halt, state = limiter.stop_token.halt, limiter.statistics()
        kinds = f"{type(end).__name__} ({end}), halt {type(halt).__name__}, {limiter.breaker.state}"
        pause = limiter._throttle.until
        return f"{kinds}, width {state.width:g}, {state.in_flight} out, pause {pause:g}"

    return run(main())


def overlong(*delays: float) -> list[str]:
    return [
        str(overlong_delay(errors.RateLimited("429", delay))).partition(":")[0] for delay in delays
    ]


def shown_at(server: Server, at: float) -> str:
    """The statistics after `at` seconds of three calls."""

    async def main() -> str:
        retry = sender(server, jitter=lambda: 0.0)
        asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(3)]
        await asyncio.sleep(at)
        line = str(retry.limiter.statistics())
        for ask in asks:
            ask.cancel()
        await asyncio.wait(asks)
        return line

    return run(main())


@sessions(Path(__file__).with_name("traces.md"))
def test_each_step_has_its_state(session, request):
    names = {**globals(), "Limits": Limits, "spoken": spoken}
    session.check(request, printed(names), names)
