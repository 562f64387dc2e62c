"""One process keeps ten thousand calls in flight, and loses none."""

import asyncio
import resource
import sys
import time

import pytest

from oversight.cache.call import Call, Message, Request
from oversight.engine.models.accounting.ledger import Ledger
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.limits import Limits
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.settings import Settings
from oversight.engine.stop import StopToken
from oversight.engine.system.process import event_loop

COUNT = 10_000
SERVER = """
import asyncio, sys, uvloop
wanted, here, all_here = int(sys.argv[1]), 0, asyncio.Event()
async def serve(reader, writer):
    global here
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
            asked = await reader.readexactly(size)
            here += 1
            if here == wanted: all_here.set()
            await all_here.wait()
            name = asked.split(b"call-")[1].split(b" ")[0]
            choice = b'{"finish_reason":"stop","message":{"content":"re: %s"}}' % name
            usage = b'{"prompt_tokens":9,"completion_tokens":3}'
            body = b'{"id":"chatcmpl-%020d","model":"m","choices":[%s],"usage":%s}'
            body %= int(name), choice, usage
            head = b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body)
            writer.write(head + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(here, flush=True)
uvloop.run(main())
"""
"""It answers nobody until so many have asked."""


@pytest.mark.bench
def test_ten_thousand_calls_are_in_flight_at_once_and_each_is_answered():
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(COUNT, most - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count + 500), most))
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            served, wall = runner.run(_asked(count))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} calls in flight: {wall:.1f} s, peak {peak:.0f} MB")
    assert served == count


async def _asked(count: int) -> tuple[int, float]:
    """How many requests the server saw, and seconds."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdin and server.stdout
    port = int(await server.stdout.readline())
    url = f"http://127.0.0.1:{port}/v1"
    provider = connect(Settings("compatible/lab", url, "test", connections=count))
    ledger = Ledger()
    accounting = Accounting(listed(), ledger=ledger)
    ask = Sender("compatible/lab/m", provider, Limits(), StopToken(), accounting)
    began = time.perf_counter()

    async def one(n: int) -> None:
        call = Call(Request("compatible/lab/m", (Message("user", f"call-{n} of many"),)))
        assert (await ask(call)).text == f"re: {n}"

    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(one(n))
    wall = time.perf_counter() - began
    total = ledger.total()
    assert (total.stored, total.faults, total.in_flight) == (count, (), 0)
    await provider.close()
    server.stdin.close()
    served = int(await server.stdout.readline())
    await server.wait()
    return served, wall
