"""Requests of the vendors' clients for a call equal ours.

Bodies are compared in canonical JSON, since the order of names has no meaning; of the headers,
those that identify the sender and the purpose. Each call is made twice against a local recorder: by
the typed method of the official client, with the arguments of its documentation, and by the
provider."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.reply import ToolCall
from oversight.engine.errors import AuthenticationFailed, EngineError
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.catalogue import provider_of
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.sdk import anthropic_client, openai_client
from oversight.engine.providers.settings import Api, Settings
from oversight.engine.providers.wire import kept_prefix
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import Consultancy
from oversight.protocols.mechanisms.critique import Critique
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.prompts.render import shared_beginning
from oversight.protocols.question import Answer, Question
from tests.fakes import Scripted, prompt
from tests.lines import listening, request

KEY = "sk-recorded-0123456789"
SYSTEM, USER = Message("system", "Be brief."), Message("user", "2 + 2 – “zwei”?")
PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}}
TOOL = ToolSpec("calculator", "Evaluates.", orjson.dumps(PARAMETERS).decode())
SCHEMA = {
    "type": "object", "properties": {"A": {"type": "number"}}, "required": ["A"],
    "additionalProperties": False,
}  # fmt: skip
FORMAT = ResponseFormat("verdict", orjson.dumps(SCHEMA).decode())
WISH = ToolCall("call_1", "calculator", '{"expression":"2+2"}')
TURN = (Message("assistant", "", (WISH,)), Message("tool", "4", tool_call_id="call_1"))
LATER = (Message("assistant", "4."), Message("user", "Sure?"))
CHAT_SYSTEM = [{"role": "system", "content": SYSTEM.text}, {"role": "user", "content": USER.text}]
CHAT_TOOL = {"name": "calculator", "description": "Evaluates.", "parameters": PARAMETERS}
SCHEMA_GIVEN = {"name": "verdict", "schema": SCHEMA, "strict": True}
CHAT_TOOLS = [{"type": "function", "function": CHAT_TOOL}]
CHAT_LATER = [{"role": "assistant", "content": "4."}, {"role": "user", "content": "Sure?"}]
CHAT_WISH = {"id": "call_1", "type": "function"} | {
    "function": {"name": WISH.name, "arguments": WISH.arguments}
}
CHAT_TURN = [
    {"role": "assistant", "content": None, "tool_calls": [CHAT_WISH]},
    {"role": "tool", "tool_call_id": "call_1", "content": "4"},
]


def of(model: str, *messages: Message, draw: tuple[int, ...] = (), **settings: Any) -> Call:
    return Call(Request(model, messages, **settings), draw)


GPT, SOL, ASKED = "openai/gpt-4.1", "openai/gpt-6-sol", (SYSTEM, USER)
CHAT: list[tuple[Call, dict[str, Any]]] = [
    (of(GPT, USER), {"messages": CHAT_SYSTEM[1:]}),
    (of(GPT, *ASKED, temperature=0.0, draw=(3, 1)), {"temperature": 0.0}),
    (of(GPT, *ASKED, top_p=0.9), {"top_p": 0.9}),
    (of(GPT, *ASKED, stop=("END", "\n")), {"stop": ["END", "\n"]}),
    (of(GPT, *ASKED, top_logprobs=5), {"logprobs": True, "top_logprobs": 5}),
    (of(SOL, *ASKED, effort="high"), {"reasoning_effort": "high"}),
    (of(GPT, *ASKED, tools=(TOOL,)), {"tools": CHAT_TOOLS}),
    (of(GPT, *ASKED, response_format=FORMAT),
     {"response_format": {"type": "json_schema", "json_schema": SCHEMA_GIVEN}}),
    (of(GPT, *ASKED, *TURN, tools=(TOOL,)),
     {"messages": [*CHAT_SYSTEM, *CHAT_TURN], "tools": CHAT_TOOLS}),
    (of(GPT, *ASKED, *LATER, max_tokens=7),
     {"messages": [*CHAT_SYSTEM, *CHAT_LATER], "max_completion_tokens": 7}),
]  # fmt: skip
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALLED = {
    **{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"},
    **{"name": "calculator", "arguments": WISH.arguments},
}
CAME = replace(TURN[0], opaque=orjson.dumps([THOUGHT, CALLED]).decode())
GAVE = {"type": "function_call_output", "call_id": "call_1", "output": "4"}
RESPONSES_TOOL = {"type": "function", **CHAT_TOOL, "strict": False}
SEALED = {"include": ["reasoning.encrypted_content"]}
SCORED = {"include": ["message.output_text.logprobs"], "top_logprobs": 5}
RESPONSES: list[tuple[Call, dict[str, Any]]] = [
    (of(GPT, USER), {"input": CHAT_SYSTEM[1:]}),
    (of(GPT, *ASKED, temperature=0.0, draw=(3, 1)), {"temperature": 0.0}),
    (of(GPT, *ASKED, top_p=0.9), {"top_p": 0.9}),
    (of(SOL, *ASKED), SEALED),
    (of(GPT, *ASKED, top_logprobs=5, max_tokens=16), SCORED | {"max_output_tokens": 16}),
    (of(SOL, *ASKED, effort="xhigh"), {"reasoning": {"effort": "xhigh"}, **SEALED}),
    (of("openai/gpt-6-astra", *ASKED, tools=(TOOL,)), {"tools": [RESPONSES_TOOL], **SEALED}),
    (of(GPT, *ASKED, response_format=FORMAT),
     {"text": {"format": {"type": "json_schema", **SCHEMA_GIVEN}}}),
    (of(SOL, *ASKED, CAME, TURN[1], tools=(TOOL,)),
     {"input": [*CHAT_SYSTEM, THOUGHT, CALLED, GAVE], "tools": [RESPONSES_TOOL], **SEALED}),
    (of(GPT, *ASKED, *LATER), {"input": [*CHAT_SYSTEM, *CHAT_LATER]}),
]  # fmt: skip
SAID = {"role": "user", "content": [{"type": "text", "text": USER.text}]}
CLAUDE = {"messages": [SAID], "system": [{"type": "text", "text": SYSTEM.text}]}
CLAUDE_TOOL = {"name": "calculator", "description": "Evaluates.", "input_schema": PARAMETERS}
OPUS, HAIKU = "anthropic/claude-opus-5-5", "anthropic/claude-haiku-4-5"
THINKING = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "tool_use", "id": "call_1", "name": "calculator", "input": {"expression": "2+2"}},
]
THOUGHT_OF = replace(TURN[0], opaque=orjson.dumps(THINKING).decode())
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "4"}
CLAUDE_TURN = [{"role": "assistant", "content": THINKING}, {"role": "user", "content": [RESULT]}]
CLAUDE_LATER = [
    {"role": "assistant", "content": "4."},
    {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
]
MESSAGES: list[tuple[Call, dict[str, Any]]] = [
    (of(HAIKU, USER), {"messages": [SAID]}),
    (of(HAIKU, *ASKED, temperature=0.0, draw=(2,)), {"extra_body": {"temperature": 0.0}}),
    (of(HAIKU, *ASKED, top_p=0.9), {"extra_body": {"top_p": 0.9}}),
    (of(HAIKU, *ASKED, stop=("END",)), {"stop_sequences": ["END"]}),
    (of(OPUS, *ASKED, effort="high"),
     {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
    (of(HAIKU, *ASKED, effort="low", max_tokens=8000),
     {"max_tokens": 8000, "thinking": {"type": "enabled", "budget_tokens": 2000}}),
    (of(OPUS, *ASKED, tools=(TOOL,)), {"tools": [CLAUDE_TOOL]}),
    (of(OPUS, *ASKED, response_format=FORMAT),
     {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    (of(OPUS, *ASKED, THOUGHT_OF, TURN[1], tools=(TOOL,)),
     {"messages": [SAID, *CLAUDE_TURN], "tools": [CLAUDE_TOOL]}),
    (of(OPUS, *ASKED, *LATER), {"messages": [SAID, *CLAUDE_LATER]}),
]  # fmt: skip
USUAL: dict[str, dict[str, Any]] = {
    "chat": {"messages": CHAT_SYSTEM, "max_completion_tokens": 1024, "stream": False},
    "responses": {"input": CHAT_SYSTEM, "max_output_tokens": 1024, "store": False, "stream": False},
    "messages": {"max_tokens": 1024},
}
WIRES = {"chat": OpenAIWire(), "responses": ResponsesWire(), "messages": AnthropicWire()}
CALLS = [
    *(("chat", *case) for case in CHAT),
    *(("responses", *case) for case in RESPONSES),
    ("messages", *MESSAGES[0]),
    *(("messages", call, CLAUDE | settings) for call, settings in MESSAGES[1:]),
]


@asynccontextmanager
async def recorder() -> AsyncIterator[tuple[str, list[tuple[bytes, bytes]]]]:
    """A server that notes each request, head and body, and refuses it."""
    noted: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        noted.append(await request(reader))
        writer.write(b"HTTP/1.1 400 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()

    async with listening(serve) as url:
        yield url, noted


async def by_the_vendors_client(wire: str, call: Call, settings: dict[str, Any], url: str) -> None:
    import anthropic
    import openai

    settings = {"model": call.model.partition("/")[2], **USUAL[wire], **settings}
    if wire == "messages":
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as claude:
            with pytest.raises(anthropic.BadRequestError):
                await claude.messages.create(**settings)
        return
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as gpt:
        with pytest.raises(openai.BadRequestError):
            endpoint = gpt.chat.completions if wire == "chat" else gpt.responses
            await endpoint.create(**settings)


async def by_ours(wire: str, call: Call, url: str) -> None:
    provider = provider_of(call.model)
    api: Api = "responses" if wire == "responses" else "chat"
    key = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    base = url if wire == "messages" else f"{url}/v1"
    ask = connect(settings_of(provider, key, base_url=base, api=api))
    with pytest.raises(EngineError):
        await ask(call)
    await ask.close()


def canonical(body: bytes) -> bytes:
    """JSON without a meaning in the order of its names."""
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)


def headers(head: bytes) -> dict[str, str]:
    lines = head.decode().split("\r\n")[1:]
    return {key.lower(): value for key, _, value in (line.partition(": ") for line in lines) if key}


@pytest.mark.parametrize(("wire", "call", "settings"), CALLS)
def test_a_body_has_the_fields_of_the_vendors_documentation(wire, call, settings):
    body = {"model": call.model.partition("/")[2], **USUAL[wire], **settings}
    body |= body.pop("extra_body", {})
    assert orjson.loads(WIRES[wire].body(call)) == body


@pytest.mark.wire
@pytest.mark.parametrize(("wire", "call", "settings"), CALLS)
async def test_requests_equal_the_vendors_clients(wire, call, settings):
    async with recorder() as (url, noted):
        await by_the_vendors_client(wire, call, settings, url)
        await by_ours(wire, call, url)
    (their_head, their_body), (our_head, our_body) = noted
    assert canonical(our_body) == canonical(their_body)
    assert our_head.split(b"\r\n")[0] == their_head.split(b"\r\n")[0]
    theirs, ours = headers(their_head), headers(our_head)
    for name in ("host", "content-type", "authorization", "x-api-key"):
        assert ours.get(name) == theirs.get(name), name
    assert ours["accept-encoding"] == "gzip, deflate"
    if wire == "messages":
        assert ours["anthropic-version"] == "2023-06-01"


ANSWERS = (Answer("A", "48"), Answer("B", "36"))


def calls_of(problem: str, model: str) -> list[Call]:
    """Calls of several mechanisms about one problem, with the passage for everybody."""
    question = Question(f"What of {problem}?", ANSWERS, f"A long story of {problem}. " * 400)
    judge, agent = StatedJudge(model, reads_passage=True), Agent(model)

    def script(call: Call) -> str:
        is_statement = prompt(call).task == "statement"
        return ("Yes: 60%\nNo: 40%" if is_statement else "A: 60%\nB: 40%") if call.model else "So."

    ask = Scripted(script)
    for protocol in (Debate(judge, agent), Consultancy(judge, agent), Critique(judge, agent)):
        for side in ANSWERS:
            asyncio.run(protocol.run(question, side, ask))
    return ask.calls


def test_calls_are_routed_by_problem():
    for wire in (OpenAIWire(), ResponsesWire()):
        keys = [
            {
                orjson.loads(wire.body(call))["prompt_cache_key"]
                for call in calls_of(fruit, "openai/m")
            }
            for fruit in ("apples", "pears")
        ]
        assert [len(fruit) for fruit in keys] == [1, 1] and keys[0] != keys[1]


def test_common_parts_of_problem_and_protocol_are_marked():
    calls = calls_of("apples", "anthropic/claude-opus-4-8")
    bodies = [orjson.loads(AnthropicWire().body(call)) for call in calls]
    first, last = ({str(body["system"][place]) for body in bodies} for place in (0, -1))
    assert (len(first), len(last)) == (1, 3)
    assert all("cache_control" in block for body in bodies for block in body["system"])
    assert len({kept_prefix(call) for call in calls}) == 1
    # The part that a store keeps once.
    assert len({shared_beginning(call) for call in calls}) == 1
    for call, body in zip(calls, bodies, strict=True):
        assert "".join(block["text"] for block in body["system"]) == call.messages[0].text


def test_other_servers_are_sent_no_key():
    body = orjson.loads(OpenAIWire("vllm").body(calls_of("apples", "vllm/m")[0]))
    assert "prompt_cache_key" not in body


@pytest.mark.parametrize(
    ("provider", "name", "arguments"),
    [
        ("openai", "AsyncOpenAI", {"api_key": KEY, "organization": "o", "project": "p"}),
        ("azure", "AsyncOpenAI", {"api_key": KEY, "organization": "o", "project": "p"}),
        ("anthropic", "AsyncAnthropic", {"api_key": KEY}),
        ("foundry", "AsyncAnthropicFoundry", {"api_key": KEY}),
        ("bedrock", "AsyncAnthropicBedrock", {"api_key": KEY, "aws_region": "r"}),
        ("vertex", "AsyncAnthropicVertex", {"access_token": KEY, "region": "r", "project_id": "p"}),
    ],
)
def test_a_vendors_client_sends_each_call_once_within_our_deadline(
    provider, name, arguments, monkeypatch
):
    library = SimpleNamespace(**{name: lambda **arguments: arguments})
    monkeypatch.setitem(sys.modules, "openai" if name == "AsyncOpenAI" else "anthropic", library)
    options = (("organization", "o"), ("project", "p"), ("region", "r"))
    settings = Settings(provider, "https://h", "lab", key=KEY, deadline=7.0, options=options)
    ours = {"timeout": 7.0, "max_retries": 0, "http_client": "http"}
    ours["base_url"] = "https://h/openai/v1" if provider == "azure" else "https://h"
    if name == "AsyncOpenAI":
        assert openai_client(settings, "http") == arguments | ours
    else:
        assert anthropic_client(settings, "http") == arguments | ours | {"open_telemetry": False}


@pytest.mark.wire
async def test_a_key_that_a_vendors_client_quotes_is_hidden(monkeypatch):
    async def post(*args: object, **options: object) -> None:
        raise RuntimeError(f"{KEY} is for another region")

    monkeypatch.setattr("openai.AsyncOpenAI.post", post)
    ask = connect(settings_of("openai", {"OPENAI_API_KEY": KEY}))
    with pytest.raises(AuthenticationFailed, match=r"is for another region$") as caught:
        await ask(of(GPT, USER))
    assert KEY not in str(caught.value)
