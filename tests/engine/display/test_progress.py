"""The lines of a run in progress, at known times."""

import asyncio
import io
from collections.abc import Callable
from typing import TextIO

from oversight.engine.display.progress import Snapshot, progress
from tests.virtual import now, virtually


@virtually
async def test_the_time_left_follows_the_rate_of_the_last_30_seconds():
    """200 cells: 1 per second for 40 seconds, then 4; a look every 8 seconds."""
    ends: list[str] = []

    def snapshot() -> Snapshot:
        return Snapshot(200, round(min(now(), 40) + 4 * max(now() - 40, 0)), 0)

    async def show(
        snapshot: Callable[[], Snapshot], figures: Callable[[Snapshot], str], out: TextIO, *_: float
    ) -> None:
        while True:
            await asyncio.sleep(8)
            ends.append(figures(snapshot()).rpartition("  ")[2])

    out = io.StringIO()
    async with progress(snapshot, out, 1.0, show):
        await asyncio.sleep(66)
    # At 48 seconds 48 of 72 were finished in the last 24, and 128 are left.
    before = ["0:00:08", "0:03:04 left", "0:02:56 left", "0:02:48 left", "0:02:40 left"]
    assert ends == [*before, "0:01:04 left", "0:00:32 left", "0:00:16 left"]
    assert out.getvalue() == "· 144/200 cells  0 calls  0 failed  0:01:06\n"
