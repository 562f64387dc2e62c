"""Calls and replies of every shape, an `Ask` that answers them, and many calls at once."""

import asyncio
from collections.abc import Iterable

from hypothesis import strategies as st
from msgspec.structs import replace

from oversight.cache.call import Ask, Call, Message, Request, ResponseFormat, ToolSpec, store_key
from oversight.cache.entry import new_entry
from oversight.cache.reply import Reply, Token, ToolCall, Usage
from tests.fakes import Scripted

CALL = Call(Request("sim/strong", (Message("user", "How many apples?"),), temperature=0.4))

FULL = Call(
    Request(
        "sim/strong",
        (
            Message("system", "You are Debater A."),
            Message("assistant", "", (ToolCall("t1", "calculator", '{"expression":"4*12"}'),), "",
                    "[1]"),
            Message("tool", "48", tool_call_id="t1"),
        ),
        temperature=0.4, top_p=0.9, max_tokens=512, stop=("\n\n",), top_logprobs=5, effort="low",
        tools=(ToolSpec("calculator", "Evaluates.", '{"type":"object"}'),), top_k=40, min_p=0.05,
        response_format=ResponseFormat("verdict", '{"type":"object"}'), seed=7, service_tier="flex",
        extra_body='{"chat_template_kwargs":{"enable_thinking":false}}',
    ),
    (0, 3),
)  # fmt: skip
"""A call with every field set."""

FIRST = FULL.changed(top_k=None, min_p=None, seed=None, service_tier="", extra_body="")
"""FULL, as far as the first version of addresses had parameters."""

REPLY = Reply(
    text="It is 48 – “forty-eight” ⚖", tool_calls=(ToolCall("t2", "calculator", "{}"),),
    outcome="truncated", stop_reason="length",
    logprobs=(Token("A", -0.25, (("A", -0.25), ("B", -1.5))), Token("", 0.0)),
    usage=Usage(120, 30, 100, 20, '{"prompt_tokens":120}'), served_model="strong-2026-01-01",
    opaque='[{"type":"thinking"}]',
)  # fmt: skip
"""A reply with every field set but the address, which is the cache's to set."""

# Lone surrogates have separate tests.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
logprobs = st.floats(-1e9, 0.0)
tool_calls = st.builds(ToolCall, texts, texts, texts)
candidates = st.lists(st.tuples(texts, logprobs), max_size=3).map(tuple)
tokens = st.builds(Token, texts, logprobs, candidates)
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), texts,
    st.lists(tool_calls, max_size=2).map(tuple), texts, texts,
)  # fmt: skip
requests = st.builds(
    Request, model=texts, messages=st.lists(messages, max_size=3).map(tuple), service_tier=texts,
    temperature=st.none() | st.floats(0, 2), top_p=st.none() | st.floats(0.01, 1),
    max_tokens=st.integers(1, 10**6), stop=st.lists(texts, max_size=2).map(tuple),
    tools=st.lists(st.builds(ToolSpec, texts, texts, texts), max_size=2).map(tuple),
    response_format=st.none() | st.builds(ResponseFormat, texts, texts),
    effort=st.sampled_from(["", "none", "minimal", "low", "medium", "high"]),
    top_logprobs=st.integers(0, 20), top_k=st.none() | st.integers(1, 10**6),
    min_p=st.none() | st.floats(0, 1), seed=st.none() | st.integers(0, 2**31 - 1),
    extra_body=st.sampled_from(["", "{}", '{"a":[1,{"b":null}]}']),
    thinking_tokens=st.none() | st.integers(1, 10**6),
)  # fmt: skip
any_calls = st.builds(Call, requests, st.lists(st.integers(0, 10**6), max_size=3).map(tuple))
any_replies = st.builds(
    Reply, text=texts, tool_calls=st.lists(tool_calls, max_size=2).map(tuple),
    outcome=st.sampled_from(["ok", "truncated", "refused", "empty"]), stop_reason=texts,
    logprobs=st.lists(tokens, max_size=3).map(tuple),
    usage=st.builds(Usage, *[st.integers(0, 2**40)] * 4, texts), served_model=texts, opaque=texts,
)  # fmt: skip


def home(call: Call) -> str:
    return "here/v1"


def calls(count: int) -> list[Call]:
    return [replace(CALL, draw=(n,)) for n in range(count)]


def answers(text: str = "48") -> Scripted:
    return Scripted(lambda call: text)


async def ask_all(ask: Ask, calls_made: Iterable[Call]) -> list[Reply]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(call)) for call in calls_made]
    return [task.result() for task in tasks]


def record_of(call: Call, reply: Reply, place: str = "here/v1") -> tuple[str, bytes]:
    """A key and what a store keeps under it."""
    key = store_key(call.address, place)
    return key, new_entry(key, call, reply, place, 1_700_000_000).packed().to_bytes()


def entry(n: int) -> tuple[str, bytes]:
    """The n-th of some entries of different lengths."""
    return record_of(calls(n + 1)[n], Reply(f"reply {n} " * (n % 9 + 1)))
