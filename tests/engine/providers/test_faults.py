"""Recorded error answers and stop reasons of real servers, and the table by which they are read."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.normalize import words
from oversight.cache.reply import UNKNOWN_STOP
from oversight.engine.errors import Malformed, OutcomeUnknown
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.fault import (
    FaultEvidence,
    Rule,
    WaitPlace,
    has_phrase,
    phrase,
    read_fault,
    table,
)
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.wire import Wire
from tests.conftest import examples
from tests.engine.providers.test_wires import chat, message, response

Recorded = dict[str, Any]


def recorded(file: Any) -> list[Recorded]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


FAULTS = recorded(files("oversight.engine.extensions.mock").joinpath("recorded_faults.jsonl"))
STOPS = recorded(Path(__file__).with_name("stop_reasons.jsonl"))
WIRES: dict[str, Wire] = {
    "openai": OpenAIWire(), "anthropic": AnthropicWire(), "responses": ResponsesWire(),
}  # fmt: skip


def read(fault: Recorded) -> tuple[str, float]:
    """The meaning of a recorded answer, and the seconds that it states."""
    body = fault["body"].encode()
    error = OpenAIWire(fault["vendor"]).error
    if (
        fault["status"] == 200
        and body.startswith(b"{")
        and (error_field := error(orjson.loads(body)))
    ):
        body = orjson.dumps({"error": error_field})
    answer = read_fault(fault["vendor"], fault["status"], fault["headers"], body, fault["own"])
    return answer.means, answer.delay


def test_each_recorded_fault_has_its_meaning_and_its_wait():
    wrong = []
    for fault in FAULTS:
        wait = fault["resets"] if fault["meaning"] == "quota" else fault["wait"]
        expected = fault["meaning"], pytest.approx(wait or 0.0)
        if (actual := read(fault)) != expected:
            wrong.append((fault["id"], actual, expected))
    assert wrong == [] and len(FAULTS) > 500


def test_each_rule_and_each_place_of_a_wait_has_a_recorded_answer(monkeypatch):
    rules, places = set[int](), set[int]()
    decide, stated_wait = FaultEvidence.rule, FaultEvidence._stated

    def rule(answer: FaultEvidence) -> Rule | None:
        rule_found = decide(answer)
        rules.add(id(rule_found))
        return rule_found

    def seconds(answer: FaultEvidence, place: WaitPlace) -> Iterator[float | None]:
        for value in stated_wait(answer, place):
            places.update({id(place)} if value else ())
            yield value

    monkeypatch.setattr(FaultEvidence, "rule", rule)
    monkeypatch.setattr(FaultEvidence, "_stated", seconds)
    for fault in FAULTS:
        read(fault)
    assert [rule for rule in table().fault if id(rule) not in rules] == []
    assert [place for place in table().wait if id(place) not in places] == []


def test_the_phrases_of_the_table_are_written_as_they_are_compared():
    phrases = [text for rule in table().fault for text in rule.says]
    stops = [reason for reasons in table().stop.values() for reason in reasons]
    assert [text for text in phrases if " * ".join(map(words, text.split(" * "))) != text] == []
    assert [reason for reason in stops if words(reason) != reason] == []
    assert len(stops) == len(set(stops))


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("body", [b"[" * 10**5, b'{"message":"' + b"model x " * 10**5 + b'"}'])
def test_a_body_of_any_kind_is_read(status, body):
    assert read_fault("openai", status, {}, body).message


any_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(0, 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
keys = st.sampled_from(["error", "message", "code", "details", "raw", "retry_after", "status"])


@examples(25)
@given(st.dictionaries(keys, any_json), st.sampled_from([200, 301, 400, 404, 429, 503]))
def test_no_body_breaks_the_reader(body, status):
    fault = read_fault("compatible/lab", status, {}, orjson.dumps(body))
    assert fault.delay >= 0 and "\n" not in str(fault)


def test_the_parts_of_a_phrase_are_near_each_other():
    assert has_phrase(f" the model {'x ' * 20} is not found", phrase("model * not found"))
    assert not has_phrase(f" model {words('x ' * 60)} is not found", phrase("model * not found"))
    assert not has_phrase(" remodel is not found", phrase("model * not found"))


def ended(wire: str, place: str, value: str | None) -> Any:
    """The body of a reply with a stop reason."""
    if wire == "openai":
        return chat(finish_reason=value)
    if wire == "anthropic":
        return message(stop_reason=value)
    if place == "status":
        return response(status=value)
    return response(status="incomplete", incomplete_details={"reason": value})


OUTCOMES = {"end": "ok", "tools": "ok", "cut": "truncated", "declined": "refused"}


@pytest.mark.parametrize("wire", WIRES)
def test_each_recorded_stop_reason_has_its_meaning_on_each_wire(wire):
    """A reply that was broken off is asked again; one of an unknown reason is kept, and marked."""
    for stop in STOPS:
        place = stop.get("place", "incomplete_details.reason")
        if place.startswith("output") or (stop["value"] is None and wire == "responses"):
            continue
        try:
            reply = WIRES[wire].reply(200, {}, orjson.dumps(ended(wire, place, stop["value"])))
        except OutcomeUnknown as exc:
            assert not isinstance(exc, Malformed)
            outcomes = {"interrupted"}
        else:
            marked = reply.stop_reason.startswith(UNKNOWN_STOP)
            outcomes = {"unknown" if marked else reply.outcome.replace("empty", "ok")}
        expected = {OUTCOMES.get(end, end) for end in (stop["meaning"], *stop.get("also", ()))}
        assert outcomes <= expected, stop
