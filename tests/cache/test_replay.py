"""Replays: answers from the store alone; what was never recorded is named, and nothing is asked."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from oversight.cache.cache import Cache
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import ReplayMiss
from oversight.cache.store import MemoryStore
from tests.cache.asking import CALL, answers, ask_all, calls, home
from tests.fakes import Scripted


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
