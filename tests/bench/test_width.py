"""One process keeps thousands of calls in flight, as the sweep file says, and loses none."""

import asyncio
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from oversight.cache.call import Call, Message, Request
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.router import Router
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.system.process import event_loop
from tests.lines import request


class Crowd:
    """A server that answers no call until `count` calls are in flight."""

    def __init__(self, count: int) -> None:
        self.count, self.here, self.all_here = count, 0, asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                _, received = await request(reader)
                if not received:
                    # The engine asks a server of the user's for its slots: this one does not say.
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                self.here += 1
                if self.here == self.count:
                    self.all_here.set()
                await self.all_here.wait()
                name = received.split(b"call-")[1].split(b" ")[0]
                choice = b'{"finish_reason":"stop","message":{"content":"re: %s"}}' % name
                usage = b'{"prompt_tokens":9,"completion_tokens":3}'
                body = b'{"id":"chatcmpl-%020d","model":"m","choices":[%s],"usage":%s}'
                body %= int(name), choice, usage
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()


SWEEP = """\
problems: {{bundled: {{name: arithmetic, limit: 1}}}}
judges: {{kind: stated, model: compatible/lab/m}}
protocols: naive_judge
providers: {{compatible/lab: {{base_url: "{url}"}}}}
models: {{compatible/lab/m: {{concurrency: {count}}}}}
"""


def sweep_at(file: Path, url: str, count: int) -> LoadedSweep:
    file.write_text(SWEEP.format(url=url, count=count))
    return open_sweep(file)


@pytest.mark.parametrize(
    "count",
    [pytest.param(2_200, marks=pytest.mark.wire), pytest.param(10_000, marks=pytest.mark.bench)],
)
def test_a_stated_concurrency_is_in_flight_at_once(count, tmp_path, caplog):
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A file at each end.
    count = min(count, most // 2 - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * count + 200), most))
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(_ask(count, tmp_path / "sweep.yaml"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    assert not caplog.records


async def _ask(count: int, file: Path) -> None:
    crowd = Crowd(count)
    server = await asyncio.start_server(crowd.serve, "127.0.0.1", 0, backlog=4096)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    opened = sweep_at(file, url, count)
    ask = Router(opened.models, opened.sweep.roles, Accounting(listed()), opened.stop_token)

    async def one(n: int) -> None:
        call = Call(Request("compatible/lab/m", (Message("user", f"call-{n} of many"),)))
        assert (await ask(call)).text == f"re: {n}"

    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(one(n))
    total = ask.accounting.ledger.total()
    assert (total.stored, total.faults, total.in_flight) == (count, (), 0)
    assert crowd.here == count
    await ask.close()
    server.close()
