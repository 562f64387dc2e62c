"""Calls of one problem begin alike, and vendors are told so."""

import asyncio

import orjson

from oversight.cache.call import Call
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.prompt_cache import kept_prefix, shared_beginning
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.mechanisms.critique import Critique
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.question import Answer, Question
from tests.fakes import Scripted, prompt

ANSWERS = (Answer("A", "48"), Answer("B", "36"))


def calls_of(problem: str, model: str) -> list[Call]:
    """What several mechanisms ask about one problem, everybody reading the passage."""
    question = Question(f"What of {problem}?", ANSWERS, f"A long story of {problem}. " * 400)
    judge, agent = StatedJudge(model, reads_passage=True), Agent(model)

    def script(call: Call) -> str:
        asked = prompt(call)
        held = asked.task == "statement"
        return ("Yes: 60%\nNo: 40%" if held else "A: 60%\nB: 40%") if call.model else "So."

    ask = Scripted(script)
    for protocol in (Debate(judge, agent), Consultancy(judge, agent), Critique(judge, agent)):
        for side in ANSWERS:
            asyncio.run(protocol.run(question, side, ask))
    return ask.calls


def test_all_calls_of_a_problem_go_to_one_machine_and_those_of_another_to_another() -> None:
    for wire in (OpenAIWire(), ResponsesWire()):
        keys = [
            {
                orjson.loads(wire.body(call))["prompt_cache_key"]
                for call in calls_of(each, "openai/m")
            }
            for each in ("apples", "pears")
        ]
        assert [len(each) for each in keys] == [1, 1] and keys[0] != keys[1]


def test_what_a_problem_has_in_common_is_marked_and_what_a_protocol_has() -> None:
    calls = calls_of("apples", "anthropic/claude-opus-4-8")
    bodies = [orjson.loads(AnthropicWire().body(call)) for call in calls]
    first, last = ({str(body["system"][place]) for body in bodies} for place in (0, -1))
    assert (len(first), len(last)) == (1, 3)
    assert all("cache_control" in block for body in bodies for block in body["system"])
    assert len({kept_prefix(call) for call in calls}) == 1
    # What a store keeps once.
    assert len({shared_beginning(call) for call in calls}) == 1
    for call, body in zip(calls, bodies, strict=True):
        assert "".join(block["text"] for block in body["system"]) == call.messages[0].text


def test_other_servers_are_sent_no_key() -> None:
    body = orjson.loads(OpenAIWire("vllm").body(calls_of("apples", "vllm/m")[0]))
    assert "prompt_cache_key" not in body
