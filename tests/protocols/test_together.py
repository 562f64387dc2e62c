import asyncio

import pytest

from oversight.protocols.gather import gather_in_order
from tests import virtual


async def after(delay: float, value: int) -> int:
    await asyncio.sleep(delay)
    return value


async def fail(delay: float, reason: str) -> int:
    await asyncio.sleep(delay)
    raise ValueError(reason)


def test_results_come_in_the_order_given_not_in_that_of_arrival() -> None:
    assert virtual.run(gather_in_order(after(3, 1), after(1, 2), after(2, 3))) == [1, 2, 3]


def test_work_runs_at_once() -> None:
    async def seconds() -> float:
        start = asyncio.get_running_loop().time()
        await gather_in_order(*(after(5, n) for n in range(10)))
        return asyncio.get_running_loop().time() - start

    assert virtual.run(seconds()) == pytest.approx(5, abs=0.1)


def test_the_first_fault_in_order_is_raised_bare_whichever_came_first() -> None:
    with pytest.raises(ValueError, match="the slow one"):
        virtual.run(gather_in_order(after(1, 1), fail(9, "the slow one"), fail(1, "the quick one")))


def test_a_fault_lets_the_others_run_to_their_end() -> None:
    ended: list[int] = []

    async def slow() -> int:
        ended.append(await after(9, 7))
        return 7

    with pytest.raises(ValueError, match="at once"):
        virtual.run(gather_in_order(fail(0, "at once"), slow()))
    assert ended == [7]


def test_cancellation_cancels_all() -> None:
    cancelled: list[int] = []

    async def patient(n: int) -> int:
        try:
            return await after(100, n)
        except asyncio.CancelledError:
            cancelled.append(n)
            raise

    async def main() -> None:
        task = asyncio.ensure_future(gather_in_order(patient(1), patient(2)))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    virtual.run(main())
    assert sorted(cancelled) == [1, 2]


def test_no_work_gives_no_results() -> None:
    assert virtual.run(gather_in_order()) == []
