"""Lines of progress: their texts at given moments of an outage, a bad prompt and a slow start."""

import asyncio
import io
from collections.abc import Callable

import pytest

from oversight.engine.display.progress import Clock, Snapshot, figures, progress
from oversight.engine.display.throughput import lines
from oversight.engine.errors import EngineError, Overloaded
from oversight.engine.models.limits.buckets import Limits
from tests.server import Arrival, Server, call_of, sender
from tests.virtual import now, run

LANES = 4


class _Log(io.StringIO):
    """A log that notes the time of each text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[int, list[str]] = {}

    def write(self, text: str) -> int:
        if text.strip():
            self.texts.setdefault(round(now()), []).append(text.removeprefix("· "))
        return super().write(text)


def log_of(server: Server, cells: int) -> dict[int, list[str]]:
    """The lines of progress, by the second in which they are written, of cells with a call each."""

    async def main() -> dict[int, list[str]]:
        retry, log = sender(server, Limits(concurrency=LANES), lambda: 0.0), _Log()
        retry.limiter.stop_token.last_cells = True
        sent_count = answered = failed = 0

        def snapshot() -> Snapshot:
            models = {"m": statistics} if (statistics := retry.limiter.statistics()) else {}
            waits = ("m",) if statistics and statistics.waits else ()
            waiting = lines(models, lambda model: sent_count - answered - failed)
            counts = cells, answered + failed, failed, sent_count, 0, 0, answered
            flights = server.in_flight
            return Snapshot(*counts, models=waiting, in_flight=flights, waits=waits, expected=cells)

        async def lane(numbers: range) -> None:
            nonlocal sent_count, answered, failed
            for number in numbers:
                sent_count += 1
                try:
                    await retry(call_of(10, number))
                    answered += 1
                except EngineError:
                    failed += 1

        async with progress(snapshot, log, 1.0), asyncio.TaskGroup() as group:
            for n in range(LANES):
                group.create_task(lane(range(n, cells, LANES)))
        return log.texts

    return run(main())


def during(begin: float, end: float) -> Callable[[Arrival], Exception | None]:
    def fault(request: Arrival) -> Exception | None:
        return Overloaded("lab: 503 down") if begin <= request.at < end else None

    return fault


def test_an_outage_is_one_line_per_change_and_the_run_goes_on() -> None:
    log = log_of(Server(fault=during(20, 80)), 240)
    assert log[10][:2] == [
        "36 of 240 cells · 40 of about 240 calls (36 sent)",
        "0 failed · 0:10 elapsed · about 0:51 left",
    ]
    waiting = {at: text[2] for at, text in log.items() if len(text) > 2 and "waiting" in text[2]}
    first, *later = waiting
    assert 20 < first < 30 and len(later) <= 4, "a line for each change, not one in ten seconds"
    assert waiting[first].strip().startswith("waiting for m: lab: 503 down, 4 cells held, next try")
    assert waiting[first].endswith("(--give-up 30m ends the wait)")
    *_, last = (text[-2:] for text in log.values())
    assert last[0] == "240 of 240 cells · 240 calls (240 sent)"
    assert last[1].startswith("0 failed · ") and last[1].endswith(" elapsed")


def test_a_prompt_that_always_fails_is_a_failed_cell_and_nothing_waits() -> None:
    def fault(request: Arrival) -> Exception | None:
        return Overloaded("lab: 500 CUDA error") if request.call.draw[0] == 5 else None

    log = log_of(Server(fault=fault), 120)
    assert not any("waiting for" in line for text in log.values() for line in text)
    *_, last = (text[-2:] for text in log.values())
    assert last[0] == "120 of 120 cells · 120 calls (119 sent)"
    assert last[1].startswith("1 failed · ")


def test_a_slow_start_has_no_forecast_before_twenty_calls_have_ended() -> None:
    log = log_of(Server(latency=9.0), 48)
    forecasts = {at: "left" in text[1] for at, text in log.items()}
    assert not any(has_forecast for at, has_forecast in forecasts.items() if at < 45)
    assert log[40][1] == "0 failed · 0:40 elapsed"
    assert forecasts[50] and log[50][0] == "20 of 48 cells · 24 of about 48 calls (20 sent)"


def test_the_time_left_follows_the_rate_of_the_last_30_seconds() -> None:
    """200 cells: 1 per second for 40 seconds, then 4; a look every 8 seconds."""

    async def main() -> list[str]:
        clock, ends = Clock(), []
        while now() < 64:
            await asyncio.sleep(8)
            finished = round(min(now(), 40) + 4 * max(now() - 40, 0))
            ends.append(figures(clock.timed(Snapshot(200, finished)))[1].rpartition(" · ")[2])
        return ends

    # At 48 seconds 48 of 72 were finished in the last 24, and 128 are left.
    lefts = ["3:12", "3:04", "2:56", "2:48", "2:40", "1:04", "0:32", "0:16"]
    assert run(main()) == [f"about {left} left" for left in lefts]


def test_calls_count_as_answered_however_their_replies_came() -> None:
    """40 of 100 calls after 10 seconds: 60 are left at 4 a second. Fewer than 20 give no rate."""

    async def time_left(**counts: int) -> float | None:
        clock = Clock()
        await asyncio.sleep(10)
        return clock.timed(Snapshot(9, 1, calls=90, expected=100, in_flight=50, **counts)).left

    ways = ("new", "stored", "shared")
    for n in range(3):
        one, two, three = ways[n:] + ways[:n]
        assert run(time_left(**{one: 40})) == run(time_left(**{one: 25, two: 10, three: 5}))
        assert run(time_left(**{one: 40})) == pytest.approx(15)
        assert run(time_left(**{one: 60, two: 40})) == 0
        assert run(time_left(**{one: 10, two: 9})) is None
