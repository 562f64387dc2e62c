"""Events of a run: durable before they are acknowledged, in one file."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from oversight.engine.errors import DiskFull, RunFolderError
from oversight.engine.run import events
from oversight.engine.run.events import EVENTS, add_event, change_events, read_events, sync_events
from oversight.engine.run.folders import is_run
from tests.disks import disk
from tests.run_folders import CELLS, folder, land

ANY: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


def lines(run: Path, kind: str = "k") -> list[Any]:
    return list(read_events(run, kind, ANY))


def test_each_kind_of_event_is_read_by_itself(half):
    for n in range(3):
        add_event(half, "k", {"n": n})
        add_event(half, "other", n)
    assert lines(half) == [{"n": 0}, {"n": 1}, {"n": 2}] and lines(half, "other") == [0, 1, 2]


def forked(body: Callable[[], None]) -> int:
    """The process that runs the body."""
    child = os.fork()
    if not child:
        try:
            body()
        finally:
            os._exit(0)
    return child


def killed_at(last: int, run: Path) -> None:
    """Add an event, and kill this process at a line of it."""
    count = 0

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != events.__file__:
            return None
        count += event == "line"
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return at_line

    sys.settrace(at_line)
    add_event(run, "k", last)


@pytest.mark.wire
def test_acknowledged_events_survive_a_kill_at_any_line(half):
    add_event(half, "k", 0)
    acknowledged = [0]
    for last in range(1, 500):
        _, killed = os.waitpid(forked(partial(killed_at, last, half)), 0)
        sync_events(half)
        stored = lines(half)
        assert stored in (acknowledged, [*acknowledged, last])
        acknowledged = stored
        if not killed:
            break
    assert last > 20 and acknowledged[-1] == last, "the last one was acknowledged"


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_torn_last_line_never_was_and_spoils_none_after_it(half, room):
    add_event(half, "k", "first")
    content = (half / EVENTS).read_bytes()
    (half / EVENTS).write_bytes(content + content[: len(content) - 1 - room])
    assert lines(half) == ["first"]
    add_event(half, "k", "second")
    assert lines(half) == ["first", "second"]


@pytest.mark.wire
def test_event_refused_by_a_full_disk_is_absent_and_can_be_added_later(tmp_path):
    with disk(tmp_path / "disk") as small:
        run = small.folder / "run"
        with folder(run) as writable:
            land(writable, CELLS[:4])
        accepted, refused = [], 0
        small.leave(60_000)
        for n in range(200):
            try:
                add_event(run, "k", [n, "x" * 900])
                accepted.append([n, "x" * 900])
            except DiskFull:
                refused += 1
                assert lines(run) == accepted
        assert refused and accepted
        small.make_room()
        add_event(run, "k", "last")
        assert lines(run) == [*accepted, "last"]


@pytest.mark.parametrize("part", [0.4, 0.6, 1.0])
def test_events_that_the_disk_refuses_leave_none_of_their_lines(half, part, monkeypatch):
    class Short(FileIO):
        def write(self, data: bytes) -> int:
            return super().write(data[: int(part * len(data))])

    add_event(half, "k", 1)
    with monkeypatch.context() as patched, pytest.raises(RunFolderError):
        patched.setattr(events, "FileIO", Short)
        patched.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "it fails")))
        add_event(half, "k", 2, 3)
    assert lines(half) == [1]


@pytest.mark.wire
def test_processes_that_add_to_one_run_take_turns(half):
    def add(writer: int) -> None:
        for n in range(25):
            add_event(half, "k", [writer, n])

    for child in [forked(partial(add, writer)) for writer in range(4)]:
        os.waitpid(child, 0)
    stored = lines(half)
    assert len(stored) == 100
    assert all([n for writer, n in stored if writer == one] == list(range(25)) for one in range(4))


def test_database_that_is_lost_or_made_again_leaves_the_events(half):
    add_event(half, "k", 1)
    (half / "run.db").unlink()
    assert not is_run(half) and lines(half) == [1]
    add_event(half, "k", 2)
    with folder(half, replace_lost=True):
        assert lines(half) == [1, 2]


def test_changed_byte_is_named_with_its_line(half):
    for word in ("one", "two"):
        add_event(half, "k", word)
    (half / EVENTS).write_bytes((half / EVENTS).read_bytes().replace(b'"two"', b'"too"'))
    with pytest.raises(RunFolderError, match=rf"{EVENTS}:2: .*it was changed.* move it away"):
        lines(half)


def test_changed_events_leave_no_byte_behind(half):
    add_event(half, "k", "SECRETLY")
    add_event(half, "other", "mine")
    change_events(half, "k", lambda _: b'"erased"')
    assert lines(half) == ["erased"] and lines(half, "other") == ["mine"]
    assert not any(b"SECRETLY" in file.read_bytes() for file in half.iterdir() if file.is_file())


def test_no_link_is_followed(half, tmp_path):
    (tmp_path / "thesis").write_bytes(b"")
    (half / EVENTS).symlink_to(tmp_path / "thesis")
    with pytest.raises(RunFolderError, match=EVENTS):
        add_event(half, "k", 1)
    assert not (tmp_path / "thesis").read_bytes()
