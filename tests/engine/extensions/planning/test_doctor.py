"""Whether a server is who was asked for, and what time it has; what `oversight doctor` prints is in
the sessions of the command line."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from oversight.engine.extensions.planning.preflight import clock_of
from oversight.engine.providers.limit_headers import HeaderLimits, duration_limits
from oversight.engine.providers.same_model import same_model
from tests.answering import alike, answering


def test_an_answer_of_another_model_is_no_answer_of_this_one():
    assert not same_model("smollm2-135m", "qwen2.5-0.5b-instruct")
    for asked, served in (
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
        ("smollm2-135m", "/models/SmolLM2-135M-Instruct-Q8_0.gguf"),
        ("llama3.1:latest", "llama3.1"),
    ):
        assert same_model(asked, served)


@pytest.mark.wire
@pytest.mark.parametrize(("served", "code"), [("other-7b", 1), ("llama-3-8b.gguf", 0)])
def test_a_server_that_answers_as_another_model_is_not_well(command, monkeypatch, served, code):
    body = json.dumps(
        {
            "model": served,
            "choices": [
                {"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        }
    ).encode()
    with answering(alike(200, body)) as (url, _):
        monkeypatch.setenv("COMPATIBLE_LAB_BASE_URL", f"{url}/v1")
        told = command("doctor", "compatible/lab/llama-3-8b")
    assert told.code == code, told.err
    assert f", as {served}" in told.out
    remedy = f"that is another model: write compatible/lab/{served}, or have it serve llama-3-8b"
    assert (remedy in told.out) == bool(code)


@pytest.mark.parametrize(
    ("ahead", "fine", "text"),
    [
        (0, True, "the clock agrees with the server's"),
        (59, True, "the clock agrees with the server's"),
        (300, False, "the clock is 300 s ahead of the server's"),
        (-4000, False, "the clock is 4000 s behind the server's"),
    ],
)
def test_a_clock_that_is_off_is_told_by_how_much(ahead, fine, text):
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    there = format_datetime(now - timedelta(seconds=ahead), usegmt=True)
    slow = format_datetime(now - timedelta(seconds=ahead + 30), usegmt=True)
    told = (
        [duration_limits({"date": date}) for date in (slow, there)]
        if ahead >= 0
        else [duration_limits({"date": there})]
    )
    (finding,) = clock_of("openai", told, now)
    assert (finding.fine, finding.text) == (fine, text)


def test_a_server_that_does_not_say_the_time_says_nothing_of_the_clock():
    told = [HeaderLimits(), HeaderLimits(date="yesterday")]
    assert clock_of("openai", told, datetime.now(UTC)) == []
