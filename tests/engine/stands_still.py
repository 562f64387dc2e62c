"""Asks many calls of a server at once, on command, and prints the number of replies.

Arguments: the line, the server's URL, the deadline of a call (s), and the number of calls."""

import asyncio
import sys

from oversight.cache.reply import Reply
from oversight.engine.errors import EngineError
from oversight.engine.providers.provider import Provider
from oversight.engine.system.process import event_loop
from tests.lines import asked, reached


async def reply(ask: Provider, line: str, question: str) -> Reply | None:
    """None where the call failed."""
    try:
        return await ask(asked(line, question))
    except EngineError:
        return None


async def main(line: str, url: str, deadline: float, count: int) -> int:
    async with reached(line, url, deadline=deadline) as ask:
        # Imports of the first call may exceed the deadline on a slow machine.
        while await reply(ask, line, "ready?") is None:
            pass
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        replies = await asyncio.gather(*(reply(ask, line, f"{n}") for n in range(count)))
    return count - replies.count(None)


with asyncio.Runner(loop_factory=event_loop()) as runner:
    print(runner.run(main(*sys.argv[1:3], float(sys.argv[3]), int(sys.argv[4]))))
