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
from tests.virtual import run


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


def test_a_replay_answers_from_the_store_and_never_asks():
    store, inner = MemoryStore(), answers()

    async def main():
        await Cache(store, inner, identity=home)(CALL)
        replay = Cache(store, inner, identity=home, mode="replay")
        reply = await replay(CALL)
        with pytest.raises(ReplayMiss):
            await replay(CALL.changed(temperature=0.7))
        return reply.text

    assert run(main()) == "48" and len(inner.calls) == 1


def test_a_miss_names_the_nearest_recorded_call_and_the_field_that_differs():
    store = MemoryStore()

    async def main():
        await ask_all(Cache(store, answers(), identity=home), [CALL, replace(CALL, draw=(1, 2))])
        replay = Cache(store, answers(), identity=home, mode="replay")
        await replay(CALL.changed(temperature=0.7))

    with pytest.raises(ReplayMiss, match=r"temperature 0\.4 -> 0\.7$") as miss:
        run(main())
    assert CALL.address[:12] in miss.value.nearest


def test_only_the_first_misses_are_searched_for_their_nearest():
    class Counting(MemoryStore):
        surveys = 0

        def items(self, prefix=""):
            self.surveys += not prefix
            return super().items(prefix)

    store = Counting()

    async def main():
        replay = Cache(store, answers(), identity=home, mode="replay")
        return await asyncio.gather(*map(replay, calls(20)), return_exceptions=True)

    assert all(isinstance(miss, ReplayMiss) for miss in run(main())) and store.surveys == 3


def test_a_replay_of_another_endpoint_names_the_endpoint():
    store = MemoryStore()

    async def main():
        await Cache(store, answers(), identity=lambda call: "http://one")(CALL)
        await Cache(store, answers(), identity=lambda call: "http://two", mode="replay")(CALL)

    with pytest.raises(ReplayMiss, match="endpoint 'http://one' -> 'http://two'"):
        run(main())


async def test_a_replay_leaves_the_folder_as_it_found_it(tmp_path):
    store = DiskStore(tmp_path)
    cache = Cache(store, Scripted(lambda call: "48"), identity=home)
    await ask_all(cache, calls(50))
    await cache.close()
    store.close()
    before = {
        file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()
    }
    read_only = ReadOnlyStore(tmp_path)
    replay = Cache(read_only, Scripted(lambda call: "36"), identity=home, mode="replay")
    replies = await ask_all(replay, calls(50))
    with pytest.raises(ReplayMiss):
        await replay(CALL.changed(max_tokens=7))
    await replay.close()
    read_only.close()
    assert [reply.text for reply in replies] == ["48"] * 50
    assert contents(tmp_path) == before
