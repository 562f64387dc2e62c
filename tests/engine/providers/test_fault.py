"""What a server says in place of a reply, and which error that is; limits and delays in headers."""

from typing import Any

import orjson
import pytest

from oversight.engine.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    ExceedsRateLimit,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    QuotaExhausted,
    RateLimited,
)
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.limit_headers import LONGEST, Allowance, HeaderLimits, delay
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.wire import Wire

OPENAI, ANTHROPIC = OpenAIWire(), AnthropicWire()
INVALID = "invalid_request_error"


def openai(message: str, code: Any = None, type: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code} | more}


def anthropic(message: str, type: str = INVALID, error_code: str = "") -> dict[str, Any]:
    more = {"details": {"error_code": error_code}} if error_code else {}
    return {"type": "error", "error": {"type": type, "message": message} | more, "request_id": "r"}


CASES: dict[type[EngineError], list[tuple[int, Any]]] = {
    AuthenticationFailed: [
        (401, openai("Incorrect API key", "invalid_api_key")),
        (401, anthropic("invalid x-api-key", "authentication_error")),
        (403, openai("Country not supported", "unsupported_country")),
        (403, anthropic("not allowed", "permission_error")),
    ],
    QuotaExhausted: [
        (402, openai("Insufficient Balance", INVALID)),
        (429, openai("You exceeded your current quota", "insufficient_quota")),
        (429, openai("Nothing left", "credit_balance_exhausted")),
        (400, anthropic("You have reached your specified API usage limits.")),
        (400, anthropic("Your credit balance is too low to access the API")),
        (402, anthropic("pay", "billing_error")),
        (429, anthropic("over", "rate_limit_error", "enforced_spend_limit_reached")),
    ],
    RateLimited: [
        (429, anthropic("slow down", "rate_limit_error")),
        (429, anthropic("ramp", "rate_limit_error", "ramp_limit_exceeded")),
        (429, openai("Resource unavailable", "resource_unavailable")),
        (429, openai("Rate limit: Limit 200000, Used 199900, Requested 400")),
    ],
    ExceedsRateLimit: [
        (429, openai("too large for gpt-4o on tokens per min: Limit 30000, Requested 52000")),
        (429, openai("on tokens per min: Limit 30000, Requested 52000")),
    ],
    ModelNotFound: [
        (404, openai("The model `gpt-9` does not exist", "model_not_found")),
        (404, {"error": "model 'llama9' not found, try pulling it first"}),
        (400, openai("llama-9 is not a valid model ID", 400)),
        (404, anthropic("model: claude-9", "not_found_error")),
        (400, openai("Unsupported parameter", "unsupported_parameter", param="max_tokens")),
        (400, openai("'temperature' does not support 0.4 with this model", "unsupported_value")),
        (400, anthropic("output_config: Extra inputs are not permitted")),
    ],
    ContextLengthExceeded: [
        (400, openai("maximum context length is 8192 tokens", "context_length_exceeded")),
        (400, openai("maximum context length is 4096 tokens", 400, "BadRequestError")),
        (400, anthropic("prompt is too long: 214083 tokens > 200000 maximum")),
    ],
    InvalidRequest: [
        (400, openai("messages: expected an array", "invalid_type")),
        (413, openai("too big")),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}),
        (418, {}),
        (501, {}),
    ],
    Overloaded: [
        *((status, openai("later")) for status in (408, 409, 498, 500, 502, 503, 504)),
        (529, anthropic("Overloaded", "overloaded_error")),
    ],
}


def wire_of(body: Any) -> Wire:
    return ANTHROPIC if "request_id" in body else OPENAI


@pytest.mark.parametrize(
    ("expected", "status", "body"), [(kind, *case) for kind in CASES for case in CASES[kind]]
)
def test_each_row_of_the_table_has_its_error(expected, status, body):
    wire = wire_of(body)
    with pytest.raises(EngineError) as caught:
        wire.reply(status, {}, orjson.dumps(body))
    assert type(caught.value) is expected
    assert str(caught.value).startswith(f"{wire.provider} says: {status}")


PARAMETER = openai("This value is not taken", "unsupported_value", param="temperature")


@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        *(
            (400, said, "write https:// in the base URL of openai")
            for said in (
                b"Client sent an HTTP request to an HTTPS server.\n",
                b"<title>400 The plain HTTP request was sent to HTTPS port</title>",
            )
        ),
        *(
            (status, b"", f"openai says: {status}.*check the base URL of openai")
            for status in (301, 405, 426, 505)
        ),
        # The parameter at fault is named once.
        (400, orjson.dumps(PARAMETER), r"\(parameter temperature\); leave the parameter out"),
    ],
)
def test_a_server_that_wants_another_request_stops_the_model_with_the_mend(status, said, told):
    with pytest.raises(ModelNotFound, match=told):
        OPENAI.reply(status, {}, said)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("The prompt was filtered", "content_filter")),
        (400, openai("no", "content_policy_violation")),
        (400, openai("your prompt was flagged as potentially violating", "invalid_prompt")),
        (403, openai("m requires moderation. Your input was flagged", 403)),
        (400, anthropic("Output blocked by content filtering policy")),
        (200, openai("m requires moderation. Your input was flagged", 403)),
    ],
)
def test_a_prompt_that_a_policy_turned_down_is_a_refusal(status, body):
    reply = wire_of(body).reply(status, {}, orjson.dumps(body))
    assert (reply.outcome, reply.text) == ("refused", "")
    assert reply.stop_reason


def routed(code: int) -> dict[str, Any]:
    """An error in place of the message of a choice."""
    said = {"message": "the server behind failed", "code": code}
    return {"choices": [{"error": said, "finish_reason": "error"}]}


@pytest.mark.parametrize(
    ("wire", "body", "expected"),
    [
        *(
            (wire, openai("boom", code), expected)
            for wire in (OPENAI, ANTHROPIC)
            for code, expected in (
                *((402, QuotaExhausted), ("insufficient_quota", QuotaExhausted)),
                *((401, AuthenticationFailed), (404, ModelNotFound)),
                *((429, RateLimited), ("429", RateLimited), (500, Malformed), (503, Malformed)),
                *((None, Malformed), ("server_error", Malformed)),
            )
        ),
        (OPENAI, routed(502), Malformed),
        (OPENAI, routed(402), QuotaExhausted),
    ],
)
def test_an_error_inside_a_200_counts_by_its_own_code(wire, body, expected):
    with pytest.raises(EngineError, match=r"boom|(402|502): the server behind failed") as caught:
        wire.reply(200, {}, orjson.dumps(body))
    assert type(caught.value) is expected


def test_an_html_page_is_shown_by_its_start():
    page = b"<html>\n  <h1>502   Bad Gateway</h1>" + b"x" * 1000
    with pytest.raises(Overloaded, match=r"<html> <h1>502 Bad Gateway</h1>x+ …") as caught:
        OPENAI.reply(502, {}, page)
    assert len(str(caught.value)) < 300


def test_the_delay_comes_with_the_error():
    with pytest.raises(RateLimited) as limited:
        OPENAI.reply(429, {"retry-after-ms": "1500"}, b"{}")
    assert limited.value.delay == 1.5


DATE = "Fri, 20 Nov 2026 12:00:00 GMT"


def test_openai_limits_are_read_with_resets_as_durations():
    headers = {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-tokens": "1m30.5s",
    }
    assert OpenAIWire().limits(headers) == HeaderLimits(
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
    limits = AnthropicWire().limits(headers)
    assert limits.requests == Allowance(50, 49, 1.0)
    assert limits.input_tokens == Allowance(40000, 0, 42.0)
    assert limits.output_tokens == Allowance(8000)
    assert limits.tokens == Allowance()
    assert limits.longest_reset == 42.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "Fri, 20 Nov 2026 12:01:05 GMT", "date": DATE}, 65.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:59:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after-ms": "", "retry-after": "4"}, 4.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "1 fortnight"}, 0.0),
    ],
)
def test_the_delay_to_obey(headers, seconds):
    assert delay(429, headers, OpenAIWire().limits(headers)) == seconds


def test_when_a_budget_is_whole_again_says_nothing_of_when_a_failing_server_is_well():
    headers = {"x-ratelimit-reset-tokens": "6m0s"}
    limits = OpenAIWire().limits(headers)
    assert [delay(status, headers, limits) for status in (429, 500, 503)] == [360.0, 0.0, 0.0]
    assert delay(503, headers | {"retry-after": "7"}, limits) == 7.0


def test_without_the_servers_date_an_instant_says_nothing():
    # Our own clock may be wrong by hours: it is never subtracted from theirs.
    headers = {"retry-after": "Fri, 20 Nov 2026 12:01:05 GMT"}
    assert delay(429, headers, HeaderLimits()) == 0.0
    reset = {"anthropic-ratelimit-requests-reset": "2026-11-20T12:00:01Z"}
    assert AnthropicWire().limits(reset).requests.reset is None


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


@pytest.mark.parametrize("wire", [OpenAIWire(), AnthropicWire()])
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
