"""Information of servers and models about themselves: queried before a run, and obeyed in it."""

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.reply import Reply, Token, ToolCall
from oversight.engine.errors import ContextLengthExceeded
from oversight.engine.extensions.mock import PROFILES, MockServer
from oversight.engine.extensions.mock.process import counts, serving
from oversight.engine.extensions.planning.preflight import examine, probes_of
from oversight.engine.models import self_hosted
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.directory import Directory
from oversight.engine.models.router import Router
from oversight.engine.providers.capabilities import abilities, retirement
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.self_hosted import (
    LocalServer,
    ModelFacts,
    ServerLoad,
    load_in,
    local_server,
    model_facts,
    self_hosted_server,
    server_load,
)
from oversight.engine.providers.settings import Settings
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.stop import StopToken
from oversight.engine.sweep.document import Document
from tests.answering import Asked, answering, pages
from tests.lines import http, listening, request
from tests.memory import in_memory
from tests.server import call_of
from tests.sessions import sessions
from tests.tables import printed
from tests.virtual import now, virtually


def router(opened: LoadedSweep) -> Router:
    return Router(opened.models, (), Accounting(listed()), opened.stop_token)


SWEEP = """\
name: probed
problems: {bundled: {name: arithmetic, limit: 1}}
agents: {model: openai/gpt-6-sol, tools: calculator}
judges:
  - {kind: distribution, model: anthropic/claude-sonnet-5-5}
  - {kind: logprob, model: openai/gpt-4.1}
protocols: {debate: {rounds: 1}}
"""
SAID = {
    "choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


@contextmanager
def telling(at: dict[str, Any]) -> Iterator[tuple[str, list[Asked]]]:
    """A server with JSON at some paths, which answers each call; and its requests."""

    def answer(request: Asked) -> tuple[int, bytes]:
        if request.path.endswith("/chat/completions"):
            return 200, json.dumps(SAID).encode()
        return pages(at)(request)

    with answering(answer) as server:
        yield server


PROPS = {"/props": {"total_slots": 2, "default_generation_settings": {"n_ctx": 512}}}
SHOW = {"model_info": {"llama.context_length": 131072, "general.architecture": "llama"}}
SLOTS = [{"id": n, "n_ctx": 2048, "is_processing": n == 0} for n in range(3)]
DP = {"internal_states": [{"effective_max_running_requests_per_dp": 128}] * 2}
ONE = {"max_running_requests": 64, "internal_states": [{"last_gen_throughput": 1.0}]}


@asynccontextmanager
async def stating(pages: dict[str, Any]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with JSON at some paths, or a status; and the paths that were asked for."""
    paths: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request(reader)
        method, path, fields = head.decode().split(maxsplit=2)
        key = " with the key" if "sk-key" in fields else ""
        paths.append(f"{method} {path} {body.decode()}".strip() + key)
        page = pages.get(path, 404)
        status = f"{page} No" if isinstance(page, int) else "200 OK"
        writer.write(http(status, "", json.dumps(page).encode()))
        writer.close()

    async with listening(serve) as url:
        yield url, paths


@in_memory
async def stated(pages: dict[str, Any], ask: Callable[[str], Awaitable[Any]]) -> list[str]:
    """The answer to a question to a server with these pages, and the requests that it saw."""
    async with stating(pages) as (url, paths):
        answer = await ask(url)
    return [str(answer), *paths]


def own(provider: str, pages: dict[str, Any]) -> str:
    """Context and slots of a self-hosted server with these pages."""
    path = "" if provider == "ollama" else "/v1"
    ask = partial(settings_of, provider, {})
    stated_limits, *paths = stated(
        pages, lambda url: local_server(ask(base_url=url + path), "llama3")
    )
    assert pages is not PROPS or paths == ["GET /props"]
    assert stated(pages, lambda url: server_load(ask(base_url=url + path)))[0] == "None"
    return stated_limits


def local(pages: dict[str, Any], path: str = "", key: str = "") -> list[str]:
    """The server found at an address without a scheme."""
    variables = {"COMPATIBLE_OWN_API_KEY": key}
    return stated(pages, lambda url: self_hosted_server(url[len("http://") :] + path, variables))


def keyed(provider: str, path: str, ask: Callable[..., Awaitable[Any]], *name: str) -> list[str]:
    """The requests for information about a model of a server with a key."""
    variables = {f"{provider.upper()}_API_KEY": "sk-key"}
    at = partial(settings_of, provider, variables)
    served = {page: {} for page in ("/api/ps", "/props", "/v1/models/m")}
    return stated(served, lambda url: ask(at(base_url=url + path), *name))[1:]


def facts(provider: str, path: str, page: dict[str, Any]) -> list[str]:
    """The facts in a vendor's answer about one model."""
    ask = partial(settings_of, provider, {})
    return stated({f"{path}/models/m": page}, lambda url: model_facts(ask(base_url=url), "m"))


def ollama(*loaded: str, **show: Any) -> dict[str, Any]:
    ps = [{"model": name, "context_length": 8192} for name in loaded]
    return {"/api/ps": {"models": ps}, "/api/show": SHOW | show}


@in_memory
async def vendor(model: str) -> ModelFacts:
    """A profile's facts about a model, without a request."""
    provider, _, name = model.partition("/")
    async with MockServer(PROFILES["2026"]) as server:
        base = f"{server.url}/v1" if provider == "openai" else server.url
        facts = await model_facts(settings_of(provider, {}, base_url=base), name)
        assert "requests" not in server.counts()
    return facts


def directory(models: Any = None, providers: Any = None, **variables: str) -> Directory:
    """The models of a sweep file with these sections and this environment."""
    return Directory(Document.parse("", "s.yaml"), models or {}, providers or {}, (), variables)


def routed(models: Directory, *calls: Call) -> list[dict[str, str]]:
    """The endpoints after each call without a sweep."""
    opened = Router(models, (), Accounting(listed()), StopToken())
    return [{**models.apis} for call in calls if opened.choose_api(call) is None]


def otherwise(model: str, **facts: Any) -> list[str]:
    """The report on a model with these vendor's facts."""
    return list(ModelFacts(**facts).differences(abilities(model), retirement(model)))


def probed(shape: dict[str, Any], reply: Reply) -> str:
    """The fault of this reply to the probe of a call's shape."""
    (probe,) = probes_of([SHAPE.changed(**shape)])["compatible/lab/m"]
    assert probe.call.messages[0].role == "user" and "secret" not in str(probe.call)
    return probe.fault(reply) or "nothing"


def connected(
    caplog: pytest.LogCaptureFixture, files: int, connections: int = 0, **concurrency: int
) -> list[object]:
    """The most connections to a server, and the reason for fewer."""
    caplog.clear()
    limits = {f"compatible/lab/{name}": {"concurrency": n} for name, n in concurrency.items()}
    at = {"base_url": "http://127.0.0.1:9/v1"}
    provider = at | {"connections": connections} if connections else at
    models = directory(limits, {"compatible/lab": provider})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oversight.engine.models.router.left", lambda: files)
        router = Router(models, [("compatible/lab/a", "agent")], Accounting(listed()), StopToken())
    return [router._connections["compatible/lab chat"].most, *caplog.messages]


@sessions(Path(__file__).with_name("servers.md"))
def test_servers_and_vendors_describe_themselves(session, request, caplog):
    names = {"Token": Token, "date": date, "call_of": call_of, "caplog": caplog} | globals()
    session.check(request, printed(names), names)


def judged(place: Path, judges: str) -> Path:
    """A sweep file of a naive judge alone."""
    file = place / "judged.yaml"
    file.write_text(
        f"problems: {{bundled: arithmetic}}\njudges: {judges}\nprotocols: naive_judge\n"
    )
    return file


VLLM_METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} %d.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
"""


@virtually
async def test_a_load_is_asked_each_second_until_ten_looks_are_unanswered(monkeypatch):
    loads, events = [ServerLoad(4, 0), *[None] * 9, ServerLoad(5, 1), *[None] * 12], []

    async def load(model: str) -> ServerLoad | None:
        return loads.pop(0) if model == "vllm/m" else None

    monkeypatch.setattr(self_hosted, "server_load", load)
    servers = self_hosted.SelfHostedServers(lambda model: model)
    limiter = SimpleNamespace(
        unknown_width=4.0,
        # Nothing is asked while no call is out.
        statistics=lambda: SimpleNamespace(in_flight=now() > 10.5),
        load_stated=lambda *load: events.append((round(now()), *load)),
        load_unknown=lambda: events.append((round(now()), "unknown")),
    )
    for _ in range(2):
        servers.watch("vllm/m", limiter)
    await asyncio.sleep(32)
    servers.close()
    assert events == [(11, 4, 0), (21, 5, 1), (31, "unknown")]


def test_a_prompt_and_its_reply_may_fill_the_context_and_no_more():
    servers = self_hosted.SelfHostedServers(lambda model: model)
    servers._stated["llamacpp/m"] = LocalServer(512)
    servers.require_context(call_of(400, max_tokens=112, model="llamacpp/m"))
    servers.require_context(call_of(4_000, model="llamacpp/other"))
    with pytest.raises(ContextLengthExceeded, match="400 tokens and a reply of up to 113 exceed"):
        servers.require_context(call_of(400, max_tokens=113, model="llamacpp/m"))


@in_memory
async def test_a_page_that_comes_in_parts_is_read_to_its_end():
    """A stream hands over what has arrived; the rest of a long page comes later."""
    page = ("# HELP\n" * 100 + VLLM_METRICS % 40).encode()
    closed = asyncio.Event()

    async def in_parts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        half = len(page) - 400
        for part in (head % len(page), page[:half], page[half:]):
            await asyncio.sleep(0.05)
            writer.write(part)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with listening(in_parts) as url:
        settings = settings_of("vllm", {}, base_url=f"{url}/v1")
        assert await server_load(settings) == load_in(page.decode()) == ServerLoad(42, 0)
        await closed.wait()


@pytest.mark.wire
def test_server_that_states_its_load_gets_more_calls_while_none_wait(place, command, monkeypatch):
    file = judged(place, "vllm/m")
    monkeypatch.setattr(self_hosted, "LOAD_SECONDS", 0.02)
    looked, looks = threading.Semaphore(0), itertools.count(1)

    def answer(request: Asked) -> tuple[int, bytes]:
        if request.path == "/metrics":
            looked.release()
            if next(looks) == 2:
                return 503, b"too busy to say"
            return 200, (VLLM_METRICS % 2).encode()
        # For each look at its load, the server answers one call.
        assert looked.acquire(timeout=60)
        return 200, json.dumps(SAID).encode()

    async def width() -> float:
        with answering(answer) as (url, _):
            opened = open_sweep(file, (f"providers.vllm.base_url={url}/v1",))
            calls = [Call(Request("vllm/m", (Message("user", str(n)),))) for n in range(24)]
            models = router(opened)
            await asyncio.gather(*map(models, calls))
            await models.close()
            return models._sender("vllm/m").limiter.unknown_width

    assert asyncio.run(width()) >= 8.0


@pytest.mark.wire
def test_a_prompt_that_would_be_cut_is_never_sent(place, command):
    file = judged(place, "{kind: stated, model: llamacpp/m, max_tokens: 400}")
    with telling(PROPS) as (url, requests):
        at = f"providers.llamacpp.base_url={url}/v1"
        ran = command("run", file, "--limit", "1", "--run-folder", "run", "--set", at)
        assert [request.path for request in requests] == ["/props"]
    assert ran.code == 1
    assert "exceed the 512 of its server" in (place / "run" / "outcomes.jsonl").read_text()


@in_memory
async def test_each_prompt_has_to_fit_whatever_went_before(place):
    file, call = judged(place, "llamacpp/m"), Call(Request("llamacpp/m", (Message("user", "?"),)))
    async with stating(PROPS | {"/v1/chat/completions": SAID}) as (url, requests):
        models = router(open_sweep(file, (f"providers.llamacpp.base_url={url}/v1",)))
        for _ in range(2):
            assert (await models(call.changed(max_tokens=8))).text == "Yes."
            with pytest.raises(ContextLengthExceeded):
                await models(call.changed(max_tokens=600))
        await models.close()
    completions = ["POST /v1/chat/completions"] * 2
    assert [" ".join(line.split()[:2]) for line in requests] == ["GET /props", *completions]


@pytest.mark.wire
def test_no_more_calls_go_out_at_once_than_the_server_has_places(place, command):
    file = judged(place, "llamacpp/m")

    async def width(*overrides: str) -> int | None:
        with telling(PROPS) as (url, _):
            models = router(open_sweep(file, (f"providers.llamacpp.base_url={url}/v1", *overrides)))
            await models.servers.fetch_info("llamacpp/m")
            return models._sender("llamacpp/m").limiter._set.concurrency

    assert asyncio.run(width()) == 2 and asyncio.run(width("models.llamacpp/m.concurrency=1")) == 1


@pytest.mark.wire
def test_a_checkup_tries_what_the_sweep_asks_for_and_nothing_else(place, command, monkeypatch):
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
    (place / "probed.yaml").write_text(SWEEP)
    retired = ["--set", "agents.model=anthropic/claude-opus-4-1", "--set", "agents.tools=none"]
    with serving(["--profile", "2026"]) as url:
        at = ["--set", f"providers.openai.base_url={url}/v1"]
        at += ["--set", f"providers.anthropic.base_url={url}"]
        ran = command("doctor", "probed.yaml", *at)
        served = counts(url)
        unwell = command("doctor", "probed.yaml", *at, *retired)
    assert unwell.code == 1
    assert "✗ anthropic/claude-opus-4-1: its vendor says that it is no longer served" in unwell.out
    assert ran.code == 0, ran.out
    # One token of each of the three models, and what each is needed for; tools there and back.
    assert served["requests"] == served["ok"] == 7
    assert "✓ openai/gpt-6-sol: tools: as the sweep needs" in ran.out
    assert "over the responses endpoint" in ran.out
    assert "✓ anthropic/claude-sonnet-5-5: a JSON schema: as the sweep needs" in ran.out
    assert "✓ openai/gpt-4.1: logprobs: as the sweep needs" in ran.out
    assert "openai/gpt-4.1: its vendor says that it is served, until 2027-01-14" in ran.out


SHAPE = Call(Request("compatible/lab/m", (Message("user", "secret"),), max_tokens=64))
SCHEMA = ResponseFormat("v", '{"type":"object","required":["A"]}')
TOOL = ToolSpec("calculator", "adds", '{"type":"object"}')


@pytest.mark.wire
def test_a_server_without_logprobs_is_found_out_by_the_checkup(place, command):
    file = judged(place, "{kind: logprob, model: compatible/lab/m}")
    with telling({}) as (url, _):
        ran = command("doctor", file, "--set", f"providers.compatible/lab.base_url={url}/v1")
    assert ran.code == 1 and "✗ compatible/lab/m: logprobs: it answers without logprobs" in ran.out
    assert "judge by stated probabilities or votes" in ran.out


@pytest.mark.wire
@pytest.mark.parametrize(
    ("end", "text"),
    [("4", "tools: as the sweep needs"), ("", "tools: the model returned an empty reply")],
)
async def test_a_checkup_of_tools_hands_their_results_back(end, text):
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        back = call.messages[-1].role == "tool"
        return Reply(end) if back else Reply("", (ToolCall("1", "calculator", "{}"),))

    async with MockServer(answer=answer) as server:
        checks = await examine(
            ["compatible/lab/m"],
            lambda name, api: Settings(name, f"{server.url}/v1", "lab"),
            {},
            shapes=[SHAPE.changed(tools=(TOOL,))],
        )
    assert [len(call.messages) for call in calls if call.tools] == [1, 3]
    (looked,) = (check for check in checks if text in check.text)
    assert looked.fine == bool(end)
