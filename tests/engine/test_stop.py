import asyncio
import inspect

import pytest

from oversight.engine.errors import ProviderDown, QuotaExhausted
from oversight.engine.stop import StopToken
from tests.virtual import virtually


@virtually
async def test_a_stop_wakes_all_sleepers_at_once_and_they_raise_the_halt():
    stop_token = StopToken()
    heard = []

    async def sleeper():
        try:
            await stop_token.sleep(3_600)
        except QuotaExhausted as halt:
            heard.append((asyncio.get_running_loop().time(), str(halt)))

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(sleeper())
        await asyncio.sleep(7)
        stop_token.stop(QuotaExhausted("no credit left"))
    assert heard == [(pytest.approx(7), "no credit left")] * 50


def test_the_first_reason_stands():
    stop_token = StopToken()
    stop_token.stop(QuotaExhausted("first"))
    stop_token.stop(ProviderDown("second"))
    with pytest.raises(QuotaExhausted, match="first"):
        stop_token.raise_if_stopped()


@virtually
async def test_nobody_sleeps_after_a_stop():
    stop_token = StopToken()
    stop_token.stop(QuotaExhausted("gone"))
    with pytest.raises(QuotaExhausted):
        await stop_token.sleep(1)
    assert asyncio.get_running_loop().time() < 0.01


@virtually
async def test_work_that_comes_after_a_stop_is_never_begun():
    begun = []

    async def work():
        begun.append(True)

    # Closed, or Python would warn of a coroutine that nobody awaited.
    stop_token = StopToken()
    stop_token.stop(QuotaExhausted("gone"))
    coming = work()
    with pytest.raises(QuotaExhausted):
        await stop_token.until_stopped(coming)
    assert inspect.getcoroutinestate(coming) == inspect.CORO_CLOSED
    assert not begun


@virtually
async def test_a_sleep_that_nobody_ends_lasts_as_long_as_asked():
    await StopToken().sleep(12.5)
    assert asyncio.get_running_loop().time() == pytest.approx(12.5)


def test_tracebacks_do_not_pile_up_on_the_one_halt_that_thousands_raise():
    stop_token = StopToken()
    stop_token.stop(QuotaExhausted("gone"))
    for _ in range(1_000):
        with pytest.raises(QuotaExhausted):
            stop_token.raise_if_stopped()
    frames, traceback = 0, stop_token.halt.__traceback__
    while traceback is not None:
        frames, traceback = frames + 1, traceback.tb_next
    assert frames < 5
