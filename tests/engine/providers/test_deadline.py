"""Deadlines of a process that stands still: what came in time is read, however late."""

import asyncio
import signal
import sys
import time

import pytest

from oversight.engine.providers.deadline import within
from oversight.engine.rehearsal import MockServer, Profile
from tests.campaign.sweeps import ROOT
from tests.lines import EACH_LINE
from tests.virtual import run

DEADLINE = 3.0


@pytest.mark.wire
@EACH_LINE
async def test_answers_that_came_while_the_process_stood_still_are_read(line: str) -> None:
    async with MockServer(Profile(latency=0.5)) as server:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.engine.stands_still", line, server.url, str(DEADLINE)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        while server.counts().get("requests", 0) < 16:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        child.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        while server.counts().get("ok", 0) < 16 or time.monotonic() < stopped + DEADLINE + 0.8:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        child.send_signal(signal.SIGCONT)
        told, _ = await child.communicate()
    assert told.split() == [b"16"]


def test_a_deadline_that_is_met_in_time_is_not_put_off() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with within(5.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(5.0)
