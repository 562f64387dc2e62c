"""Asks 16 calls of a server, and says how many replies came: asked of URL, with its deadline."""

import asyncio
import sys

from oversight.engine.errors import EngineError
from oversight.engine.system.loop import event_loop
from tests.lines import asked, reached


async def main(line: str, url: str, deadline: float) -> int:
    async with reached(line, url, deadline=deadline) as ask:
        tasks = [asyncio.create_task(ask(asked(line, f"{n}"))) for n in range(16)]
        await asyncio.wait(tasks)
    faults = [task.exception() for task in tasks]
    assert all(fault is None or isinstance(fault, EngineError) for fault in faults)
    return faults.count(None)


with asyncio.Runner(loop_factory=event_loop()) as runner:
    print(runner.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
