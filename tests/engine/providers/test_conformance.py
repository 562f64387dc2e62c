"""Requests, answers, errors and ways to reach servers, over every wire and transport."""

import asyncio
import gzip
import logging
import signal
import socket
import ssl
import traceback
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from oversight.cache.call import Call, Message, ToolSpec
from oversight.cache.reply import Reply, ToolCall
from oversight.engine.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    Interrupted,
    KeyEchoed,
    Malformed,
    ModelNotFound,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    TransientError,
    Unreachable,
)
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.stop import StopToken
from tests.engine.providers.test_catalogue import SLASHED, escaped
from tests.lines import (
    CANARY,
    EACH_LINE,
    LINES,
    always,
    asked,
    canned,
    good_body,
    http,
    reached,
    rehearsed,
    settings_for,
    talking,
)

pytestmark = EACH_LINE


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("rate_limit", RateLimited), ("server_error", Overloaded), ("overloaded", Overloaded),
        ("html", Overloaded), ("unauthorized", AuthenticationFailed), ("quota", QuotaExhausted),
        ("too_long", ContextLengthExceeded), ("reset", OutcomeUnknown), ("cut", OutcomeUnknown),
        ("half_json", Malformed), ("error_in_200", Malformed),
        *(pytest.param(name, Malformed, marks=pytest.mark.wire) for name in ("gzip_bomb", "huge")),
    ],
)  # fmt: skip
async def test_each_fault_has_its_error(line, fault, expected):
    async with rehearsed(line, always(fault)) as (ask, server):
        with pytest.raises(EngineError) as caught:
            await ask(asked(line))
        # One failed exchange spoils no other: the server is asked again without any trouble.
        server.profile = Profile()
        assert (await ask(asked(line))).outcome == "ok"
    assert type(caught.value) is expected and LINES[line][0] in str(caught.value)
    assert server.counts()[fault] == 1


async def test_a_reply_with_an_unknown_stop_reason_is_kept_and_marked(line):
    async with rehearsed(line, always("unknown_stop")) as (ask, server):
        reply = await ask(asked(line))
    assert (reply.outcome, reply.stop_reason) == ("ok", "unknown: because")
    assert server.counts()["unknown_stop"] == 1


@pytest.mark.parametrize("fault", ["stall", "drip"])
async def test_the_deadline_is_total_and_ends_in_ambiguity(line, fault, monkeypatch):
    loop, passed = asyncio.get_running_loop(), 0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed)
    async with rehearsed(line, always(fault)) as (ask, server):
        waiting = asyncio.create_task(ask(asked(line)))
        while fault not in server.counts() and not waiting.done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        # Seconds pass one by one, and in each of them a dripping answer drips.
        for passed in range(21):  # noqa: B007
            await asyncio.sleep(0.001)
        with pytest.raises(OutcomeUnknown, match=r"no whole answer within 20 s"):
            await waiting


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"SSH-2.0-OpenSSH_9.7\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: never\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)  # fmt: skip
async def test_no_whole_http_answer_is_ambiguous(line, answer):
    async with canned(line, answer) as (ask, _):
        with pytest.raises(OutcomeUnknown) as caught:
            await ask(asked(line))
    assert type(caught.value) is OutcomeUnknown and caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"\x0b\x02\x80"),
        ("gzip", b"no gzip at all"),
        ("gzip", gzip.compress(b"", mtime=0) * 65),
        ("gzip", gzip.compress(b"x" * 10_000, mtime=0)[:-20]),
    ],
)
async def test_undecompressable_body_is_malformed(line, encoding, body):
    async with canned(line, http("200 OK", f"content-encoding: {encoding}\r\n", body)) as (ask, _):
        with pytest.raises(Malformed) as caught:
            await ask(asked(line))
    assert caught.value.body == body


async def test_a_redirect_is_not_followed_with_the_key_in_hand(line):
    async with MockServer() as elsewhere:
        away = http("307 Temporary Redirect", f"location: {elsewhere.url}/v1/messages\r\n", b"")
        async with canned(line, away) as (ask, _):
            message = f"{elsewhere.url}/v1/messages; check the base URL"
            with pytest.raises(ModelNotFound, match=message):
                await ask(asked(line))
        assert elsewhere.counts() == {}


@pytest.mark.parametrize("fault", ["rate_limit", "overloaded"])
async def test_the_delay_that_a_server_asks_for_is_handed_on(line, fault):
    async with rehearsed(line, always(fault, delay=7.0, speed=2.0)) as (ask, _):
        with pytest.raises(TransientError) as caught:
            await ask(asked(line))
    assert caught.value.delay == 3.5


async def test_limits_in_headers_are_reported_once_a_model_while_they_stay(line):
    updates, profile = [], Profile(requests_per_minute=2, tokens_per_minute=10_000)
    models = [asked(line).model, f"{asked(line).model}-2"]
    async with rehearsed(line, profile, on_limits=lambda *args: updates.append(args)) as (ask, _):
        for model in (*models, models[0]):
            await ask(asked(line).changed(model=model))
        with pytest.raises(RateLimited) as caught:
            await ask(asked(line, "c"))
    assert 25 < caught.value.delay <= 30
    assert [model for model, _ in updates] == models
    for _, limits in updates:
        assert (limits.requests.limit, limits.tokens.limit) == (2, 10_000)
        assert limits.requests.reset is not None


async def test_another_protocol_on_the_wire_is_reported_at_once(line):
    switched = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    async with canned(line, switched + b"PRI * HTTP/2.0") as (ask, _):
        with pytest.raises(ModelNotFound, match=r"101.*check the base URL"):
            await ask(asked(line))


@pytest.mark.wire
async def test_server_that_is_not_there_and_name_without_address_are_unreachable(line, monkeypatch):
    def lookup(*name: object, **how: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for host in (f"127.0.0.1:{closed.getsockname()[1]}", "models.invalid"):
            async with reached(line, f"http://{host}") as ask:
                with pytest.raises(Unreachable, match=f"no connection to {host.partition(':')[0]}"):
                    await ask(asked(line))
            monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.wire
async def test_a_handshake_that_fails_is_unreachable(line):
    async with talking(b"\x00") as url, reached(line, url.replace("http:", "https:")) as ask:
        with pytest.raises(Unreachable):
            await ask(asked(line))


@pytest.mark.wire
async def test_a_certificate_that_nobody_vouches_for_stops_the_provider(line):
    async with MockServer(tls=untrusted()) as server, reached(line, server.url) as ask:
        text = rf"certificate of {server.url} is not trusted: self-signed .* SSL_CERT_FILE$"
        with pytest.raises(ProviderDown, match=text):
            await ask(asked(line))
        assert "requests" not in server.counts()


@pytest.mark.wire
async def test_certificates_that_are_not_where_they_are_said_to_be_stop_the_provider(
    line, tmp_path, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    async with MockServer(tls=untrusted()) as server, reached(line, server.url) as ask:
        with pytest.raises(ProviderDown, match="SSL_CERT_FILE"):
            await ask(asked(line))


@pytest.mark.wire
async def test_a_base_url_that_mixes_up_http_and_https_is_named_with_its_mend(line):
    for tls, wrong, remedy in (
        (None, "https", "no TLS: write http://"),
        (untrusted(), "http", "TLS there: write https://"),
    ):
        async with MockServer(tls=tls) as server:
            url = f"{wrong}:{server.url.partition(':')[2]}"
            async with reached(line, url) as ask:
                with pytest.raises(ProviderDown, match=f"{url} gives no answer: .* {remedy}"):
                    await ask(asked(line))
            assert "requests" not in server.counts()


SETTINGS = bytes((0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100))
"""A frame of HTTP/2 with which servers begin: a hundred streams at one time."""
NO_SUCH_PROTOCOL = bytes((21, 3, 3, 0, 2, 2, 120))
"""TLS's answer to clients that offer no common protocol."""


@pytest.mark.parametrize(("scheme", "says"), [("http", SETTINGS), ("https", NO_SUCH_PROTOCOL)])
@pytest.mark.wire
async def test_a_server_of_http_2_alone_is_named_with_the_mend(line, scheme, says):
    async with talking(says) as at:
        url = at.replace("http", scheme)
        async with reached(line, url) as ask:
            with pytest.raises(ProviderDown, match=f"{url} gives no answer: it speaks HTTP/2 only"):
                await ask(asked(line))


async def test_faults_after_an_answer_are_not_diagnosed_as_wrong_address(line):
    says = [http("200 OK", "connection: close\r\n", good_body(line))]
    async with talking(says) as url, reached(line, url) as ask:
        assert (await ask(asked(line))).text == "4"
        says[:] = [SETTINGS]
        with pytest.raises(OutcomeUnknown):
            await ask(asked(line))


def untrusted() -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(Path(__file__).parent.with_name("untrusted.pem"))
    return tls


@pytest.mark.wire
async def test_a_deadline_before_anything_was_sent_is_unbilled(line):
    with socket.socket() as deaf:
        # A listener whose queue is full takes no connection and refuses none.
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with socket.socket() as first, socket.socket() as second:
            for filler in (first, second):
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            async with reached(line, url, deadline=0.3) as ask:
                with pytest.raises(Unreachable, match=r"no connection within 0\.3 s"):
                    await ask(asked(line))


@pytest.mark.wire
async def test_a_proxy_is_sent_the_whole_address(line):
    async with MockServer() as proxy:
        settings = replace(settings_for(line, "http://models.invalid"), proxy=proxy.url)
        ask = LINES[line][3](settings, None)
        assert (await ask(asked(line))).outcome == "ok"
        await ask.close()
        stop_token = StopToken()
        ask = LINES[line][3](replace(settings, stop_token=stop_token), None)
        stop_token.stop(Interrupted(signal.SIGINT))
        with pytest.raises(Unreachable, match="the run stops before this call has left"):
            await ask(asked(line))
        await ask.close()
        assert proxy.counts()["requests"] == proxy.counts()["ok"] == 1


@pytest.mark.wire
async def test_proxy_that_is_away_is_named(line):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        settings = replace(settings_for(line, "http://models.invalid"), proxy=f"http://{address}")
        ask = LINES[line][3](settings, None)
        with pytest.raises(Unreachable, match=f"models.invalid through the proxy {address}"):
            await ask(asked(line))
        await ask.close()


@pytest.mark.wire
async def test_connections_open_a_few_at_a_time(line, monkeypatch):
    opening, most = 0, 0
    really = asyncio.BaseEventLoop.create_connection

    async def create(*args: Any, **how: Any) -> Any:
        nonlocal opening, most
        opening += 1
        most = max(most, opening)
        try:
            return await really(*args, **how)
        finally:
            opening -= 1

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create)
    async with rehearsed(line, Profile(latency=0.3)) as (ask, server), asyncio.TaskGroup() as group:
        for n in range(130):
            group.create_task(ask(asked(line, f"{n}?")))
    assert server.counts()["connections"] == 130 and most == 64


async def test_a_cancelled_call_leaves_the_provider_usable(line):
    arrived = asyncio.Event()

    def answer(call: Call) -> Reply:
        arrived.set()
        return Reply("4")

    async with rehearsed(line, Profile(latency=60.0), answer) as (ask, server):
        task = asyncio.create_task(ask(asked(line)))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.profile = Profile()
        assert (await ask(asked(line))).outcome == "ok"


def shown(exc: BaseException, way: TracebackType | None) -> str:
    """An exception as the most talkative of loggers shows it: with all locals on its way."""
    return "".join(traceback.TracebackException(type(exc), exc, way, capture_locals=True).format())


def shown_here(caught: pytest.ExceptionInfo[EngineError]) -> str:
    """Without the locals of the test that caught it, which knows the key."""
    return shown(caught.value, caught.tb.tb_next)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """The log, with the locals of the exceptions in it."""
    raised = [record.exc_info for record in caplog.records if record.exc_info]
    return caplog.text + "".join(shown(exc, way) for _, exc, way in raised if exc is not None)


@pytest.mark.parametrize(
    "fault", ["unauthorized", "half_json", "reset", "cut", "stall", "html", "error_in_200"]
)
async def test_the_key_is_in_no_error_repr_or_log(line, fault, caplog):
    caplog.set_level(logging.DEBUG)
    async with rehearsed(line, always(fault), deadline=0.5) as (ask, _):
        with pytest.raises(EngineError) as caught:
            await ask(asked(line))
        assert "canary" not in repr(ask) and "canary" not in shown_here(caught)
    assert "canary" not in logged(caplog)


FORMS = escaped(SLASHED)
REFUSAL = b'{"error": {"message": "bad key %s.", "type": "x"}}' % FORMS["all escaped"].encode()
HOLDS = b'"4 %s"' % FORMS["slashes escaped"].encode()


@pytest.mark.parametrize(
    ("status", "header", "body", "fault", "message"),
    [
        (f"200 {SLASHED}", f"x-request-id: {SLASHED}\r\n", None, OutcomeUnknown, ""),
        ("200 OK", "content-encoding: br\r\n", SLASHED.encode(), OutcomeUnknown, ""),
        ("200 OK", "", SLASHED.encode() * 2_000_000, Malformed, "more than 32 MB"),
        ("200 OK", f"x-you-sent: \x00{SLASHED}\r\n", b"", OutcomeUnknown, ""),
        ("200 OK", f"{SLASHED} is what you sent\r\n", b"", OutcomeUnknown, ""),
        *(
            (status, "", REFUSAL, EngineError, r"bad key \[key\]\.")
            for status in ("400 Bad", "401 No", "500 Oh", "200 OK")
        ),
        ("500 Oh", "", f"bad key {SLASHED[:14]} ...".encode(), EngineError, r"key \[key\] \.\.\."),
        # A reply that holds the key is neither stored nor changed.
        ("200 OK", "", HOLDS, KeyEchoed, "Replace the key"),
    ],
    ids=[
        *("torn", "packed", "huge", "broken header", "no header"),
        *("400", "401", "500", "200", "start", "reply"),
    ],
)
@pytest.mark.wire
async def test_a_key_that_comes_back_is_in_no_error_body_or_log(
    line, status, header, body, fault, message, caplog
):
    caplog.set_level(logging.DEBUG)
    if body == HOLDS:
        body = good_body(line).replace(b'"4"', HOLDS)
    answer = http(status, header, SLASHED.encode() * 10 if body is None else body)
    async with canned(line, answer[:-5] if body is None else answer, SLASHED) as (ask, _):
        with pytest.raises(fault, match=message or None) as caught:
            await ask(asked(line))
        texts = shown_here(caught) + logged(caplog) + str(getattr(caught.value, "body", ""))
    assert not [form for form in FORMS.values() if form in texts]


async def test_key_outside_of_the_reply_leaves_it_unchanged(line):
    body = good_body(line).replace(b"{", b'{"debug":"%s",' % SLASHED.encode(), 1)
    async with canned(line, http("200 OK", "", body), SLASHED) as (ask, _):
        assert (await ask(asked(line))).text == "4"


async def test_a_call_arrives_as_it_was_asked_and_its_reply_comes_back(line):
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        return Reply("It is 4 – “four” – 四.")

    call = asked(line, "2 + 2 – “two”?").changed(temperature=0.5, top_p=0.9, max_tokens=50)
    call = call.changed(stop=() if "responses" in line else ("END",))
    async with rehearsed(line, answer=answer) as (ask, server):
        reply = await ask(call)
    name = call.model.removeprefix(f"{LINES[line][0]}/")
    assert calls == [call.changed(model=name)]
    assert (reply.text, reply.outcome) == ("It is 4 – “four” – 四.", "ok")
    assert reply.served_model == name and reply.usage.input_tokens > 0 < reply.usage.output_tokens
    assert server.counts()["requests"] == server.counts()["ok"] == 1


async def test_a_request_says_that_it_is_json_and_has_the_key(line):
    async with canned(line, http("200 OK", "", good_body(line))) as (ask, requests):
        await ask(asked(line))
    # Anthropic's own client sends it as OpenAI's does.
    field = "x-api-key: " if line == "anthropic wire, plain" else "authorization: bearer "
    lines = requests[0].lower().split(b"\r\n")
    assert {b"content-type: application/json", f"{field}{CANARY}".encode()} <= {*lines}


async def test_tools_go_out_and_their_use_comes_back(line):
    spec = ToolSpec("calculator", "adds", '{"type":"object"}')
    wish, calls = ToolCall("t1", "calculator", '{"expression":"2+2"}'), []

    def answer(call: Call) -> Reply:
        calls.append(call)
        return Reply("", (wish,)) if call.messages[-1].role != "tool" else Reply("4")

    async with rehearsed(line, answer=answer) as (ask, _):
        call = asked(line).changed(tools=(spec,))
        first = await ask(call)
        assert (first.tool_calls, first.outcome) == ((wish,), "ok")
        turn = Message("assistant", first.text, first.tool_calls, opaque=first.opaque)
        result = Message("tool", "4", tool_call_id="t1")
        second = await ask(call.changed(messages=(*call.messages, turn, result)))
    assert second.text == "4" and calls[0].tools == (spec,)
    assert calls[1].messages[2:] == (Message("assistant", "", (wish,)), result)


@pytest.mark.parametrize("fault", ["policy", "refusal"])
async def test_a_refusal_is_data_whoever_refused(line, fault):
    async with rehearsed(line, always(fault)) as (ask, _):
        assert (await ask(asked(line))).outcome == "refused"


async def test_a_reply_that_drips_but_ends_in_time_is_a_reply(line):
    async with rehearsed(line, always("drip", speed=200.0, drip=4.0)) as (ask, _):
        assert (await ask(asked(line))).outcome == "ok"


async def test_a_reply_that_is_longer_than_its_tokens_can_be_is_malformed(line):
    call, length = asked(line).changed(max_tokens=100), 1_600
    async with rehearsed(line, answer=lambda call: Reply("x" * length)) as (ask, _):
        assert len((await ask(call)).text) == length
        length += 1
        with pytest.raises(Malformed, match="1,601 characters to a call of 100 tokens"):
            await ask(call)
