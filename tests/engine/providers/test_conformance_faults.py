"""What a server answers in place of a reply, over both wires and both transports."""

import gzip

import pytest

from oversight.engine.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    ExceedsRateLimit,
    Malformed,
    ModelNotFound,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    TransientError,
    UnrecognizedReply,
)
from oversight.engine.extensions.mock import FaultKind, MockServer, Profile
from oversight.engine.providers.limit_headers import LONGEST, HeaderLimits
from tests.lines import EACH_LINE, LINES, always, asked, canned, good_body, http, reached, rehearsed
from tests.server import sender

pytestmark = [EACH_LINE, pytest.mark.wire]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("rate_limit", RateLimited),
        ("server_error", Overloaded),
        ("overloaded", Overloaded),
        ("html", Overloaded),
        ("unauthorized", AuthenticationFailed),
        ("quota", QuotaExhausted),
        ("too_long", ContextLengthExceeded),
        ("reset", OutcomeUnknown),
        ("cut", OutcomeUnknown),
        ("half_json", Malformed),
        ("error_in_200", Malformed),
        ("gzip_bomb", Malformed),
        ("huge", Malformed),
        ("unknown_stop", UnrecognizedReply),
    ],
)
async def test_each_fault_has_its_error(
    line: str, fault: FaultKind, expected: type[EngineError]
) -> None:
    async with rehearsed(line, always(fault)) as (ask, server):
        with pytest.raises(EngineError) as caught:
            await ask(asked(line))
        # One failed exchange spoils no other: the server is asked again without any trouble.
        server.profile = Profile()
        assert (await ask(asked(line))).outcome == "ok"
    assert type(caught.value) is expected
    assert LINES[line][0] in str(caught.value)
    assert server.counts()[fault] == 1


@pytest.mark.parametrize("fault", ["stall", "drip"])
async def test_the_deadline_is_total_and_ends_in_ambiguity(line: str, fault: FaultKind) -> None:
    async with rehearsed(line, always(fault, speed=20.0), deadline=0.3) as (ask, _):
        with pytest.raises(OutcomeUnknown, match=r"no whole answer within 0\.3 s"):
            await ask(asked(line))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: never\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_no_whole_http_answer_is_ambiguous(line: str, answer: bytes) -> None:
    async with canned(line, answer) as (ask, _):
        with pytest.raises(OutcomeUnknown) as caught:
            await ask(asked(line))
    assert type(caught.value) is OutcomeUnknown
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"\x0b\x02\x80"),
        ("gzip", b"no gzip at all"),
        ("gzip", gzip.compress(b"x" * 10_000, mtime=0)[:-20]),
    ],
)
async def test_what_cannot_be_decompressed_is_malformed(
    line: str, encoding: str, body: bytes
) -> None:
    packed = http("200 OK", f"content-encoding: {encoding}\r\n", body)
    async with canned(line, packed) as (ask, _):
        with pytest.raises(Malformed) as caught:
            await ask(asked(line))
    assert caught.value.body == body


async def test_a_wrong_path_stops_the_model_with_a_hint(line: str) -> None:
    async with MockServer() as server, reached(line, f"{server.url}/nowhere/else?") as ask:
        with pytest.raises(ModelNotFound, match="base URL"):
            await ask(asked(line))


async def test_a_redirect_is_not_followed_with_the_key_in_hand(line: str) -> None:
    async with MockServer() as elsewhere:
        away = http("307 Temporary Redirect", f"location: {elsewhere.url}/v1/messages\r\n", b"")
        async with canned(line, away) as (ask, _):
            with pytest.raises(
                ModelNotFound, match=f"{elsewhere.url}/v1/messages; check the base URL"
            ):
                await ask(asked(line))
        assert elsewhere.counts() == {}


@pytest.mark.parametrize("fault", ["rate_limit", "overloaded"])
async def test_the_delay_that_a_server_asks_for_is_handed_on(line: str, fault: FaultKind) -> None:
    async with rehearsed(line, always(fault, delay=7.0, speed=2.0)) as (ask, _):
        with pytest.raises(TransientError) as caught:
            await ask(asked(line))
    assert caught.value.delay == 3.5


async def test_limits_in_headers_are_heard_once_while_they_stay(line: str) -> None:
    heard: list[tuple[str, HeaderLimits]] = []
    profile = Profile(requests_per_minute=2, tokens_per_minute=10_000)
    async with rehearsed(line, profile, on_limits=lambda *said: heard.append(said)) as (ask, _):
        await ask(asked(line, "a"))
        await ask(asked(line, "b"))
        with pytest.raises(RateLimited) as caught:
            await ask(asked(line, "c"))
    assert 25 < caught.value.delay <= 30
    ((model, limits),) = heard
    assert model == asked(line).model
    assert (limits.requests.limit, limits.tokens.limit) == (2, 10_000)
    assert limits.requests.reset is not None


async def test_a_call_beyond_the_whole_budget_never_succeeds(line: str) -> None:
    async with rehearsed(line, Profile(tokens_per_minute=10)) as (ask, _):
        with pytest.raises(ExceedsRateLimit):
            await ask(asked(line, "long " * 100))


async def test_another_protocol_than_was_spoken_is_told_at_once(line: str) -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    async with canned(line, switched + b"PRI * HTTP/2.0") as (ask, _):
        with pytest.raises(ModelNotFound, match=r"101.*check the base URL"):
            await ask(asked(line))


async def test_no_delay_and_no_date_is_too_absurd_to_be_borne(line: str) -> None:
    """All of them: tests/engine/providers/test_limit_headers.py."""
    told = "retry-after: 1e999\r\ndate: Fri, 31 Dec 99999999999999999999 23:59:59 GMT\r\n"
    resets = "anthropic-ratelimit-tokens-reset: 0001-01-01T00:00:00+23:59\r\n"
    resets += f"x-ratelimit-reset-tokens: {'9' * 400}s\r\n"
    async with canned(line, http("429 Too Many Requests", told + resets, b"{}")) as (ask, _):
        with pytest.raises(TransientError) as caught:
            await ask(asked(line))
    assert 0 <= caught.value.delay <= LONGEST
    async with canned(line, http("200 OK", told, good_body(line))) as (ask, _):
        assert (await ask(asked(line))).text == "4"


@pytest.mark.parametrize("delay", ["1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_delay_beyond_all_bounds_stops_and_names_no_date(line: str, delay: str) -> None:
    told = f"retry-after: {delay}\r\ndate: Fri, 20 Nov 2026 12:00:00 GMT\r\n"
    async with canned(line, http("503 Busy", told, b"{}")) as (ask, _):
        with pytest.raises(ProviderDown, match="asks to wait for more than a year"):
            await sender(ask)(asked(line))
