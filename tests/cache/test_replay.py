"""Replays: answers from the store alone; what was never recorded is named with what is nearest."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from oversight.cache import explain
from oversight.cache.cache import Cache
from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import ReplayMiss
from oversight.cache.explain import differences, nearest_recorded
from oversight.cache.memory import MemoryStore
from oversight.cache.reply import Reply
from tests.cache.asking import CALL, answers, ask_all, calls, home, record_of
from tests.calls import calls as any_call
from tests.fakes import Scripted
from tests.sessions import sessions
from tests.tables import printed


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


async def test_a_miss_names_the_nearest_recorded_call_and_the_field_that_differs():
    store, inner = MemoryStore(), answers()
    await ask_all(Cache(store, inner, identity=home), [CALL, replace(CALL, draw=(1, 2))])
    replay = Cache(store, inner, identity=home, mode="replay")
    assert (await replay(CALL)).text == "48"
    with pytest.raises(ReplayMiss, match=r"temperature 0\.4 -> 0\.7$") as miss:
        await replay(CALL.changed(temperature=0.7))
    assert CALL.address[:12] in miss.value.nearest
    assert len(inner.calls) == 2, "a replay never asks"


async def test_only_the_first_misses_are_searched_for_their_nearest():
    class Counting(MemoryStore):
        surveys = 0

        def items(self, prefix=""):
            self.surveys += not prefix
            return super().items(prefix)

    store = Counting()
    replay = Cache(store, answers(), identity=home, mode="replay")
    misses = await asyncio.gather(*map(replay, calls(20)), return_exceptions=True)
    assert all(isinstance(miss, ReplayMiss) for miss in misses) and store.surveys == 3


async def test_a_replay_leaves_the_folder_as_it_found_it(tmp_path):
    store = DiskStore(tmp_path)
    cache = Cache(store, Scripted(lambda call: "48"), identity=home)
    await ask_all(cache, calls(50))
    await cache.close()
    store.close()
    before = contents(tmp_path)
    read_only = ReadOnlyStore(tmp_path)
    replay = Cache(read_only, Scripted(lambda call: "36"), identity=home, mode="replay")
    replies = await ask_all(replay, calls(50))
    with pytest.raises(ReplayMiss):
        await replay(CALL.changed(max_tokens=7))
    await replay.close()
    read_only.close()
    assert [reply.text for reply in replies] == ["48"] * 50
    assert contents(tmp_path) == before


WORDS = "Four crates hold twelve apples each. " * 4
ASKED = Call(
    Request("sim/strong", (Message("system", WORDS), Message("user", "Speak.")), temperature=0.4)
)


def store_of(*recorded: Call, place: str = "here/v1") -> MemoryStore:
    store = MemoryStore()
    store.put_many(record_of(call, Reply("48"), place) for call in recorded)
    return store


def differs(draw: tuple[int, ...] = (), **changed: object) -> list[str]:
    """In which places a call differs from one with other settings, and their values in both."""
    return list(differences(ASKED, replace(ASKED.changed(**changed), draw=draw)))


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(map(Message, ("system", "user"), texts))


@sessions(Path(__file__).with_name("replay.md"))
def test_a_difference_is_named_with_its_place_and_both_values(session, request):
    session.check(request, printed({"ResponseFormat": ResponseFormat} | globals()))


@given(any_call, any_call)
def test_there_are_no_differences_exactly_between_equal_calls(one, other):
    assert (differences(one, other) == ()) == (one == other)


def test_the_setting_that_was_changed_is_found_among_other_questions():
    others = [
        ASKED.changed(messages=(Message("system", WORDS[:n] + "?"), ASKED.messages[1]))
        for n in range(5, 90, 5)
    ]
    nearest = nearest_recorded(store_of(ASKED, *others), ASKED.changed(temperature=0.7), "here/v1")
    assert nearest.record is not None and nearest.record.call() == ASKED
    assert nearest.differences == ("temperature 0.4 -> 0.7",) and not nearest.partial
    assert str(nearest) == (
        f"nearest recorded call {ASKED.address[:12]} differs in: temperature 0.4 -> 0.7"
    )


def test_a_call_of_another_model_is_never_nearest():
    nearest = nearest_recorded(store_of(ASKED.changed(model="sim/weak")), ASKED, "here/v1")
    assert nearest.record is None
    assert str(nearest) == "no call to that model was ever recorded, or requests were left out"


def test_the_same_call_at_another_endpoint_is_nearest():
    store = store_of(ASKED, place="http://one")
    nearest = nearest_recorded(store, ASKED, "http://two")
    assert nearest.differences == ("endpoint 'http://one' -> 'http://two'",)


def test_damaged_entries_are_passed_over():
    store = store_of(ASKED)
    store.put_many([("0", b"\x01 no record")])
    nearest = nearest_recorded(store, ASKED.changed(temperature=0.7), "here/v1")
    assert nearest.differences == ("temperature 0.4 -> 0.7",)


def test_a_search_is_bounded_and_says_so(monkeypatch):
    monkeypatch.setattr(explain, "MAX_READ", 3)
    recorded = sorted((replace(ASKED, draw=(n,)) for n in range(10)), key=lambda call: call.address)
    nearest = nearest_recorded(store_of(*recorded), replace(recorded[9], draw=(77,)), "here/v1")
    assert nearest.record is not None and nearest.record.call() in recorded[:3]
    assert nearest.partial and "(of the first 3 entries)" in str(nearest)
