"""What goes out and what comes back, over both wires and both transports."""

import gzip
import zlib
from dataclasses import replace

import pytest

from oversight.cache.call import Call, Message, ToolSpec
from oversight.cache.reply import Reply, ToolCall
from oversight.engine.errors import EngineError, Malformed
from oversight.engine.extensions.mock import MockServer
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from tests.lines import (
    EACH_LINE,
    LINES,
    always,
    asked,
    canned,
    good_body,
    http,
    rehearsed,
    settings_for,
)

pytestmark = [EACH_LINE, pytest.mark.wire]


async def test_a_call_arrives_as_it_was_asked_and_its_reply_comes_back(line):
    seen: list[Call] = []

    def answer(call: Call) -> Reply:
        seen.append(call)
        return Reply("It is 4 – “four” – 四.")

    call = asked(line, "2 + 2 – “two”?").changed(temperature=0.5, top_p=0.9, max_tokens=50)
    call = call.changed(stop=() if "responses" in line else ("END",))
    async with rehearsed(line, answer=answer) as (ask, server):
        reply = await ask(call)
    name = call.model.removeprefix(f"{LINES[line][0]}/")
    assert seen == [call.changed(model=name)]
    assert (reply.text, reply.outcome) == ("It is 4 – “four” – 四.", "ok")
    assert reply.served_model == name
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert server.counts()["requests"] == server.counts()["ok"] == 1


async def test_both_transports_send_the_same_bytes(line):
    wires = {"anthropic": AnthropicWire, "openai": OpenAIWire, "responses": ResponsesWire}
    wire = wires[line.split()[0]](LINES[line][0])
    async with canned(line, http("200 OK", "", good_body(line))) as (ask, requests):
        await ask(asked(line))
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert body == wire.body(asked(line))
    assert b"content-type: application/json\r\n" in head.lower() + b"\r\n"


async def test_tools_go_out_and_their_use_comes_back(line):
    spec = ToolSpec("calculator", "adds", '{"type":"object"}')
    wish = ToolCall("t1", "calculator", '{"expression":"2+2"}')
    seen: list[Call] = []

    def answer(call: Call) -> Reply:
        seen.append(call)
        return Reply("", (wish,)) if call.messages[-1].role != "tool" else Reply("4")

    async with rehearsed(line, answer=answer) as (ask, _):
        call = asked(line).changed(tools=(spec,))
        first = await ask(call)
        assert (first.tool_calls, first.outcome) == ((wish,), "ok")
        said = Message("assistant", first.text, first.tool_calls, opaque=first.opaque)
        result = Message("tool", "4", tool_call_id="t1")
        second = await ask(call.changed(messages=(*call.messages, said, result)))
    assert second.text == "4"
    assert seen[0].tools == (spec,)
    assert seen[1].messages[2:] == (Message("assistant", "", (wish,)), result)


@pytest.mark.parametrize("fault", ["policy", "refusal"])
async def test_a_refusal_is_data_whoever_refused(line, fault):
    async with rehearsed(line, always(fault)) as (ask, _):
        assert (await ask(asked(line))).outcome == "refused"


async def test_a_reply_that_drips_but_ends_in_time_is_a_reply(line):
    async with rehearsed(line, always("drip", speed=200.0, drip=4.0)) as (ask, _):
        assert (await ask(asked(line))).outcome == "ok"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("GZIP", gzip.compress),
        ("deflate", lambda body: zlib.compress(body, wbits=-15)),
    ],
)
async def test_compressed_replies_are_read(line, encoding, pack):
    packed = http("200 OK", f"content-encoding: {encoding}\r\n", pack(good_body(line)))
    async with canned(line, packed) as (ask, requests):
        assert (await ask(asked(line))).text == "4"
    assert b"accept-encoding: gzip, deflate\r\n" in requests[0].lower()


async def test_a_body_in_chunks_is_read(line):
    body = good_body(line)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with canned(line, head + chunks) as (ask, _):
        assert (await ask(asked(line))).text == "4"


async def test_a_reply_that_is_longer_than_its_tokens_can_be_is_malformed(line):
    call, length = asked(line).changed(max_tokens=100), 1_600
    async with rehearsed(line, answer=lambda call: Reply("x" * length)) as (ask, _):
        assert len((await ask(call)).text) == length
        length += 1
        with pytest.raises(Malformed, match="1,601 characters to a call of 100 tokens"):
            await ask(call)


@pytest.mark.parametrize("key", ["none", "test", "EMPTY", "token", "x", "1", "key", "lm-studio"])
async def test_a_dummy_key_changes_nothing_of_what_a_model_says(line, key):
    words = f"none of the key tests says that x is an EMPTY token 1 of lm-studio, nor {key}."
    async with MockServer(answer=lambda call: Reply(words)) as server:
        ask = LINES[line][3](replace(settings_for(line, server.url), key=key), None)
        assert (await ask(asked(line))).text == words
        server.profile = always("unauthorized")
        with pytest.raises(EngineError) as caught:
            await ask(asked(line))
        assert "[key]" not in str(caught.value)
        await ask.close()
