"""The HTTP client, and whole sweeps, against servers that nobody here wrote, each with what it does
by default.

LiteLLM's own pins forbid this program's clients, so it lives in an environment of its own: the
command is found on PATH, or named by LITELLM.
"""

import asyncio
import gzip
import lzma
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.engine.errors import ContextLengthExceeded, Malformed, UsageError
from oversight.engine.extensions.local.weights import SLOTS, weights
from oversight.engine.models.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.providers import connect, settings_of
from oversight.engine.providers.answer_ids import FRESH_REPEATS
from oversight.engine.providers.http_client import HttpClient
from oversight.engine.providers.own_server import LocalServer, local_server
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.target import Target
from tests.engine.providers.test_recordings import RECORDED
from tests.lines import http, listening, request
from tests.waiting import PATIENCE

NUMBERS = count()
LONG = b"crates " * 40_000


def named() -> dict[str, str]:
    """An id of its own for each answer."""
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
    config = uvicorn.Config(asgi, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await asyncio.to_thread(serving.join)


@asynccontextmanager
async def by_aiohttp(folder: Path) -> AsyncIterator[str]:
    async def answer(asked: web.Request) -> web.StreamResponse:
        body = await asked.read()
        if asked.path != "/pieces":
            return web.Response(body=body, headers=named())
        answer = web.StreamResponse(headers=named())
        answer.enable_compression()
        await answer.prepare(asked)
        for start in range(0, len(body), 1000):
            await answer.write(body[start : start + 1000])
        await answer.write_eof()
        return answer

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


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
        pytest.param(by_aiohttp, marks=pytest.mark.wire),
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
    told = [orjson.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).splitlines()]
    bodies = [each["body"].encode() for each in told]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
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
        told = await llama(call(max_tokens=40, response_format=form, temperature=0.0))
        assert isinstance(orjson.loads(told.text)["a"], bool)
        with pytest.raises(ContextLengthExceeded, match="available context size"):
            await llama(call("word " * 1000))
        await llama.close()


KEY = "sk-1f0c6de27ab94d5c8b3fa1e6c7d2905e"
"""The proxy starts with no weaker one; it opens nothing else."""

CONFIG = f"""\
model_list:
  - model_name: gpt-4.1
    litellm_params: &mock
      model: openai/gpt-4.1
      api_key: x
      mock_response: "The crates hold four.\\nA: 70%\\nB: 30%"
  - model_name: claude-haiku-4-5
    litellm_params: {{<<: *mock, model: anthropic/claude-haiku-4-5}}
general_settings: {{master_key: {KEY}}}
"""

SWEEP = """\
name: proxied
problems: {{bundled: {{name: arithmetic, limit: 2}}}}
agents: {{model: {agent}}}
judges: {{kind: stated, model: {judge}}}
protocols:
  naive_judge:
  debate: {{rounds: 1}}
  consultancy: {{turns: 2}}
providers:
  openai: {{base_url: {url}/v1, api: {api}}}
  anthropic: {{base_url: {url}}}
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("LiteLLM is not installed: pip install 'litellm[proxy]' in a venv of its own")
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(CONFIG)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    flags = ["--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *flags], cwd=folder, stdout=log, stderr=log)
        try:
            _wait(f"{url}/health/liveliness", process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until it answers, which takes it some twenty seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the proxy did not start:\n{log.read_text(errors='replace')[-2000:]}")


def refused(account: UsageTotals) -> int:
    """Answers that were thrown away, since they had come before; there is no other fault."""
    assert {kind for _, kind, _ in account.faults} <= {Malformed.slug}
    return account.count("ambiguous")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)


@pytest.mark.real
@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("agent", "judge", "api"),
    [
        ("openai/gpt-4.1", "openai/gpt-4.1", "chat"),
        ("openai/gpt-4.1", "openai/gpt-4.1", "responses"),
        ("anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5", "auto"),
        ("openai/gpt-4.1", "anthropic/claude-haiku-4-5", "auto"),
    ],
)
def test_a_sweep_runs_through_the_proxy_and_replays_to_the_byte(
    proxy, place, command, agent, judge, api
):
    sweep = SWEEP.format(agent=agent, judge=judge, api=api, url=proxy)
    (place / "proxied.yaml").write_text(sweep)
    ran = command("run", "proxied.yaml", "--run-folder", "run")
    assert ran.code == 0, ran.err + ran.out
    account = sum_usage(read_ledger(place / "run").values())
    assert account.stored > 0 and account.sent == account.stored + refused(account)
    # Its mock of Anthropic has one id and few words for all: until that shows, the same answer
    # twice may be a stale one, and is asked for again.
    assert refused(account) <= (FRESH_REPEATS - 1 if "anthropic" in judge else 0)
    outcomes = (place / "run" / "outcomes.jsonl").read_bytes()
    again = command("replay", "run")
    assert again.code == 0, again.err
    assert (place / "run" / "outcomes.jsonl").read_bytes() == outcomes


@pytest.mark.real
@pytest.mark.usefixtures("keys")
def test_a_checkup_finds_what_the_proxy_lacks(proxy, place, command):
    sweep = SWEEP.format(agent="openai/gpt-4.1", judge="openai/gpt-4.1", api="chat", url=proxy)
    (place / "proxied.yaml").write_text(sweep.replace("kind: stated", "kind: logprob"))
    ran = command("doctor", "proxied.yaml")
    assert ran.code == 1
    assert "✓ openai/gpt-4.1 answers in" in ran.out
    assert "✗ openai/gpt-4.1: logprobs: it answers without logprobs" in ran.out
