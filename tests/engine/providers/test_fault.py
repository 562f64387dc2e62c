"""What a server says in place of a reply, and which error that is; limits and delays in headers:
`faults.md`."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.engine.errors import EngineError, RateLimited
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.limit_headers import LONGEST, Allowance, HeaderLimits, delay
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.wire import Wire
from tests.sessions import sessions
from tests.tables import printed

OPENAI, ANTHROPIC = OpenAIWire(), AnthropicWire()
INVALID = "invalid_request_error"
DATE = "Fri, 20 Nov 2026 12:00:00 GMT"


def answered(status: int, body: Any, wire: Wire = OPENAI) -> str:
    """What a wire makes of an answer: its error, or a reply that is none."""
    try:
        reply = wire.reply(status, {}, body if isinstance(body, bytes) else orjson.dumps(body))
    except EngineError as fault:
        return f"{type(fault).__name__}: {fault}"
    return f"{reply.outcome} {reply.text!r}, {reply.stop_reason or 'no reason'}"


def openai(
    status: int, message: str, code: Any = None, type: str | None = None, **more: Any
) -> str:
    error = {"message": message, "type": type, "param": None, "code": code} | more
    return answered(status, {"error": error})


def anthropic(status: int, message: str, type: str = INVALID, error_code: str = "") -> str:
    more = {"details": {"error_code": error_code}} if error_code else {}
    error = {"type": type, "message": message} | more
    return answered(status, {"type": "error", "error": error, "request_id": "r"}, ANTHROPIC)


def boom(code: Any) -> dict[str, Any]:
    return {"error": {"message": "boom", "type": None, "param": None, "code": code}}


def routed(code: int) -> dict[str, Any]:
    """An error in place of the message of a choice."""
    said = {"message": "the server behind failed", "code": code}
    return {"choices": [{"error": said, "finish_reason": "error"}]}


def wait(status: int = 429, **told: str) -> float:
    headers = {name.replace("_", "-"): value for name, value in told.items()}
    return delay(status, headers, OPENAI.limits(headers))


CODES = (402, "insufficient_quota", 401, 404, 429, "429", 500, 503, None, "server_error")


@sessions(Path(__file__).with_name("faults.md"))
def test_each_fault_is_told_by_its_kind_with_the_mend(session, request):
    session.check(request, printed(globals()))


def test_the_delay_comes_with_the_error():
    with pytest.raises(RateLimited) as limited:
        OPENAI.reply(429, {"retry-after-ms": "1500"}, b"{}")
    assert limited.value.delay == 1.5


def test_openai_limits_are_read_with_resets_as_durations():
    headers = {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-tokens": "1m30.5s",
    }
    assert OPENAI.limits(headers) == HeaderLimits(
        requests=Allowance(5000, 4999, 0.012), tokens=Allowance(2000000, 1999000, 90.5)
    )


def test_anthropic_limits_are_read_with_resets_on_the_servers_clock():
    headers = {
        "date": DATE,
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-20T12:00:01Z",
        "anthropic-ratelimit-input-tokens-limit": "40000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-20T12:00:42+00:00",
        "anthropic-ratelimit-output-tokens-limit": "8000",
    }
    limits = ANTHROPIC.limits(headers)
    assert limits.requests == Allowance(50, 49, 1.0)
    assert limits.input_tokens == Allowance(40000, 0, 42.0)
    assert limits.output_tokens == Allowance(8000)
    assert limits.tokens == Allowance()
    assert limits.longest_reset == 42.0


def test_without_the_servers_date_an_instant_says_nothing():
    # Our own clock may be wrong by hours: it is never subtracted from theirs.
    reset = {"anthropic-ratelimit-requests-reset": "2026-11-20T12:00:01Z"}
    assert ANTHROPIC.limits(reset).requests.reset is None


FAR = (
    "1000000000000",
    "1e300",
    "1e999",
    "99999999999999999999999",
    "-1e300",
    "nan",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
    "Fri, 31 Dec 2026 23:59:59 +99999999999999",
    "Fri, 31 Dec 2026 99:99:99 GMT",
    "9999-12-31T23:59:59+00:00",
    ",",
    ", , , ,",
)


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("where", ["retry-after", "date", "retry-after-ms"])
def test_no_delay_and_no_date_is_too_absurd_to_be_borne(wire, where):
    resets = {
        "anthropic-ratelimit-tokens-reset": "0001-01-01T00:00:00+23:59",
        "x-ratelimit-reset-tokens": f"{'9' * 400}s",
    }
    for value in FAR:
        for more in (resets, {}):
            headers = {"date": DATE, **more, where: value}
            assert 0 <= delay(429, headers, wire.limits(headers)) <= LONGEST, value
