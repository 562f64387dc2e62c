"""Recorded answers of real servers: none of their texts contains reasoning."""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.cache.reply import Reply
from oversight.engine.errors import EngineError
from oversight.engine.models.accounting.prices import charged
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.wire import Wire

FOUND = [folder / "shared/data/recordings/replies.jsonl.xz" for folder in Path(__file__).parents]
RECORDED = next((path for path in FOUND if path.exists()), None)
WIRES: dict[str, Wire] = {
    "chat": OpenAIWire(), "messages": AnthropicWire(), "responses": ResponsesWire(),
}  # fmt: skip
pytestmark = pytest.mark.skipif(RECORDED is None, reason="the recorded answers are not here")


def recorded() -> Iterator[tuple[dict[str, Any], Reply]]:
    """The bodies of all answers that hold a reply, with the replies."""
    assert RECORDED
    for line in lzma.decompress(RECORDED.read_bytes()).splitlines():
        answer = orjson.loads(line)
        if answer["status"] != 200:
            continue
        try:
            reply = WIRES[answer["wire"]].reply(200, {}, answer["body"].encode())
        except EngineError:
            continue
        yield orjson.loads(answer["body"]), reply


WHERE = ("text", "thinking", "summary", "content", "reasoning", "reasoning_content")


def thoughts_in(value: Any, within: bool = False) -> Iterator[str]:
    """Every text of a body that is a thought: below a field or a block of that name, or tagged."""
    match value:
        case dict():
            is_reasoning = str(value.get("type")).startswith(("thinking", "reasoning"))
            for name, part in value.items():
                thought = within or is_reasoning or name in ("reasoning", "reasoning_content")
                if name in WHERE or not isinstance(part, str):
                    yield from thoughts_in(part, thought)
        case list():
            for part in value:
                yield from thoughts_in(part, within)
        case str() if within:
            yield value
        case str() if value.lstrip().startswith("<think>"):
            yield value.partition("<think>")[2].partition("</think>")[0]


def test_every_recorded_reply_has_its_thoughts_apart():
    tagged = split = 0
    for body, reply in recorded():
        content = body.get("choices") or body.get("content") or body.get("output")
        thoughts = [text.strip() for text in thoughts_in(content) if text.strip()]
        for text in thoughts:
            assert text in reply.reasoning and text not in reply.text
        assert bool(reply.reasoning) == bool(thoughts)
        assert "<think>" not in reply.text and "</think>" not in reply.text
        split += bool(thoughts)
        tagged += bool(thoughts) and not reply.opaque
    assert (split, tagged) == (71, 2)


def test_every_recorded_reply_that_says_what_it_cost_is_charged_so():
    """Known truth: 34 of the recorded replies of OpenRouter, one of which another vendor billed."""
    costs = [
        (cost, charged(reply.usage, None))
        for body, reply in recorded()
        if (cost := (body.get("usage") or {}).get("cost")) is not None
    ]
    assert sum(charge == cost for cost, charge in costs) == len(costs) - 1
    assert (len(costs), [charge for cost, charge in costs if charge != cost]) == (34, [0.0002265])


def test_stated_cost_of_a_gateway_is_kept_with_the_usage():
    body = next(body for body, reply in recorded() if reply.outcome == "ok" and "choices" in body)
    costs = {"2.5e-05": 2.5e-05} | dict.fromkeys(("unknown", "None", "", "$0.01", "nan"))
    for header, cost in costs.items():
        reply = WIRES["chat"].reply(200, {"x-litellm-response-cost": header}, orjson.dumps(body))
        assert (reply.outcome, charged(reply.usage, None)) == ("ok", cost), header
