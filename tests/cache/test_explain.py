"""Why two calls are not one, and which recorded call is nearest."""

from dataclasses import replace

import pytest
from hypothesis import given

from oversight.cache import explain
from oversight.cache.address import store_key
from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.cache.explain import differences, nearest_recorded
from oversight.cache.record import new_record
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from tests.calls import calls

WORDS = "Four crates hold twelve apples each. " * 4
CALL = Call(
    Request("sim/strong", (Message("system", WORDS), Message("user", "Speak.")), temperature=0.4)
)


def store_of(*recorded: Call, place: str = "here/v1") -> MemoryStore:
    store = MemoryStore()
    for call in recorded:
        key = store_key(call.address, place)
        store.put_many([(key, new_record(key, call, Reply("48"), place, 7).packed().to_bytes())])
    return store


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"temperature": 0.7}, "temperature 0.4 -> 0.7"),
        ({"temperature": None}, "temperature 0.4 -> unset"),
        ({"model": "sim/weak"}, "model 'sim/strong' -> 'sim/weak'"),
        ({"stop": ("x",)}, "stop () -> ('x',)"),
        ({"effort": "low"}, "effort '' -> 'low'"),
        (
            {"response_format": ResponseFormat("v", "{}")},
            "response_format unset -> a ResponseFormat",
        ),
        ({"messages": CALL.messages[:1]}, "messages[1] a Message -> unset"),
        (
            {"messages": (CALL.messages[0], Message("user", "Stop."))},
            "messages[1].text 'Speak.' -> 'Stop.'",
        ),
        (
            {"messages": (Message("system", WORDS[:116] + "!"), CALL.messages[1])},
            "messages[0].text differs at character 116: 'crates hold twelve apple'… -> '!'",
        ),
        (
            {"messages": (Message("system", WORDS[:111]), CALL.messages[1])},
            "messages[0].text differs at character 111: 'Four crates hold twelve '… -> its end",
        ),
    ],
)
def test_a_difference_is_named_with_its_place_and_both_values(changed, line):
    assert differences(CALL, CALL.changed(**changed)) == (line,)


def test_every_difference_is_a_line():
    other = replace(CALL.changed(temperature=0.7, max_tokens=9), draw=(1,))
    assert differences(CALL, other) == (
        "temperature 0.4 -> 0.7",
        "max_tokens 1024 -> 9",
        "draw () -> (1,)",
    )


@given(calls, calls)
def test_there_are_no_differences_exactly_between_equal_calls(one, other):
    assert (differences(one, other) == ()) == (one == other)


def test_the_setting_that_was_changed_is_found_among_other_questions():
    others = [
        CALL.changed(messages=(Message("system", WORDS[:n] + "?"), CALL.messages[1]))
        for n in range(5, 90, 5)
    ]
    nearest = nearest_recorded(store_of(CALL, *others), CALL.changed(temperature=0.7), "here/v1")
    assert nearest.record is not None and nearest.record.call() == CALL
    assert nearest.differences == ("temperature 0.4 -> 0.7",) and not nearest.partial
    assert str(nearest) == (
        f"nearest recorded call {CALL.address[:12]} differs in: temperature 0.4 -> 0.7"
    )


def test_a_call_of_another_model_is_never_nearest():
    nearest = nearest_recorded(store_of(CALL.changed(model="sim/weak")), CALL, "here/v1")
    assert nearest.record is None
    assert str(nearest) == "no call to that model was ever recorded, or requests were left out"


def test_the_same_call_at_another_endpoint_is_nearest():
    store = store_of(CALL, place="http://one")
    nearest = nearest_recorded(store, CALL, "http://two")
    assert nearest.differences == ("endpoint 'http://one' -> 'http://two'",)


def test_damaged_entries_are_passed_over():
    store = store_of(CALL)
    store.put_many([("0", b"\x01 no record")])
    nearest = nearest_recorded(store, CALL.changed(temperature=0.7), "here/v1")
    assert nearest.differences == ("temperature 0.4 -> 0.7",)


def test_a_search_is_bounded_and_says_so(monkeypatch):
    monkeypatch.setattr(explain, "MAX_READ", 3)
    recorded = sorted((replace(CALL, draw=(n,)) for n in range(10)), key=lambda call: call.address)
    nearest = nearest_recorded(store_of(*recorded), replace(recorded[9], draw=(77,)), "here/v1")
    assert nearest.record is not None and nearest.record.call() in recorded[:3]
    assert nearest.partial and "(of the first 3 entries)" in str(nearest)
