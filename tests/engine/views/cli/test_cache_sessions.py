"""`oversight cache`: its sessions, and what becomes of a store that is damaged or in use."""

import itertools
import os
import re
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from oversight.cache.call import Call, Message, Request, store_key
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.entry import new_entry
from oversight.cache.errors import StoreError
from oversight.cache.reply import Reply, Token, Usage
from oversight.cache.sqlite import STORE_FILE
from tests.command_line import Ran, within
from tests.sessions import commands, sessions

JUNE, JULY = 1_781_000_000, 1_783_600_000
CALL = Call(
    Request("openai/gpt-4o-mini", (Message("user", "How many apples are there?"),), temperature=0.4)
)
WEAK = CALL.changed(model="ollama/llama3.1:8b")
PASSAGE = "A story. " * 999


def stored(call: Call, reply: Reply, at: int = JUNE, place: str = "here/v1", passage: str = ""):
    key = store_key(call.address, place)
    return key, new_entry(key, call, reply, place, at).packed(passage).to_bytes()


ENTRIES = {
    "ok": stored(CALL, Reply("There are 48.", usage=Usage(31, 5), stop_reason="stop")),
    "refused": stored(replace(CALL, draw=(1,)), Reply("I cannot.", outcome="refused"), JULY),
    "cut": stored(WEAK, Reply("There a", outcome="truncated"), JULY),
    "llama": stored(WEAK, Reply("36", logprobs=(Token("3", -0.1, (("3", -0.1),)),)), JULY, "there"),
}
EVIL = stored(replace(CALL, draw=(9,)), Reply("\x1b[2Jgone\x07 [bold]plain[/bold]"))
TOLD = CALL.changed(messages=(Message("system", PASSAGE), *CALL.messages))
LONG = [
    stored(replace(CALL, draw=(n,)), Reply(f"{n} {letters * 60}"))
    for n, letters in enumerate(["word ", "四つの", "x" * 9], 7)
]


def put(entries: Iterable[tuple[str, bytes]]) -> None:
    with closing(DiskStore(Path("store"))) as store:
        store.put_many(list(entries))


def kept(folder: str = "store") -> set[str]:
    with closing(ReadOnlyStore(Path(folder))) as store:
        return set(store.keys())


def written() -> dict[str, tuple[int, bytes]]:
    """When each file of the store was last written, and what."""
    return {at.name: (at.stat().st_mtime_ns, at.read_bytes()) for at in Path("store").iterdir()}


def lose_passages() -> None:
    with closing(sqlite3.connect(Path("store", STORE_FILE))) as db, db:
        db.execute("DELETE FROM Cache WHERE raw = 0")


@pytest.fixture(scope="module")
def four_replies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replies")
    with closing(DiskStore(path / "store")) as store:
        store.put_many(list(ENTRIES.values()))
    return path / "store"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, four_replies: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    shutil.copytree(four_replies, tmp_path / "store")
    return tmp_path


@sessions(Path(__file__).parent / "sessions" / "cache.md")
def test_a_session(session, place, request, monkeypatch):
    names: dict[str, Any] = globals() | {name: key for name, (key, _) in ENTRIES.items()}
    names |= {"evil": EVIL[0], "weak": WEAK.address, "KEYS": {key for key, _ in ENTRIES.values()}}
    names["WITH_PASSAGE"] = stored(TOLD, Reply("So."), passage=PASSAGE)
    names["now"] = lambda at: monkeypatch.setattr(time, "time", lambda: float(at))
    names["columns"] = lambda width: monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("COLUMNS", "120")

    def shape(text: str) -> str:
        text = text.replace(f"{place}/", "~/")
        text = re.sub(r'"(size|plain_size)": \d+', r'"\1": …', text)
        return re.sub(r"[\d.,]+ (?:kB|bytes)(?: \([\d.]+ × compressed\))?", "… bytes", text)

    session.check(request, commands(names, shape, monkeypatch), names)


def cache(*words: str | Path) -> Ran:
    return within("cache", *words, cwd=Path.cwd())


def test_malformed_store_is_recovered_into_a_new_file(place: Path) -> None:
    file = place / "store" / STORE_FILE
    data = bytearray(file.read_bytes())
    data[-4096:] = os.urandom(4096)
    file.write_bytes(data)
    verified = cache("verify")
    assert verified.code == 1
    assert f"oversight cache verify --recover --store {place / 'store'}" in verified.err
    assert "replies added" in cache("verify", "--recover").out
    assert (place / "store.damaged" / STORE_FILE).read_bytes() == data and cache("verify").code == 0


def test_store_in_use_is_not_recovered(place: Path) -> None:
    running = DiskStore(place / "store")
    refused = cache("verify", "--recover")
    assert refused.code and "a run, or another command, is using it; stop that" in refused.err
    running.put_many([("late", b"1")])
    running.close()
    assert [file.name for file in place.iterdir()] == ["store"]
    assert cache("verify", "--recover").code == 1


def salvage_and_die(steps: int) -> int:
    """How a process ends that recovers the store and kills itself after `steps` lines of it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps_left = steps

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal steps_left
        if not frame.f_code.co_filename.endswith("engine/views/cli/commands/cache.py"):
            return None
        steps_left -= event == "line"
        if not steps_left:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    os._exit(cache("verify", "--recover").code)


@pytest.mark.wire
def test_recovery_killed_at_any_step_is_completed_by_a_second_one(place: Path) -> None:
    steps, cut, places, keys = 0, 0, {"store", "store.damaged"}, kept()
    with closing(DiskStore(place / "store")) as before:
        store_id = before.id
    for steps in itertools.count(1):
        shutil.rmtree(place / "store.damaged", ignore_errors=True)
        if (ended := salvage_and_die(steps)) == 0:
            break
        assert ended == -signal.SIGKILL
        if not (place / "store").exists():
            # It is not taken for a new store, and the error names the command.
            for opened in (DiskStore, ReadOnlyStore):
                with pytest.raises(StoreError, match="cache verify --recover --store"):
                    opened(place / "store")
            cut += 1
        if {file.name for file in place.iterdir()} != places:
            cache("verify", "--recover")
        assert {file.name for file in place.iterdir()} == places and kept() == keys
        with closing(ReadOnlyStore(place / "store")) as after:
            assert after.id == store_id
    assert steps > 20 and cut
