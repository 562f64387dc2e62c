"""What a server says in place of a reply, and the error that it is."""

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
def test_each_row_of_the_table_has_its_error(
    expected: type[EngineError], status: int, body: Any
) -> None:
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
def test_a_server_that_wants_another_request_stops_the_model_with_the_mend(
    status: int, said: bytes, told: str
) -> None:
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
def test_a_prompt_that_a_policy_turned_down_is_a_refusal(status: int, body: Any) -> None:
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
def test_an_error_inside_a_200_counts_by_its_own_code(
    wire: Wire, body: Any, expected: type[EngineError]
) -> None:
    with pytest.raises(EngineError, match=r"boom|(402|502): the server behind failed") as caught:
        wire.reply(200, {}, orjson.dumps(body))
    assert type(caught.value) is expected


def test_an_html_page_is_shown_by_its_start() -> None:
    page = b"<html>\n  <h1>502   Bad Gateway</h1>" + b"x" * 1000
    with pytest.raises(Overloaded, match=r"<html> <h1>502 Bad Gateway</h1>x+ …") as caught:
        OPENAI.reply(502, {}, page)
    assert len(str(caught.value)) < 300


def test_the_delay_comes_with_the_error() -> None:
    with pytest.raises(RateLimited) as limited:
        OPENAI.reply(429, {"retry-after-ms": "1500"}, b"{}")
    assert limited.value.delay == 1.5
