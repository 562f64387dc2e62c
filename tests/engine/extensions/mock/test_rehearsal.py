"""The rehearsal server, and its desk that takes batches, held against the vendors' own clients.

They are imported where they are used: that takes a second, in which the unit ring is collected."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.cache import Call, Reply, Token, ToolCall
from oversight.engine.errors import ModelNotFound
from oversight.engine.extensions.mock import (
    PROFILES,
    FaultKind,
    FaultWindow,
    MockServer,
    Profile,
    Responder,
    load_profile,
)
from oversight.engine.extensions.mock.connection import ServerBudgets
from oversight.engine.extensions.mock.profile import BatchProfile
from tests.sessions import sessions
from tests.tables import expressions
from tests.waiting import until

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module", autouse=True)
def _vendors_clients() -> None:
    """Imported when a test of here is run: pytest touches every name of a module that it collects,
    which would import them, for two seconds, in every worker of every ring."""
    global anthropic, openai
    import anthropic
    import openai


ASKED: Any = [{"role": "user", "content": "2 + 2?"}]


@asynccontextmanager
async def clients(
    profile: Profile = PROFILES["calm"], answer: Responder | None = None, patience: Any = 20.0
) -> AsyncIterator[tuple[Callable[..., Any], Callable[..., Any], MockServer]]:
    """`create` of both official clients, and the server that they talk to."""
    async with (
        MockServer(profile, answer) as server,
        openai.AsyncOpenAI(
            api_key="k", base_url=f"{server.url}/v1", max_retries=0, timeout=patience
        ) as chat,
        anthropic.AsyncAnthropic(
            api_key="k", base_url=server.url, max_retries=0, timeout=patience
        ) as claude,
    ):

        async def ask_openai(**settings: Any) -> Any:
            settings = {"model": "m", "messages": ASKED} | settings
            return await chat.chat.completions.create(**settings)

        async def ask_anthropic(**settings: Any) -> Any:
            settings = {"model": "m", "messages": ASKED, "max_tokens": 100} | settings
            return await claude.messages.create(**settings)

        yield ask_openai, ask_anthropic, server


def says(reply: Reply) -> Responder:
    return lambda call: reply


async def asked(
    which: int, reply: Reply | None = None, fault: FaultKind | None = None, **settings: Any
) -> str:
    """A client's view of a reply, or of a fault on each request."""
    profile = Profile((FaultWindow(fault, 1.0),), drip=2.0, speed=100.0) if fault else Profile()
    patience = openai.Timeout(20.0, read=0.2 if fault == "stall" else 20.0)
    async with clients(profile, says(reply) if reply else None, patience) as (*ask, server):
        try:
            answer = await ask[which](**settings)
        except (openai.OpenAIError, anthropic.AnthropicError) as exc:
            text = f"{type(exc).__name__} {getattr(exc, 'code', None) or ''}".rstrip()
        else:
            text = answer.model_dump_json(exclude_none=True, exclude={"id", "created"})
        # It may not have read yet what its client gave up.
        await asyncio.to_thread(until, lambda: not fault or server.counts().get(fault) == 1)
    return re.sub(r"127\.0\.0\.1:\d+", "SERVER", text)


@sessions(Path(__file__).with_name("rehearsal.md"))
def test_the_vendors_clients_take_it_for_their_vendor(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def profile(text: str) -> object:
        Path("p.yaml").write_text(text)
        return load_profile("p.yaml")

    names = {"chat": partial(asked, 0), "claude": partial(asked, 1), "profile": profile}
    names |= {"Reply": Reply, "Token": Token, "ToolCall": ToolCall, "load_profile": load_profile}
    names |= {"Profile": Profile, "FaultWindow": FaultWindow, "ServerBudgets": ServerBudgets}
    names |= {"PROFILES": PROFILES}

    def answer(text: str) -> Iterator[str]:
        for line in expressions(names)(text):
            yield line.replace("\\n", " ")

    session.check(request, answer)


async def test_the_quota_ends_after_as_many_replies_as_it_holds():
    async with clients(Profile(quota=2)) as (chat, _, server):
        await chat()
        await chat()
        with pytest.raises(openai.RateLimitError):
            await chat()
    assert server.counts()["ok"] == 2 and server.counts()["quota"] == 1


async def test_a_call_that_nobody_can_answer_says_so():
    def answer(call: Call) -> Reply:
        raise ModelNotFound(f"nobody plays {call.model}")

    async with clients(answer=answer) as (chat, claude, server):
        with pytest.raises(openai.BadRequestError, match="nobody plays m"):
            await chat()
        with pytest.raises(anthropic.BadRequestError, match="nobody plays m"):
            await claude()
    assert server.counts()["nonsense"] == 2


async def test_equal_requests_meet_the_same_fates_whatever_the_order_they_come_in():
    profile = Profile((FaultWindow("server_error", 0.3), FaultWindow("overloaded", 0.3)), seed=5)

    async def fates(order: list[int]) -> dict[int, str]:
        fate_of: dict[int, str] = {}
        async with clients(profile) as (chat, _, _):
            for n in order:
                try:
                    await chat(messages=[{"role": "user", "content": f"{n}?"}])
                    fate_of[n] = "ok"
                except openai.InternalServerError as exc:
                    fate_of[n] = str(exc.status_code)
        return fate_of

    forwards = await fates(list(range(20)))
    assert await fates(list(reversed(range(20)))) == forwards
    assert set(forwards.values()) == {"ok", "500", "503"}


async def test_generated_tokens_are_counted_as_billed():
    async with clients(answer=says(Reply("x" * 400))) as (chat, claude, server):
        await chat()
        await claude()
        counts = server.counts()
    assert counts["output_tokens"] == 2 * (1 + 400 // 6) and counts["repeats"] == 0
    assert (counts["in_flight"], counts["peak"]) == (0, 1)


def test_the_server_runs_from_the_command_line_and_stops_on_a_signal():
    command = [sys.executable, "-m", "oversight.engine.extensions.mock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        client = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        with client:
            reply = client.chat.completions.create(model="m", messages=ASKED)
        server.terminate()
    assert reply.choices[0].message.content.startswith("word0 word1 word2")
    assert server.returncode == 0


async def test_server_refuses_requests_that_are_not_http():
    async with MockServer() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01 hello")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()


BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
DESK = Profile(batch=BatchProfile(expired=0.5))


async def test_openais_own_client_gets_along_with_it():
    lines = [
        {"custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions", "body": BODY}
        for n in range(8)
    ]
    async with (
        MockServer(DESK) as server,
        openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        created = await client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"mark": "x"},
        )
        batch = await client.batches.retrieve(created.id)
        assert (batch.status, batch.metadata) == ("completed", {"mark": "x"})
        assert [listed.id async for listed in client.batches.list()] == [batch.id]
        results: dict[str, Any] = {}
        for name in (batch.output_file_id, batch.error_file_id):
            assert name is not None
            output = (await client.files.content(name)).content
            results |= {line["custom_id"]: line for line in map(orjson.loads, output.splitlines())}
    assert sorted(results) == [f"c{n}" for n in range(8)]
    codes = {(line["error"] or {}).get("code") for line in results.values()}
    assert codes == {None, "batch_expired"}


async def test_anthropics_own_client_gets_along_with_it():
    async with (
        MockServer(DESK) as server,
        anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        requests: Any = [{"custom_id": f"c{n}", "params": BODY} for n in range(8)]
        created = await client.messages.batches.create(requests=requests)
        batch = await client.messages.batches.retrieve(created.id)
        assert batch.processing_status == "ended"
        assert [item.id async for item in client.messages.batches.list()] == [batch.id]
        results = await client.messages.batches.results(created.id)
        kinds = {item.custom_id: item.result.type async for item in results}
    assert sorted(kinds) == [f"c{n}" for n in range(8)]
    assert set(kinds.values()) == {"succeeded", "expired"}
    assert batch.request_counts.succeeded == sum(kind == "succeeded" for kind in kinds.values())
