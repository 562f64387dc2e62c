import pytest

from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.limit_headers import LONGEST, Allowance, HeaderLimits, delay
from oversight.engine.providers.openai_wire import OpenAIWire

DATE = "Fri, 20 Nov 2026 12:00:00 GMT"


def test_openai_limits_are_read_with_resets_as_durations() -> None:
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


def test_anthropic_limits_are_read_with_resets_on_the_servers_clock() -> None:
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
def test_the_delay_to_obey(headers: dict[str, str], seconds: float) -> None:
    assert delay(429, headers, OpenAIWire().limits(headers)) == seconds


def test_when_a_budget_is_whole_again_says_nothing_of_when_a_failing_server_is_well() -> None:
    headers = {"x-ratelimit-reset-tokens": "6m0s"}
    limits = OpenAIWire().limits(headers)
    assert [delay(status, headers, limits) for status in (429, 500, 503)] == [360.0, 0.0, 0.0]
    assert delay(503, headers | {"retry-after": "7"}, limits) == 7.0


def test_without_the_servers_date_an_instant_says_nothing() -> None:
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
def test_no_delay_and_no_date_is_too_absurd_to_be_borne(
    wire: OpenAIWire | AnthropicWire, where: str
) -> None:
    resets = {
        "anthropic-ratelimit-tokens-reset": "0001-01-01T00:00:00+23:59",
        "x-ratelimit-reset-tokens": f"{'9' * 400}s",
    }
    for value in FAR:
        for more in (resets, {}):
            headers = {"date": DATE, **more, where: value}
            assert 0 <= delay(429, headers, wire.limits(headers)) <= LONGEST, value
