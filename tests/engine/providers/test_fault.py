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


def openai(message: str, code: Any = None, type: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code} | more}


def anthropic(type: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message} | more, "request_id": "r"}


CASES: list[tuple[Wire, int, Any, type[EngineError]]] = [
    (OPENAI, 401, openai("Incorrect API key", "invalid_api_key"), AuthenticationFailed),
    (ANTHROPIC, 401, anthropic("authentication_error", "invalid x-api-key"), AuthenticationFailed),
    (OPENAI, 403, openai("Country not supported", "unsupported_country"), AuthenticationFailed),
    (ANTHROPIC, 403, anthropic("permission_error", "not allowed"), AuthenticationFailed),
    (OPENAI, 402, openai("Insufficient Balance", "invalid_request_error"), QuotaExhausted),
    (OPENAI, 429, openai("You exceeded your current quota", "insufficient_quota"), QuotaExhausted),
    (OPENAI, 429, openai("Nothing left", "credit_balance_exhausted"), QuotaExhausted),
    (
        ANTHROPIC,
        400,
        anthropic("invalid_request_error", "You have reached your specified API usage limits."),
        QuotaExhausted,
    ),
    (
        ANTHROPIC,
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the API"),
        QuotaExhausted,
    ),
    (ANTHROPIC, 402, anthropic("billing_error", "pay"), QuotaExhausted),
    (
        ANTHROPIC,
        429,
        anthropic(
            "rate_limit_error", "over", details={"error_code": "enforced_spend_limit_reached"}
        ),
        QuotaExhausted,
    ),
    (ANTHROPIC, 429, anthropic("rate_limit_error", "slow down"), RateLimited),
    (
        ANTHROPIC,
        429,
        anthropic("rate_limit_error", "ramp", details={"error_code": "ramp_limit_exceeded"}),
        RateLimited,
    ),
    (OPENAI, 429, openai("Rate limit: Limit 200000, Used 199900, Requested 400"), RateLimited),
    (
        OPENAI,
        429,
        openai("Request too large for gpt-4o on tokens per min: Limit 30000, Requested 52000"),
        ExceedsRateLimit,
    ),
    (OPENAI, 429, openai("on tokens per min: Limit 30000, Requested 52000"), ExceedsRateLimit),
    (OPENAI, 404, openai("The model `gpt-9` does not exist", "model_not_found"), ModelNotFound),
    (OPENAI, 404, {"error": "model 'llama9' not found, try pulling it first"}, ModelNotFound),
    (OPENAI, 400, openai("llama-9 is not a valid model ID", 400), ModelNotFound),
    (ANTHROPIC, 404, anthropic("not_found_error", "model: claude-9"), ModelNotFound),
    (
        OPENAI,
        400,
        openai("This model's maximum context length is 8192 tokens", "context_length_exceeded"),
        ContextLengthExceeded,
    ),
    (
        OPENAI,
        400,
        openai("maximum context length is 4096 tokens", 400, "BadRequestError"),
        ContextLengthExceeded,
    ),
    (
        ANTHROPIC,
        400,
        anthropic("invalid_request_error", "prompt is too long: 214083 tokens > 200000 maximum"),
        ContextLengthExceeded,
    ),
    (
        OPENAI,
        400,
        openai("Unsupported parameter: 'max_tokens'", "unsupported_parameter", param="max_tokens"),
        ModelNotFound,
    ),
    (
        OPENAI,
        400,
        openai("'temperature' does not support 0.4 with this model", "unsupported_value"),
        ModelNotFound,
    ),
    (
        ANTHROPIC,
        400,
        anthropic("invalid_request_error", "output_config: Extra inputs are not permitted"),
        ModelNotFound,
    ),
    (OPENAI, 400, openai("messages: expected an array", "invalid_type"), InvalidRequest),
    (OPENAI, 413, openai("too big"), InvalidRequest),
    (OPENAI, 422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, InvalidRequest),
    (OPENAI, 418, {}, InvalidRequest),
    (OPENAI, 501, {}, InvalidRequest),
    *[(OPENAI, status, openai("later"), Overloaded) for status in (408, 409, 500, 502, 503, 504)],
    (ANTHROPIC, 529, anthropic("overloaded_error", "Overloaded"), Overloaded),
]


@pytest.mark.parametrize(("wire", "status", "body", "expected"), CASES)
def test_each_row_of_the_table_has_its_error(
    wire: Wire, status: int, body: Any, expected: type[EngineError]
) -> None:
    with pytest.raises(EngineError) as caught:
        wire.reply(status, {}, orjson.dumps(body))
    assert type(caught.value) is expected
    assert str(caught.value).startswith(f"{wire.provider} says: {status}")


@pytest.mark.parametrize(
    "said",
    [
        b"Client sent an HTTP request to an HTTPS server.\n",
        b"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head>",
    ],
)
def test_a_server_that_asks_for_tls_in_plain_words_stops_with_the_mend(said: bytes) -> None:
    with pytest.raises(ModelNotFound, match="write https:// in the base URL of openai"):
        OPENAI.reply(400, {}, said)


@pytest.mark.parametrize("status", [301, 405, 426, 505])
def test_a_server_that_wants_another_request_stops_the_model(status: int) -> None:
    with pytest.raises(ModelNotFound, match=f"openai says: {status}.*check the base URL of openai"):
        OPENAI.reply(status, {}, b"")


@pytest.mark.parametrize(
    ("wire", "status", "body"),
    [
        (OPENAI, 400, openai("The prompt was filtered", "content_filter")),
        (OPENAI, 400, openai("no", "content_policy_violation")),
        (OPENAI, 400, openai("your prompt was flagged as potentially violating", "invalid_prompt")),
        (OPENAI, 403, openai("m requires moderation. Your input was flagged", 403)),
        (
            ANTHROPIC,
            400,
            anthropic("invalid_request_error", "Output blocked by content filtering policy"),
        ),
        (OPENAI, 200, openai("m requires moderation. Your input was flagged", 403)),
    ],
)
def test_a_prompt_that_a_policy_turned_down_is_a_refusal(
    wire: Wire, status: int, body: Any
) -> None:
    reply = wire.reply(status, {}, orjson.dumps(body))
    assert (reply.outcome, reply.text) == ("refused", "")
    assert reply.stop_reason


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (402, QuotaExhausted),
        (401, AuthenticationFailed),
        ("insufficient_quota", QuotaExhausted),
        (429, RateLimited),
        ("429", RateLimited),
        (404, ModelNotFound),
        (500, Malformed),
        (503, Malformed),
        (None, Malformed),
        ("server_error", Malformed),
    ],
)
@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
def test_an_error_inside_a_200_counts_by_its_own_code(
    wire: Wire, code: Any, expected: type[EngineError]
) -> None:
    with pytest.raises(EngineError) as caught:
        wire.reply(200, {}, orjson.dumps(openai("boom", code)))
    assert type(caught.value) is expected


def test_an_error_in_place_of_a_choices_message_counts_by_its_code() -> None:
    def routed(code: int) -> bytes:
        said = {"message": "the server behind failed", "code": code}
        return orjson.dumps({"choices": [{"error": said, "finish_reason": "error"}]})

    with pytest.raises(Malformed, match="502: the server behind failed"):
        OPENAI.reply(200, {}, routed(502))
    with pytest.raises(QuotaExhausted):
        OPENAI.reply(200, {}, routed(402))


def test_an_html_page_is_shown_by_its_start() -> None:
    page = b"<html>\n  <h1>502   Bad Gateway</h1>" + b"x" * 1000
    with pytest.raises(Overloaded, match=r"<html> <h1>502 Bad Gateway</h1>x+ …") as caught:
        OPENAI.reply(502, {}, page)
    assert len(str(caught.value)) < 300


def test_the_delay_comes_with_the_error() -> None:
    with pytest.raises(RateLimited) as limited:
        OPENAI.reply(429, {"retry-after-ms": "1500"}, b"{}")
    assert limited.value.delay == 1.5


def test_the_parameter_at_fault_is_named_once() -> None:
    body = openai("This value is not taken", "unsupported_value", param="temperature")
    with pytest.raises(ModelNotFound, match=r"\(parameter temperature\); leave the parameter out"):
        OPENAI.reply(400, {}, orjson.dumps(body))
