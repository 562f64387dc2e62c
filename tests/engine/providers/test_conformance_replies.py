"""What goes out and what comes back, over both wires and both transports."""

import codecs
import gzip
import re
import zlib
from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs

from oversight.cache.call import Call, Message, ToolSpec
from oversight.cache.codec import read_reply, write_reply
from oversight.cache.reply import Reply, ToolCall, Usage
from oversight.engine.errors import EngineError, Malformed, UnrecognizedReply
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


async def test_a_mark_of_byte_order_is_no_part_of_the_reply(line):
    assert (await replied(line, codecs.BOM_UTF8 + good_body(line))).text == "4"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (rb"4 \ud83d!", "4 \ufffd!"),
        (rb"4 \ude00\ud83d", "4 \ufffd\ufffd"),
        (rb"4 \ud83d\ude00 \ud83d", "4 \U0001f600 \ufffd"),
        (rb"4 \\ud83d \ud83d", "4 \\ud83d \ufffd"),
        (b"4 \xff", "4 \ufffd"),
    ],
    ids=["half a pair", "turned round", "beside a whole one", "beside a backslash", "no UTF-8"],
)
async def test_what_is_no_character_is_marked_in_a_reply_that_was_paid_for(line, sent, said):
    body = good_body(line).replace(b'"4"', b'"' + sent + b'"')
    reply = await replied(line, body)
    assert (reply.text, reply.outcome) == (said, "ok")
    assert read_reply("key", write_reply(reply), "") == reply


@pytest.mark.parametrize("absurd", [b"1e400", b"-1e400", b"NaN", b"Infinity", b"9" * 5000, b"1e15"])
async def test_an_absurd_usage_is_counted_as_none_and_the_reply_is_kept(line, absurd):
    counts = rb'"(prompt|completion|total|input|output)_tokens":\d+'
    body, found = re.subn(counts, rb'"\1_tokens":' + absurd, good_body(line))
    assert found >= 2
    reply = await replied(line, body)
    assert reply.text == "4"
    assert structs.replace(reply.usage, raw="") == Usage()
    assert read_reply("key", write_reply(reply), "") == reply


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}]},
            "It is 4",
        ),
        ({"content": [{"type": "thinking", "thinking": [{}]}, {"type": "text", "text": "4"}]}, "4"),
        ({"content": []}, ""),
    ],
)
async def test_content_in_parts_is_read_as_one_text(line, message, said):
    message = in_words_of(line, message)
    reply = await replied(line, body_with(line, message))
    assert (reply.text, reply.outcome) == (said, "ok" if said else "empty")


async def test_a_refusal_in_parts_is_a_refusal(line):
    if "anthropic" in line:
        pytest.skip("refusals are no parts of this wire")
    message = {"content": [{"type": "refusal", "refusal": "No."}]}
    reply = await replied(line, body_with(line, message))
    assert (reply.text, reply.outcome) == ("No.", "refused")


async def test_a_part_of_an_unknown_kind_is_named(line):
    message = {"content": [{"type": "image_url", "image_url": "x"}, {"type": "text", "text": "4"}]}
    message = in_words_of(line, message)
    with pytest.raises(UnrecognizedReply, match="image_url"):
        await replied(line, body_with(line, message))


async def test_a_reply_that_is_longer_than_its_tokens_can_be_is_malformed(line):
    call, length = asked(line).changed(max_tokens=100), 1_600
    async with rehearsed(line, answer=lambda call: Reply("x" * length)) as (ask, _):
        assert len((await ask(call)).text) == length
        length += 1
        with pytest.raises(Malformed, match="1,601 characters to a call of 100 tokens"):
            await ask(call)


async def test_words_without_a_reason_to_stop_are_read_and_nothing_is_made_up(line):
    if not line.startswith("openai"):
        pytest.skip("Anthropic gives one always, and so does the responses endpoint")
    ended = orjson.loads(good_body(line))
    ended["choices"][0]["finish_reason"] = None
    reply = await replied(line, orjson.dumps(ended))
    assert (reply.text, reply.outcome, reply.stop_reason) == ("4", "ok", "")
    ended["choices"][0]["message"]["content"] = ""
    with pytest.raises(Malformed, match="finish_reason None"):
        await replied(line, orjson.dumps(ended))


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


async def replied(line: str, body: bytes) -> Reply:
    """The reply to a call, from a server that answers with a body."""
    async with canned(line, http("200 OK", "", body)) as (ask, _):
        return await ask(asked(line))


def body_with(line: str, message: dict[str, Any]) -> bytes:
    """A good body with some fields of its message put in place of others."""
    body = orjson.loads(good_body(line))
    match line.split()[0]:
        case "anthropic":
            said = body
        case "responses":
            (said,) = body["output"]
        case _:
            said = body["choices"][0]["message"]
    said.update(message)
    return orjson.dumps(body)


def in_words_of(line: str, message: dict[str, Any]) -> dict[str, Any]:
    """A message in parts, in the words of a line: responses call text and thought otherwise."""
    if not line.startswith("responses"):
        return message
    kept = [part for part in message["content"] if part["type"] != "thinking"]
    return {"content": [part | {"type": RENAMED.get(part["type"], part["type"])} for part in kept]}


RENAMED = {"text": "output_text"}
