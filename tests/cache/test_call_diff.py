"""The report on a call that was never recorded: the nearest one, and the differences."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from oversight.cache import call_diff
from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.cache.call_diff import _distance, differences, nearest_recorded
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from tests.cache.asking import any_calls, record_of
from tests.sessions import sessions
from tests.tables import printed

WORDS = "Four crates hold twelve apples each. " * 4
ASKED = Call(
    Request("sim/strong", (Message("system", WORDS), Message("user", "Speak.")), temperature=0.4)
)


def store_of(*recorded: Call, place: str = "here/v1") -> MemoryStore:
    store = MemoryStore()
    store.put_many(record_of(call, Reply("48"), place) for call in recorded)
    return store


def differs(draw: tuple[int, ...] = (), **changed: object) -> list[str]:
    """The places in which a call differs from one with other settings, and both values."""
    return list(differences(ASKED, replace(ASKED.changed(**changed), draw=draw)))


def nearest(recorded: Call, place: str = "here/v1", **changed: object) -> str:
    """The report on the nearest recorded call; a damaged entry is in the store too."""
    store = store_of(recorded, place=place)
    store.put_many([("0", b"\x01 no record")])
    return str(nearest_recorded(store, ASKED.changed(**changed), "here/v1"))


def far(draw: tuple[int, ...] = (), **changed: object) -> float:
    return round(_distance(replace(ASKED.changed(**changed), draw=draw), ASKED), 3)


def nearest_of(*recorded: dict[str, Any]) -> list[str]:
    """The difference from the nearest of several calls."""
    calls = [
        replace(ASKED.changed(**settings), draw=draw)
        for settings, draw in ((one, one.pop("draw", ())) for one in recorded)
    ]
    return list(nearest_recorded(store_of(*calls), ASKED, "here/v1").differences)


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(map(Message, ("system", "user"), texts))


@sessions(Path(__file__).with_name("replay.md"))
def test_a_difference_is_named_with_its_place_and_both_values(session, request):
    session.check(request, printed({"ResponseFormat": ResponseFormat} | globals()))


@given(any_calls, any_calls)
def test_differences_are_empty_exactly_for_equal_calls(one, other):
    assert (differences(one, other) == ()) == (one == other)


TYPO = f"{WORDS[:80]}!{WORDS[81:]}"


@pytest.mark.parametrize(("changed", "diff"), [
    ({"temperature": 0.7}, "temperature 0.4 -> 0.7"),
    ({"messages": said(TYPO, "Speak.")}, "messages[0].text differs at character 80: "),
])  # fmt: skip
def test_changed_call_is_found_among_similar_questions(changed, diff):
    cuts = [text[:n] + "?" for text in (WORDS, TYPO) for n in range(5, 90, 5)]
    others = [ASKED.changed(messages=said(cut, "Speak.")) for cut in cuts]
    nearest = nearest_recorded(store_of(ASKED, *others), ASKED.changed(**changed), "here/v1")
    assert str(nearest).startswith(f"nearest recorded call {ASKED.address[:12]} differs in: {diff}")


def test_a_search_is_bounded_and_says_so(monkeypatch):
    monkeypatch.setattr(call_diff, "MAX_READ", 3)
    recorded = sorted((replace(ASKED, draw=(n,)) for n in range(10)), key=lambda call: call.address)
    nearest = nearest_recorded(store_of(*recorded), replace(recorded[9], draw=(77,)), "here/v1")
    assert nearest.entry is not None and nearest.entry.call() in recorded[:3]
    assert nearest.partial and "(of the first 3 entries)" in str(nearest)
