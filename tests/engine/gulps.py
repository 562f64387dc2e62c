"""Asks many calls at once of a server that sends too much: ask URL COUNT. Prints its peak in MB."""

import asyncio
import re
import sys
from pathlib import Path

from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.stop import StopToken
from oversight.engine.system.process import event_loop
from tests.lines import asked, reached


async def main(url: str, count: int, line: str = "openai wire, plain") -> None:
    accounting = Accounting(listed())
    async with reached(line, url, deadline=60.0) as provider:
        endpoint = Sender(asked(line).model, provider, Limits(), StopToken(), accounting)
        tasks = [asyncio.create_task(endpoint(asked(line, f"{n}"))) for n in range(count)]
        # Each has failed once and waits for its next try.
        while endpoint.page.account().count("unconfirmed") < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


with asyncio.Runner(loop_factory=event_loop()) as runner:
    runner.run(main(sys.argv[1], int(sys.argv[2])))
# Not what getrusage says: that counts the process which started this one.
(peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
print(int(peak) / 1024)
