import asyncio
import inspect

import pytest

from oversight.engine.errors import Halt, ProviderDown, QuotaExhausted
from oversight.engine.stop import StopToken
from tests.virtual import now, virtually


@pytest.fixture
def stopped() -> StopToken:
    stop_token = StopToken()
    stop_token.stop(QuotaExhausted("first"))
    return stop_token


@virtually
async def test_a_stop_wakes_all_sleepers_at_once_and_they_raise_the_halt():
    stop_token = StopToken()
    calls_heard = []

    async def sleeper():
        try:
            await stop_token.sleep(3_600)
        except QuotaExhausted as halt:
            calls_heard.append((now(), str(halt)))

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(sleeper())
        await asyncio.sleep(7)
        stop_token.stop(QuotaExhausted("no credit left"))
    assert calls_heard == [(pytest.approx(7), "no credit left")] * 50


@virtually
async def test_an_error_of_work_beside_the_run_stops_it_and_is_raised_at_its_end():
    async def saving():
        await asyncio.sleep(2)
        raise OverflowError("a counter")

    stop_token = StopToken()
    with pytest.raises(OverflowError, match="a counter"):
        async with stop_token.supervising(saving()):
            with pytest.raises(Halt, match=r"saves the run failed: OverflowError\('a counter'\)"):
                await stop_token.sleep(60)
            assert now() == pytest.approx(2)
    async with StopToken().supervising(asyncio.sleep(60)):
        pass
    assert now() == pytest.approx(2), "work is cancelled with its body"


@virtually
async def test_a_sleep_that_nobody_ends_lasts_as_long_as_asked():
    await StopToken().sleep(12.5)
    assert now() == pytest.approx(12.5)


@virtually
async def test_no_task_sleeps_or_starts_work_after_a_stop(stopped):
    started = []

    async def work():
        started.append(True)

    with pytest.raises(QuotaExhausted):
        await stopped.sleep(1)
    coming = work()
    with pytest.raises(QuotaExhausted):
        await stopped.until_stopped(coming)
    # Closed, or Python would warn of a coroutine that nobody awaited.
    assert inspect.getcoroutinestate(coming) == inspect.CORO_CLOSED
    assert not started and now() < 0.01


def test_the_first_reason_stands_and_tracebacks_do_not_pile_up_on_it(stopped):
    """Thousands raise the one halt."""
    stopped.stop(ProviderDown("second"))
    for _ in range(1_000):
        with pytest.raises(QuotaExhausted, match="first"):
            stopped.raise_if_stopped()
    frames, traceback = 0, stopped.halt.__traceback__
    while traceback is not None:
        frames, traceback = frames + 1, traceback.tb_next
    assert frames < 5
