"""The HTTP client against servers of other projects, with their default behaviour."""

import asyncio
import gzip
import lzma
import shutil
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.engine.errors import ContextLengthExceeded, UsageError
from oversight.engine.extensions.local.server import SLOTS, weights
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.http_client import HttpClient
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.self_hosted import LocalServer, local_server
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.transport import Target
from tests.engine.providers.test_recordings import RECORDED
from tests.lines import http, listening, request

NUMBERS = count()
LONG = b"crates " * 40_000


def named() -> dict[str, str]:
    """A unique id per answer."""
    return {"x-request-id": f"req-{next(NUMBERS):020}"}


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Gives back the body, in pieces where the path says so."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    headers = [(name.encode(), value.encode()) for name, value in named().items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/pieces":
        for start in range(0, len(body), 1000):
            piece = body[start : start + 1000]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def by_uvicorn(folder: Path) -> AsyncIterator[str]:
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(asgi, log_level="error", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await asyncio.to_thread(serving.join)


NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1; events {{}}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; gzip on;
  fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  gzip_types *; gzip_min_length 1000; gzip_proxied any; client_body_buffer_size 1m;
  proxy_max_temp_file_size 0;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {behind}; proxy_http_version 1.1; }}
  }}
}}
"""


@asynccontextmanager
async def by_nginx(folder: Path) -> AsyncIterator[str]:
    """nginx before uvicorn: it compresses, and keeps connections in its own way."""
    if not (nginx := shutil.which("nginx")):
        pytest.skip("nginx is not installed")
    async with by_uvicorn(folder) as behind:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        file = folder / "nginx.conf"
        file.write_text(NGINX.format(folder=folder, port=port, behind=behind))
        serving = await asyncio.create_subprocess_exec(nginx, "-c", file, "-p", folder)
        while serving.returncode is None:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.01)
        assert serving.returncode is None, (folder / "log").read_text()
        yield f"http://127.0.0.1:{port}"
        serving.terminate()
        await serving.wait()


Serve = Callable[[Path], AbstractAsyncContextManager[str]]


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(by_uvicorn, marks=pytest.mark.wire),
        pytest.param(by_nginx, marks=pytest.mark.real),
    ],
)
async def test_each_server_is_understood_over_connections_that_are_kept(serve, tmp_path):
    async with serve(tmp_path) as url:
        client = HttpClient(Settings("lab", url, "test"), keep_alive=60.0)

        async def lane(first: int) -> None:
            for size in range(first, 400, 20):
                path = "/pieces" if size % 3 else "/whole"
                target = Target("POST", url + path, {})
                for body in (b"x" * size, LONG[: 1000 * size]):
                    assert client.read(await client.send(target, body)).body == body

        async with asyncio.TaskGroup() as group:
            for first in range(1, 21):
                group.create_task(lane(first))
        await client.close()


@pytest.mark.wire
@pytest.mark.skipif(RECORDED is None, reason="the recorded answers are not here")
async def test_recorded_answers_of_real_servers_arrive_as_they_were_said():
    assert RECORDED
    rows = [orjson.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).splitlines()]
    bodies = [row["body"].encode() for row in rows]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            n = int((await request(reader))[1])
            fields = "".join(f"{name}: {value}\r\n" for name, value in named().items())
            if n % 2:
                answer = http(
                    "200 OK", f"{fields}content-encoding: gzip\r\n", gzip.compress(bodies[n])
                )
            else:
                answer = http("200 OK", fields, bodies[n])
            writer.write(answer)

    async with listening(serve) as url:
        client = HttpClient(Settings("lab", url, "test"), keep_alive=60.0)
        for n, body in enumerate(bodies):
            answer = await client.send(Target("POST", url, {}), b"%d" % n)
            assert client.read(answer).body == body
        await client.close()
    assert len(bodies) > 500


@asynccontextmanager
async def by_llamacpp() -> AsyncIterator[str]:
    try:
        weights()
    except UsageError as exc:
        pytest.skip(" ".join(str(exc).split()))
    serving = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oversight.engine.extensions.local", "--context", "512"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert serving.stdin and serving.stdout
    yield (await serving.stdout.readline()).decode().strip()
    serving.stdin.close()
    await serving.wait()


@pytest.mark.real
async def test_llama_cpp_takes_every_parameter_and_states_its_limits():
    """Its words are of no account: they are tokens, JSON, or cut."""

    def call(text: str = "Say yes.", **settings: Any) -> Call:
        message = (Message("user", text),)
        return Call(Request("llamacpp/smollm2", message, **{"max_tokens": 8} | settings))

    async with by_llamacpp() as url:
        settings = settings_of("llamacpp", {}, base_url=f"{url}/v1")
        assert await local_server(settings, "smollm2") == LocalServer(context=512, slots=SLOTS)
        llama = connect(settings)
        counting = (llama(call(f"Count to {n}.", temperature=0.0)) for n in range(2, 6))
        for reply in await asyncio.gather(*counting):
            assert (reply.served_model, reply.usage.output_tokens <= 8) == ("smollm2", True)
        scored = await llama(call(top_logprobs=3, temperature=0.0))
        assert "".join(token.text for token in scored.logprobs) == scored.text
        assert {len(token.top) for token in scored.logprobs} == {3}
        await llama(call(stop=("e",), seed=3, top_k=5, min_p=0.1, top_p=0.9, temperature=0.5))
        schema = '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}'
        form = ResponseFormat("a", schema)
        answer = await llama(call(max_tokens=40, response_format=form, temperature=0.0))
        assert isinstance(orjson.loads(answer.text)["a"], bool)
        with pytest.raises(ContextLengthExceeded, match="available context size"):
            await llama(call("word " * 1000))
        await llama.close()
