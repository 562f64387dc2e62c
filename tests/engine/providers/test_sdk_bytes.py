"""What the vendors' own clients send for a call, and what goes out here: the same.

Bodies are compared byte by byte in canonical JSON, as the order of names has no meaning; of the
headers, those that say who asks and for what. Each call is made twice against a recorder of this
machine: once by the typed method of the official client, with the arguments of its documentation,
and once by the provider.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.reply import ToolCall
from oversight.engine.errors import EngineError
from oversight.engine.providers.capabilities import Api
from oversight.engine.providers.catalogue import connect, provider_of
from oversight.engine.providers.keys import settings_of
from tests.lines import listening, request

KEY = "sk-recorded-0123456789"
SYSTEM, USER = Message("system", "Be brief."), Message("user", "2 + 2 – “zwei”?")
PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}}
TOOL = ToolSpec("calculator", "Evaluates.", orjson.dumps(PARAMETERS).decode())
SCHEMA = {
    "type": "object",
    "properties": {"A": {"type": "number"}},
    "required": ["A"],
    "additionalProperties": False,
}
FORMAT = ResponseFormat("verdict", orjson.dumps(SCHEMA).decode())
WISH = ToolCall("call_1", "calculator", '{"expression":"2+2"}')
TURN = (Message("assistant", "", (WISH,)), Message("tool", "4", tool_call_id="call_1"))
LATER = (Message("assistant", "4."), Message("user", "Sure?"))
CHAT_SYSTEM = [
    {"role": "system", "content": SYSTEM.text},
    {"role": "user", "content": USER.text},
]
CHAT_TOOL = {"name": "calculator", "description": "Evaluates.", "parameters": PARAMETERS}
SCHEMA_GIVEN = {"name": "verdict", "schema": SCHEMA, "strict": True}

CHAT: list[tuple[Call, dict[str, Any]]] = [
    (Call(Request("openai/gpt-4.1", (USER,))), {"messages": CHAT_SYSTEM[1:]}),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), temperature=0.0), (3, 1)),
        {"temperature": 0.0},
    ),
    (Call(Request("openai/gpt-4.1", (SYSTEM, USER), top_p=0.9)), {"top_p": 0.9}),
    (Call(Request("openai/gpt-4.1", (SYSTEM, USER), stop=("END", "\n"))), {"stop": ["END", "\n"]}),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), top_logprobs=5)),
        {"logprobs": True, "top_logprobs": 5},
    ),
    (
        Call(Request("openai/gpt-6-sol", (SYSTEM, USER), effort="high")),
        {"reasoning_effort": "high"},
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), tools=(TOOL,))),
        {"tools": [{"type": "function", "function": CHAT_TOOL}]},
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), response_format=FORMAT)),
        {"response_format": {"type": "json_schema", "json_schema": SCHEMA_GIVEN}},
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER, *TURN), tools=(TOOL,))),
        {
            "messages": [
                *CHAT_SYSTEM,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": WISH.name, "arguments": WISH.arguments},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "4"},
            ],
            "tools": [{"type": "function", "function": CHAT_TOOL}],
        },
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER, *LATER), max_tokens=7)),
        {
            "messages": [
                *CHAT_SYSTEM,
                {"role": "assistant", "content": "4."},
                {"role": "user", "content": "Sure?"},
            ],
            "max_completion_tokens": 7,
        },
    ),
]
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "calculator",
    "arguments": WISH.arguments,
    "status": "completed",
}
CAME = orjson.dumps([THOUGHT, CALLED]).decode()
RESPONSES_TOOL = {"type": "function", **CHAT_TOOL, "strict": False}
SEALED = {"include": ["reasoning.encrypted_content"]}
RESPONSES: list[tuple[Call, dict[str, Any]]] = [
    (Call(Request("openai/gpt-4.1", (USER,))), {"input": CHAT_SYSTEM[1:]}),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), temperature=0.0), (3, 1)),
        {"temperature": 0.0},
    ),
    (Call(Request("openai/gpt-4.1", (SYSTEM, USER), top_p=0.9)), {"top_p": 0.9}),
    (Call(Request("openai/gpt-6-sol", (SYSTEM, USER))), SEALED),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), top_logprobs=5, max_tokens=16)),
        {
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 5,
            "max_output_tokens": 16,
        },
    ),
    (
        Call(Request("openai/gpt-6-sol", (SYSTEM, USER), effort="xhigh")),
        {"reasoning": {"effort": "xhigh"}, **SEALED},
    ),
    (
        Call(Request("openai/gpt-6-astra", (SYSTEM, USER), tools=(TOOL,))),
        {"tools": [RESPONSES_TOOL], **SEALED},
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER), response_format=FORMAT)),
        {"text": {"format": {"type": "json_schema", **SCHEMA_GIVEN}}},
    ),
    (
        Call(
            Request(
                "openai/gpt-6-sol",
                (SYSTEM, USER, replace(TURN[0], opaque=CAME), TURN[1]),
                tools=(TOOL,),
            )
        ),
        {
            "input": [
                *CHAT_SYSTEM,
                THOUGHT,
                CALLED,
                {"type": "function_call_output", "call_id": "call_1", "output": "4"},
            ],
            "tools": [RESPONSES_TOOL],
            **SEALED,
        },
    ),
    (
        Call(Request("openai/gpt-4.1", (SYSTEM, USER, *LATER))),
        {
            "input": [
                *CHAT_SYSTEM,
                {"role": "assistant", "content": "4."},
                {"role": "user", "content": "Sure?"},
            ]
        },
    ),
]
SAID = {"role": "user", "content": [{"type": "text", "text": USER.text}]}
CLAUDE = {"messages": [SAID], "system": [{"type": "text", "text": SYSTEM.text}]}
CLAUDE_TOOL = {"name": "calculator", "description": "Evaluates.", "input_schema": PARAMETERS}
OPUS, HAIKU = "anthropic/claude-opus-5-5", "anthropic/claude-haiku-4-5"
THINKING = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "tool_use", "id": "call_1", "name": "calculator", "input": {"expression": "2+2"}},
]
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "4"}],
}
MESSAGES: list[tuple[Call, dict[str, Any]]] = [
    (Call(Request(HAIKU, (USER,))), {"messages": [SAID]}),
    (
        Call(Request(HAIKU, (SYSTEM, USER), temperature=0.0), (2,)),
        CLAUDE | {"extra_body": {"temperature": 0.0}},
    ),
    (Call(Request(HAIKU, (SYSTEM, USER), top_p=0.9)), CLAUDE | {"extra_body": {"top_p": 0.9}}),
    (Call(Request(HAIKU, (SYSTEM, USER), stop=("END",))), CLAUDE | {"stop_sequences": ["END"]}),
    (
        Call(Request(OPUS, (SYSTEM, USER), effort="high")),
        CLAUDE | {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    ),
    (
        Call(Request(HAIKU, (SYSTEM, USER), effort="low", max_tokens=8000)),
        CLAUDE | {"max_tokens": 8000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
    ),
    (Call(Request(OPUS, (SYSTEM, USER), tools=(TOOL,))), CLAUDE | {"tools": [CLAUDE_TOOL]}),
    (
        Call(Request(OPUS, (SYSTEM, USER), response_format=FORMAT)),
        CLAUDE | {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    (
        Call(
            Request(
                OPUS,
                (SYSTEM, USER, replace(TURN[0], opaque=orjson.dumps(THINKING).decode()), TURN[1]),
                tools=(TOOL,),
            )
        ),
        CLAUDE
        | {
            "messages": [SAID, {"role": "assistant", "content": THINKING}, RESULT],
            "tools": [CLAUDE_TOOL],
        },
    ),
    (
        Call(Request(OPUS, (SYSTEM, USER, *LATER))),
        CLAUDE
        | {
            "messages": [
                SAID,
                {"role": "assistant", "content": "4."},
                {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
            ]
        },
    ),
]
CALLS = [
    *(("chat", *each) for each in CHAT),
    *(("responses", *each) for each in RESPONSES),
    *(("messages", *each) for each in MESSAGES),
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


async def by_the_vendors_client(wire: str, call: Call, given: dict[str, Any], url: str) -> None:
    import anthropic
    import openai

    model = call.model.partition("/")[2]
    if wire == "messages":
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as claude:
            with pytest.raises(anthropic.BadRequestError):
                await claude.messages.create(model=model, **({"max_tokens": 1024} | given))
        return
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as gpt:
        with pytest.raises(openai.BadRequestError):
            if wire == "chat":
                usual = {"messages": CHAT_SYSTEM, "max_completion_tokens": 1024}
                await gpt.chat.completions.create(model=model, **(usual | given))
            else:
                plain = {"input": CHAT_SYSTEM, "max_output_tokens": 1024, "store": False}
                await gpt.responses.create(model=model, **(plain | given))


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
    return {
        name.lower(): value for name, _, value in (line.partition(": ") for line in lines) if name
    }


@pytest.mark.wire
@pytest.mark.parametrize(("wire", "call", "given"), CALLS)
async def test_what_goes_out_is_what_the_vendors_client_sends(
    wire: str, call: Call, given: dict[str, Any]
) -> None:
    async with recorder() as (url, noted):
        await by_the_vendors_client(wire, call, given, url)
        await by_ours(wire, call, url)
    (their_head, their_body), (our_head, our_body) = noted
    assert canonical(our_body) == canonical(their_body)
    assert our_head.split(b"\r\n")[0] == their_head.split(b"\r\n")[0]
    theirs, ours = headers(their_head), headers(our_head)
    for name in ("host", "content-type", "authorization", "x-api-key"):
        assert ours.get(name) == theirs.get(name), name
    if wire == "messages":
        assert ours["anthropic-version"] == "2023-06-01"
