"""Several servers of one's own for one model: affinity, health, and what is refused."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from oversight.cache.call import Call, Message, Request
from oversight.engine.errors import ModelNotFound, Unreachable
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.replicas import Replica, Replicas
from oversight.engine.providers.settings import Settings

pytestmark = pytest.mark.wire
MODEL = "m"


class Server:
    """A server on loopback that can die and come back at its address."""

    def __init__(self, model: str = MODEL) -> None:
        self.model = model
        self.asked: Counter[str] = Counter()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def begin(self) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def end(self) -> None:
        await self._runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": self.model}]})

    async def _answer(self, request: web.Request) -> web.Response:
        said = (await request.json())["messages"][0]["content"]
        self.asked[said] += 1
        await asyncio.sleep(0.02)
        message = {"role": "assistant", "content": f"re: {said}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "x", "model": self.model, "choices": [choice]})


@asynccontextmanager
async def replicas(*servers: Server) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        for server in servers:
            await server.begin()
            stack.push_async_callback(server.end)
        ways = [Settings("vllm", server.url, "vllm", deadline=5.0) for server in servers]
        ours = Replicas(ways[0], [Replica(way.base_url, connect(way)) for way in ways])
        stack.push_async_callback(ours.close)
        yield ours


def call(problem: int, n: int = 0) -> Call:
    messages = (Message("system", f"problem {problem}"), Message("user", f"turn {n}"))
    return Call(Request(f"vllm/{MODEL}", messages))


async def all_asked(ours: Replicas, problems: int, turns: int, width: int) -> list[str]:
    """The replies to so many turns of each problem, `width` problems at a time."""
    todo, said = iter(range(problems)), []

    async def lane() -> None:
        for problem in todo:
            for n in range(turns):
                said.append((await ours(call(problem, n))).text)

    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(lane())
    return said


async def test_calls_of_a_problem_go_to_one_server_while_it_has_room() -> None:
    servers = [Server() for _ in range(4)]
    async with replicas(*servers) as ours:
        said = await all_asked(ours, problems=400, turns=4, width=16)
    assert sorted(said) == sorted(f"re: problem {n}" for n in range(400) for _ in range(4))
    # Blocks found: a server that has read the problem's first message finds it again.
    found = sum(count - 1 for server in servers for count in server.asked.values())
    assert found / (400 * 3) >= 0.7
    loads = [server.asked.total() for server in servers]
    # Problems are dealt by addresses, whose ports are others each time; many of them even out.
    assert max(loads) <= 2 * min(loads), "none is left idle for that"


async def test_a_dead_server_loses_no_call_and_one_that_is_back_is_used_again() -> None:
    alive, dying = Server(), Server()
    async with replicas(alive, dying) as ours:
        await all_asked(ours, problems=20, turns=1, width=4)
        before = dying.asked.total()
        assert before > 0
        await dying.end()
        said = await all_asked(ours, problems=20, turns=2, width=4)
        assert len(said) == 40
        assert dying.asked.total() == before
        await dying.begin()
        for replica in ours.replicas:
            replica.down_until = 0.0  # the pause until the next trial is over
        await all_asked(ours, problems=20, turns=1, width=4)
        assert dying.asked.total() > before


async def test_where_all_are_down_the_error_is_that_of_one_server() -> None:
    only, other = Server(), Server()
    async with replicas(only, other) as ours:
        await only.end()
        await other.end()
        with pytest.raises(Unreachable, match="no connection"):
            await ours(call(1))


async def test_servers_of_different_models_are_refused_by_name() -> None:
    async with replicas(Server(), Server("other-7b")) as ours:
        with pytest.raises(ModelNotFound, match=r"serves other-7b, and not m.*base_urls"):
            await ours(call(1))
