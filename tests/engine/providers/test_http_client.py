"""The HTTP client of models; no answer that nobody asked for becomes a reply."""

import asyncio
import gzip
import re
import signal
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.engine.errors import Interrupted, Malformed, Unreachable
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.providers.connection import FRESH_REPEATS, PROVEN, AnswerIds
from oversight.engine.providers.http_client import HttpClient
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.transport import Target
from oversight.engine.stop import StopToken
from tests.command_line import ROOT
from tests.lines import EACH_LINE, asked, good_body, http, listening, reached, request

ID = "x-request-id: {:020}\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def served(*answers: bytes, connections: int = 1000, stop_token: StopToken | None = None):
    """A server that gives each request the next answer, and what each connection sent it."""
    requests, remaining = [], iter(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(mine := [])
        while True:
            mine.append(await request(reader))
            writer.write(next(remaining))

    async with listening(serve) as url:
        settings = Settings("lab", url, "test", connections=connections, stop_token=stop_token)
        client = HttpClient(settings, keep_alive=60.0, cap=1000)
        yield client, f"{url}/v1/x", requests
        await client.close()


async def test_headers_are_sent_once_and_given_ones_replace_ours():
    async with served(OK) as (client, url, requests):
        headers = {"User-Agent": "theirs", "Content-Length": "999", "Host": "elsewhere"}
        await client.send(Target("POST", url, headers), b"body")
    first, *sent = requests[0][0][0].decode().lower().split("\r\n")
    ours = ["accept-encoding: gzip, deflate", "content-length: 4", f"host: {url.split('/')[2]}"]
    assert first == "post /v1/x http/1.1" and sorted(sent) == ["", "", *ours, "user-agent: theirs"]


@pytest.mark.parametrize(
    ("fields", "opened"),
    [(ID, PROVEN), ("", PROVEN + 5), (f"{ID}connection: close\r\n", PROVEN + 5)],
)
async def test_connection_is_reused_after_answers_with_unique_ids(fields, opened):
    """Elsewhere a stale answer without an id would be taken for the next one."""
    answers = [http("200 OK", fields.format(n), b"hi") for n in range(PROVEN + 5)]
    async with served(*answers) as (client, url, requests):
        for _ in answers:
            assert client.read(await client.send(Target("POST", url, {}), b"body")).body == b"hi"
    assert len(requests) == opened


async def test_an_idle_connection_is_kept_for_a_minute_and_strays_are_awaited_for_a_second():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n in count(id(writer) * 10**6):
            takes = float((await request(reader))[1])
            await asyncio.sleep(takes)
            writer.write(http("200 OK", ID.format(n), b"hi"))

    loop, times, connections = asyncio.get_running_loop(), [], set()
    async with listening(serve) as url:
        client = HttpClient(Settings("lab", url, "test"), keep_alive=60.0)
        for pause, takes in ((0, 0), (0, 0), (0, 0), (59.9, 0.4), (59.5, 5.0), (60.1, 0.4)):
            await asyncio.sleep(pause)
            came = await client.send(Target("POST", url, {}), b"%g" % takes)
            client.read(came)
            connections.add(came.connection)
            start = loop.time()
            await client.quiet_down()
            times.append(round(loop.time() - start, 3))
        await client.close()
    # A first answer on a connection cannot be stale.
    assert times == [0, 0, 0, 0.4, 1.0, 0] and len(connections) == PROVEN + 1


def head(*fields: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *fields, "", "")).encode()


def packed(encoding: str, body: bytes) -> bytes:
    return http("200 OK", f"content-encoding: {encoding}\r\n", body)


FORMS = {
    "of a stated length": OK,
    "in chunks": head("transfer-encoding: chunked") + b"1\r\nh\r\n1;x=y\r\ni\r\n0\r\nt: x\r\n\r\n",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    "after 103": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK,
    "until it hangs up": head("connection: close") + b"hi",
    "of HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nhi",
    "gzip": packed("gzip", gzip.compress(b"hi")),
    "gzip in capitals": packed("GZIP", gzip.compress(b"hi")),
    "deflate": packed("deflate", zlib.compress(b"hi")),
    "bare deflate": packed("deflate", zlib.compress(b"hi", wbits=-15)),
    "gzip in two members": packed("gzip", gzip.compress(b"h") + gzip.compress(b"i")),
    "gzip with padding": packed("gzip", gzip.compress(b"hi") + bytes(8)),
    "packed twice": packed("deflate, gzip", gzip.compress(zlib.compress(b"hi"))),
    "not packed": packed("identity", b"hi"),
    "of an empty encoding": packed(" ,", b"hi"),
    "of odd names": b"HTTP/1.1 200\r\nCONTENT-Length:2\r\nX-A: \xc3\xa4\xff\r\n\r\nhi",
    "to nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [1, 7, 10_000])
async def test_each_form_of_an_answer_is_read_however_it_is_cut(form, piece):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for start in range(0, len(FORMS[form]), piece):
            writer.write(FORMS[form][start : start + piece])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async with listening(serve) as url:
        client = HttpClient(Settings("lab", url, "test"))
        answer = client.read(await client.send(Target("POST", url, {}), b"body"))
        await client.close()
    assert answer.body == (b"" if form == "to nothing" else b"hi")
    assert all(map(str.isprintable, answer.headers.values())), "no file takes half a character"


async def test_trailer_fields_are_not_headers():
    raw = (
        b"HTTP/1.1 200 OK\r\nx-kind: head\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\nhi\r\n0\r\nX-Kind: trailer\r\nContent-Encoding: br\r\n\r\n"
    )
    async with served(raw) as (client, url, _):
        answer = client.read(await client.send(Target("POST", url, {}), b"body"))
    assert (answer.body, answer.headers["x-kind"]) == (b"hi", "head")


async def test_connection_that_does_not_open_frees_its_place():
    async with served(OK, connections=1) as (client, url, _), asyncio.timeout(60):
        for _ in range(2):
            with pytest.raises(Unreachable):
                await client.send(Target("POST", "http://127.0.0.1:9/v1/x", {}), b"")
            given_up = asyncio.ensure_future(client.send(Target("POST", url, {}), b""))
            await asyncio.sleep(0)
            given_up.cancel()
        assert client.read(await client.send(Target("POST", url, {}), b"")).body == b"hi"


async def test_request_waiting_for_a_connection_is_not_overtaken():
    answers = [http("200 OK", f"x-request-id: {n:020}\r\n", b"hi") for n in range(PROVEN + 4)]
    async with served(*answers, connections=1) as (client, url, requests):
        target = Target("POST", url, {})

        async def exchange(n: int) -> None:
            client.read(await client.send(target, b"%d" % n))

        for n in range(PROVEN):
            await exchange(n)
        first = await client.send(target, b"first")
        waiting = [asyncio.create_task(exchange(n)) for n in (1, 2)]
        gone = asyncio.create_task(exchange(3))
        await asyncio.sleep(0)
        client.read(first)
        last = client.send(target, b"last")
        gone.cancel()
        client.read(await last)
        await asyncio.gather(*waiting)
    bodies = [body for connection in requests for _, body in connection]
    assert bodies[PROVEN:] == [b"first", b"1", b"2", b"last"]


async def test_calls_that_wait_for_a_connection_at_the_stop_are_not_sent():
    stop_token = StopToken()
    async with served(OK, connections=1, stop_token=stop_token) as (client, url, requests):
        sent = await client.send(target := Target("POST", url, {}), b"sent")
        waiting = [asyncio.ensure_future(client.send(target, b"late")) for _ in range(3)]
        await asyncio.sleep(0)
        stop_token.stop(Interrupted(signal.SIGINT))
        assert client.read(sent).body == b"hi"
        faults = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(fault) for fault in faults] == [Unreachable] * 3
    assert {str(fault) for fault in faults} == {"lab: the run stops before this call has left"}
    assert [body for connection in requests for _, body in connection] == [b"sent"]


async def test_a_deadline_starts_when_the_request_is_sent(monkeypatch):
    """The second request waits for the only connection, longer than its deadline."""
    loop, passed = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed)
    arrived, go = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        arrived.release()
        await go.acquire()
        writer.write(OK)

    async with listening(serve) as url:
        client = HttpClient(Settings("lab", url, "test", deadline=100.0, connections=1))

        async def exchange() -> float:
            return (
                client.read(came := await client.send(Target("POST", url, {}), b"")) and came.sent
            )

        exchanges = [asyncio.create_task(exchange()) for _ in range(2)]
        for _ in exchanges:
            await arrived.acquire()
            passed += 90.0
            await asyncio.sleep(0.01)
            go.release()
        first, second = await asyncio.gather(*exchanges)
        await client.close()
    assert 90.0 <= second - first < 100.0


async def test_an_answer_beyond_the_cap_is_cut_and_its_connection_closed():
    long = b"HTTP/1.1 200 OK\r\ncontent-length: 500000\r\n\r\n" + b"x" * 400_000
    async with served(long) as (client, url, _):
        with pytest.raises(Malformed, match="more than") as caught:
            client.read(await client.send(Target("POST", url, {}), b"body"))
    assert caught.value.body


def test_ids_that_come_again_in_a_row_where_no_answer_can_be_stale_prove_nothing():
    ids = AnswerIds()

    def heard(name: str) -> str:
        return ids.repeated({"x-request-id": name}, b"hi", fresh=True)

    assert heard("a") == ""
    for n in range(2 * FRESH_REPEATS):
        assert heard("a") == "a" and heard(f"new {n}") == ""
    assert ids.proven
    assert [heard("a") for _ in range(FRESH_REPEATS)] == ["a"] * (FRESH_REPEATS - 1) + [""]
    assert not ids.proven


@pytest.mark.parametrize("value", ["a\r\nx-other: b", "a\nb", "a\rb"])
def test_a_header_with_a_line_break_is_never_sent(value):
    with pytest.raises(ValueError, match="line break"):
        Target("POST", "http://h/", {"x-name": value})


Unasked = Callable[[bytes], bytes]


@asynccontextmanager
async def talkative(
    line: str, unasked: Unasked, after: float, every: int = 1, takes: float = 0.0, ids: bool = True
) -> AsyncIterator[tuple[Provider, list[asyncio.StreamWriter]]]:
    """A server that echoes the question, and sends `after` that many seconds later, after `every`
    answers; and each question's connection. takes: seconds. ids: one per answer."""
    used: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()

        def more(answer: bytes) -> None:
            if not writer.is_closing():
                writer.write(unasked(answer))

        while True:
            match = re.search(rb"question-\d+", (await request(reader))[1])
            assert match is not None
            used.append(writer)
            body = good_body(line).replace(b'"4"', b'"' + match[0] + b'"')
            if ids:
                body = re.sub(rb"0{20}", b"%020d" % len(used), body, count=1)
            await asyncio.sleep(takes)
            answer = http("200 OK", "", body)
            writer.write(answer)
            if not len(used) % every:
                loop.call_later(after, more, answer)

    async with listening(serve) as url, reached(line, url) as ask:
        yield ask, used


def patient(ask: Ask, fault: str) -> tuple[Ask, "count[int]"]:
    """Asks again after a fault that says so, as a run does; and how often."""
    again = count()

    async def asked_until_fresh(call: Call) -> Reply:
        while True:
            try:
                return await ask(call)
            except Malformed as exc:
                assert fault in str(exc)
                next(again)

    return asked_until_fresh, again


async def chat(ask: Ask, line: str, lanes: int, calls: int) -> None:
    """Each reply is to its question, on lanes that ask one thing after another."""

    async def lane(start: int) -> None:
        for n in range(start, calls, lanes):
            assert (await ask(asked(line, f"question-{n}"))).text == f"question-{n}"

    async with asyncio.TaskGroup() as group:
        for start in range(lanes):
            group.create_task(lane(start))


@EACH_LINE
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(
    ("lanes", "every", "takes", "after"),
    [
        (1, 1, 0.0, 0.0), (1, 1, 0.0, 0.02), (6, 1, 0.03, 0.02), (6, 5, 0.0, 0.02),
        (40, 1, 0.03, 0.2),
    ],
)  # fmt: skip
async def test_stale_answer_is_never_the_reply_to_another(line, lanes, every, takes, after, ids):
    async with talkative(line, lambda answer: answer, after, every, takes, ids) as (ask, used):
        ask, again = patient(ask, "it repeated its answer")
        await chat(ask, line, lanes, 3 * lanes + 36)
    assert len(used) == 3 * lanes + 36 + next(again)


@EACH_LINE
async def test_the_call_before_one_answer_too_many_is_named(line, caplog):
    """It has a new id and arrives while a request is pending, whose answer is then one too many."""
    put_in = 12

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            match = re.search(rb"question-(\d+)", (await request(reader))[1])
            assert match is not None
            body = re.sub(rb"0{20}", b"%020d" % int(match[1]), good_body(line), count=1)
            if int(match[1]) == put_in:
                writer.write(http("200 OK", "", body.replace(b"0" * 17, b"9" * 17)))
                await asyncio.sleep(0.05)
            writer.write(http("200 OK", "", body))

    async with listening(serve) as url, reached(line, url) as ask:
        for n in range(put_in + 1):
            await ask(asked(line, f"question-{n}"))
        while "sent an answer that nobody had asked for" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await ask(asked(line, "question-99"))
    assert f"cache show {asked(line, f'question-{put_in}').address[:12]}" in caplog.text


async def test_each_call_of_a_connection_out_of_step_is_named_however_long_it_was():
    """All answers since the stray one are one behind; only the last comes unasked."""
    reports: list[tuple[str, tuple[str, ...]]] = []
    last, numbers, late = PROVEN + 9, count(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await request(reader))[0]:
            number = next(numbers)
            writer.write(http("200 OK", f"x-request-id: {number:020}\r\n", b"hi"))
            if number == last:
                await late.wait()
                writer.write(OK)

    async with listening(serve) as url:
        settings = Settings("lab", url, "test", on_mixed=lambda *mixed: reports.append(mixed))
        client, target = HttpClient(settings, keep_alive=60.0), Target("POST", url, {})
        for n in range(last + 1):
            client.read(await client.send(target, b"", f"call {n}"))
        late.set()
        while not reports:
            await client.quiet_down()
            await asyncio.sleep(0.001)
        await client.close()
    assert reports == [("lab", tuple(f"call {n}" for n in range(PROVEN - 1, last + 1)))]


LATE = http("408 Request Timeout", "connection: close\r\n", b"")
"""Message of load balancers to an idle connection."""


@pytest.mark.parametrize(("behind", "logged"), [(LATE, False), (OK + LATE, True), (b"HT", True)])
async def test_408_read_together_with_an_answer_is_harmless(behind, logged, caplog):
    """As after a suspended process. Data other than a 408, or before one, may be stale."""
    answers = [http("200 OK", f"x-request-id: {n:020}\r\n", b"hi") for n in range(PROVEN + 2)]
    answers[PROVEN] += behind
    async with served(*answers) as (client, url, requests):
        for _ in answers:
            assert client.read(await client.send(Target("POST", url, {}), b"body")).body == b"hi"
    assert ("nobody had asked for" in caplog.text) is logged and len(requests) == PROVEN + 1


def half(answer: bytes) -> bytes:
    return answer[: len(answer) // 2]


@EACH_LINE
@pytest.mark.parametrize("trusted", [True, False])
async def test_data_between_calls_is_neither_answer_nor_fault(line, trusted, caplog):
    async with talkative(line, (lambda _: LATE) if trusted else half, 0.0, 12) as (ask, used):
        await chat(ask, line, 1, 12)
        # The received data is read, and the client has closed.
        await used[-1].wait_closed()
        await chat(ask, line, 1, 8)
    assert ("nobody had asked for" in caplog.text) is not trusted
    assert len({*used[11:]}) == (2 if trusted else 9)


@EACH_LINE
async def test_half_an_answer_while_a_request_is_out_makes_no_reply(line):
    """It is read as the start of the answer: at most once on each of the four connections."""
    async with talkative(line, half, 0.0) as (ask, _):
        ask, again = patient(ask, "sent no JSON")
        await chat(ask, line, 4, 20)
    assert next(again) <= 4


DEADLINE = 3.0
CALLS = 4
"""Few, so that a slow machine reads their replies within the moment that they are given."""


@pytest.mark.wire
@pytest.mark.parametrize("line", ["openai wire, plain", "anthropic wire, sdk"])
async def test_answers_that_came_while_the_process_stood_still_are_read(line):
    async with MockServer(Profile(latency=0.5)) as server:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.engine.stands_still"),
            *(line, server.url, str(DEADLINE), str(CALLS)),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin and child.stdout and await child.stdout.readline() == b"ready\n"
        before = server.counts()
        child.stdin.write(b"\n")
        while server.counts()["requests"] < before["requests"] + CALLS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        child.send_signal(signal.SIGSTOP)
        late = time.monotonic() + DEADLINE + 0.8
        while server.counts()["ok"] < before["ok"] + CALLS or time.monotonic() < late:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        child.send_signal(signal.SIGCONT)
        output, _ = await child.communicate()
    assert output.split() == [str(CALLS).encode()]
