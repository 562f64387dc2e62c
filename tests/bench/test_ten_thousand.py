"""One process keeps ten thousand calls in flight, and loses none."""

import asyncio
import resource
from contextlib import suppress

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
from tests.lines import request

COUNT = 10_000


class Crowd:
    """A server that answers nobody until so many have asked."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.here, self.all_here = wanted, 0, asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                _, asked = await request(reader)
                self.here += 1
                if self.here == self.wanted:
                    self.all_here.set()
                await self.all_here.wait()
                name = asked.split(b"call-")[1].split(b" ")[0]
                choice = b'{"finish_reason":"stop","message":{"content":"re: %s"}}' % name
                usage = b'{"prompt_tokens":9,"completion_tokens":3}'
                body = b'{"id":"chatcmpl-%020d","model":"m","choices":[%s],"usage":%s}'
                body %= int(name), choice, usage
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()


@pytest.mark.bench
def test_ten_thousand_calls_are_in_flight_at_once_and_each_is_answered():
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A file at each end.
    count = min(COUNT, most // 2 - 50)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * count + 100), most))
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(_ask(count))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


async def _ask(count: int) -> None:
    crowd = Crowd(count)
    server = await asyncio.start_server(crowd.serve, "127.0.0.1", 0, backlog=4096)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    provider = connect(Settings("compatible/lab", url, "test", connections=count))
    ledger = Ledger()
    accounting = Accounting(listed(), ledger=ledger)
    ask = Sender("compatible/lab/m", provider, Limits(), StopToken(), accounting)

    async def one(n: int) -> None:
        call = Call(Request("compatible/lab/m", (Message("user", f"call-{n} of many"),)))
        assert (await ask(call)).text == f"re: {n}"

    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(one(n))
    total = ledger.total()
    assert (total.stored, total.faults, total.in_flight) == (count, (), 0)
    assert crowd.here == count
    await provider.close()
    server.close()
