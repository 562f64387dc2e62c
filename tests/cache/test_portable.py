"""Portable files: equal bytes for equal replies, and nothing altered or hostile is believed."""

import json
import os
import random
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from oversight.cache import portable
from oversight.cache.call import Call, Message, Request
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.entry import StoreEntry, read_entries, read_entry
from oversight.cache.errors import DamagedEntry, PackError
from oversight.cache.portable import MergeStatistics, PortableFile, export_replies, merge
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore, Store
from tests.cache.asking import record_of
from tests.portable_files import Members, listed, members, write
from tests.sessions import sessions
from tests.tables import printed

LINES = "replies/000001.jsonl"


def call(number: int) -> Call:
    passage = "Each crate holds twelve apples, and there are four crates in the yard. " * 3
    return Call(
        Request("sim/strong", (Message("user", f"{passage}Question {number}?"),)), (number,)
    )


def filled(count: int, store: Store | None = None) -> Store:
    store = store if store is not None else MemoryStore()
    store.put_many(record_of(call(n), Reply(f"reply {n} " * (n % 9 + 1))) for n in range(count))
    return store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "replies.oversight"


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file of 40 replies."""
    file = tmp_path_factory.mktemp("whole") / "replies.oversight"
    store = filled(40)
    export_replies(store, store.keys(), file)
    return file.read_bytes()


def packed(entries: Iterable[tuple[str, StoreEntry | DamagedEntry]]):
    """Entries by key, each packed alike."""
    return {key: one.packed() if isinstance(one, StoreEntry) else one for key, one in entries}


def contents(store: Store) -> dict[str, Any]:
    return packed(read_entries(store.items()))


def read(file: Path) -> dict[str, Any]:
    with PortableFile(file) as opened:
        return packed(opened.replies())


@pytest.mark.parametrize(
    ("count", "length"), [*product((0, 1, 2, 9), (10, 1_000, 30_000)), (50, 9_000), (300, 10)]
)
def test_exported_replies_come_back_equal(file, count, length):
    store = MemoryStore()
    words = "".join(random.Random(length).choices("abcdefgh ", k=length))
    store.put_many(record_of(call(n), Reply(words)) for n in range(count))
    assert export_replies(store, store.keys(), file) == count and read(file) == contents(store)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", *[LINES] * (count > 0)]


def test_same_replies_give_the_same_bytes_in_any_order(file, tmp_path):
    memory, disk = filled(100), filled(100, DiskStore(tmp_path / "store"))
    keys, again = list(memory.keys()), tmp_path / "again.oversight"
    export_replies(memory, keys, file)
    with closing(disk):
        for store, order in ((disk, keys[::-1]), (memory, keys + keys)):
            export_replies(store, order, again)
            assert again.read_bytes() == file.read_bytes()


def test_replies_are_split_into_members_in_key_order(file, monkeypatch):
    store = filled(100)
    monkeypatch.setattr(portable, "MAX_MEMBER", 9_000)
    some = list(store.keys())[10:60]
    assert export_replies(store, some, file) == 50
    lines = [data for name, data in members(file).items() if name != "manifest.json"]
    assert len(lines) > 3 and max(map(len, lines)) <= 9_000
    keys = [json.loads(line)["key"] for line in b"".join(lines).splitlines()]
    assert keys == some and list(read(file)) == some


def test_failed_export_changes_no_file(file):
    file.write_bytes(b"as before")
    store = filled(3)
    keys = list(store.keys())
    store.put_many([("damaged", b"\x01 no record")])
    for some, into, message in (
        ([*keys, "f" * 64], file, "not found in the store"),
        ([*keys, "damaged"], file, "damaged"),
        (keys, file / "replies.oversight", "cannot be written: "),
    ):
        with pytest.raises((PackError, DamagedEntry), match=message):
            export_replies(store, some, into)
        assert file.read_bytes() == b"as before"
        assert [name.name for name in file.parent.iterdir()] == [file.name]
    damaged: list[DamagedEntry] = []
    assert export_replies(store, [*keys, "damaged"], file, "store", damaged) == 3
    assert [damage.key for damage in damaged] == ["damaged"] and len(read(file)) == 3


def patched(file_bytes: bytes, at: int, new: bytes, instead: int = 0) -> bytes:
    return file_bytes[:at] + new + file_bytes[at + instead :]


def manifest(**changed: object) -> Callable[[Members], Members]:
    def change(content: Members) -> Members:
        fields = json.loads(content["manifest.json"]) | changed
        return content | {"manifest.json": json.dumps(fields).encode()}

    return change


def renamed(name: str) -> Callable[[Members], Members]:
    return lambda content: listed({name if old == LINES else old: d for old, d in content.items()})


def test_a_rewrite_by_another_program_is_read(file, file_bytes):
    file.write_bytes(file_bytes)
    expected = read(file)
    write(file, members(file), compress_type=zipfile.ZIP_STORED, date_time=(2026, 1, 2, 3, 4, 6))
    assert read(file) == expected


def hidden_bytes(file_bytes: bytes, file: Path) -> Iterator[bytes]:
    """A file with a few bytes in each place between its members and heads."""
    file.write_bytes(file_bytes)
    with zipfile.ZipFile(file) as archive:
        last, start = archive.infolist()[-1], archive.start_dir
    end = file_bytes[-22:]
    yield b"hidden" + file_bytes
    yield patched(file_bytes, last.header_offset, b"hidden")
    yield patched(file_bytes, start, b"hidden")
    yield patched(file_bytes, len(file_bytes) - 22, b"hidden")
    yield file_bytes + b"hidden"
    yield file_bytes[:-2] + b"\6\0hidden"
    yield file_bytes + file_bytes
    # Places that a reader of the directory alone does not see: the offset of the directory fits.
    for at in (last.header_offset, start):
        moved = patched(file_bytes[:-22], at, b"hidden")
        yield moved + end[:16] + (start + 6).to_bytes(4, "little") + end[20:]
    # Behind the compressed data of the last member, within its size.
    size = (last.compress_size + 6).to_bytes(4, "little")
    inner = patched(file_bytes[:-22], start, b"hidden")
    inner = patched(inner, last.header_offset + 18, size, 4)
    inner = patched(inner, inner.rindex(b"PK\1\2") + 20, size, 4)
    yield inner + end[:16] + (start + 6).to_bytes(4, "little") + end[20:]


def test_bytes_outside_of_members_are_refused(file, file_bytes, tmp_path):
    for content in hidden_bytes(file_bytes, tmp_path / "whole"):
        file.write_bytes(content)
        with pytest.raises(PackError, match=r"bytes|two headers|truncated"):
            PortableFile(file)


@pytest.mark.parametrize(
    ("claimed", "in_manifest", "message"),
    [
        (3, False, "manifest.json lists"),
        (2**31, False, "manifest.json lists"),
        (3, True, "more than its 3 bytes"),
    ],
)
def test_file_that_claims_another_size_is_refused(file, file_bytes, claimed, in_manifest, message):
    file.write_bytes(file_bytes)
    content = members(file)
    if in_manifest:
        fields = json.loads(content["manifest.json"])
        fields["members"][LINES]["bytes"] = claimed
        content["manifest.json"] = json.dumps(fields).encode()
    write(file, content)
    with zipfile.ZipFile(file) as archive:
        last = archive.infolist()[-1]
    size, raw = claimed.to_bytes(4, "little"), file.read_bytes()
    raw = patched(raw, last.header_offset + 22, size, 4)
    file.write_bytes(patched(raw, raw.rindex(b"PK\1\2") + 24, size, 4))
    with pytest.raises(PackError, match=message):
        PortableFile(file)


def test_a_file_cut_short_or_flipped_anywhere_is_refused_or_harmless(file, file_bytes):
    chance = random.Random(3)
    for length in [*range(30), *range(30, len(file_bytes), 97), len(file_bytes) - 1]:
        file.write_bytes(file_bytes[:length])
        with pytest.raises(PackError, match=str(file)):
            PortableFile(file)
    file.write_bytes(file_bytes)
    expected, harmless = read(file), 0
    for _ in range(150):
        flipped = bytearray(file_bytes)
        flipped[chance.randrange(len(file_bytes))] ^= 1 << chance.randrange(8)
        file.write_bytes(flipped)
        try:
            assert read(file) == expected
            harmless += 1
        except PackError as exc:
            assert str(file) in str(exc)
    assert harmless < 8, "only permissions and the version of the writer may change"


def test_links_pipes_and_folders_are_not_opened(tmp_path, file, file_bytes):
    file.write_bytes(file_bytes)
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none", "."):
        with pytest.raises(
            PackError, match=r"links are not followed|is not a regular file|No such file"
        ):
            PortableFile(tmp_path / name)


@sessions(Path(__file__).with_name("portable.md"))
def test_altered_members_and_lines_are_refused_by_name(session, request, file, file_bytes):
    def changed(change: Callable[[Members], Members] = dict, **attributes: Any) -> str:
        file.write_bytes(file_bytes)
        write(file, change(members(file)), **attributes)
        with pytest.raises(PackError) as fault:
            PortableFile(file)
        return str(fault.value).removeprefix(f"{file}: ")

    def forged(change: Callable[[dict[str, Any]], object]) -> str:
        """The damage of a changed last line in a file whose digests match."""
        file.write_bytes(file_bytes)
        lines = members(file)[LINES].splitlines(keepends=True)
        line = json.loads(lines[-1])
        change(line)
        new = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        write(file, listed(members(file) | {LINES: b"".join(lines[:-1]) + new}))
        ours = MemoryStore()
        with PortableFile(file) as opened:
            result = merge(opened.replies(), ours, foreign=True)
        assert (result.new, len(result.damaged)) == (39, 1) and len(ours) == 39
        return result.damaged[0].reason

    names = globals() | {"changed": changed, "forged": forged}
    session.check(request, printed(names), names)


def test_keys_out_of_order_and_torn_lines_are_named(file, file_bytes):
    file.write_bytes(file_bytes)
    content = members(file)
    lines = content[LINES].splitlines(keepends=True)
    for changed in ([*lines[1:], lines[0]], [*lines, lines[-1]]):
        write(file, listed(content | {LINES: b"".join(changed)}))
        damaged = [entry for entry in read(file).values() if isinstance(entry, DamagedEntry)]
        assert [entry.reason for entry in damaged] == ["its key is out of order"]
    write(file, listed(content | {LINES: content[LINES][:-1]}))
    with pytest.raises(PackError, match="does not end with a line"):
        read(file)


def test_import_stores_new_replies_and_keeps_known_ones(file, tmp_path):
    theirs, ours = filled(600), DiskStore(tmp_path / "store")
    ours.put_many([record_of(call(0), Reply("ours")), record_of(call(1), Reply("reply 1 " * 2))])
    export_replies(theirs, theirs.keys(), file)
    with PortableFile(file) as opened:
        for new, old in ((598, 1), (0, 599)):
            assert merge(opened.replies(), ours) == MergeStatistics(new, old, 1, damaged=())
    ours_now, theirs_now = contents(ours), contents(theirs)
    zero = record_of(call(0), Reply("ours"))[0]
    assert ours_now.pop(zero).reply().text == "ours"
    del theirs_now[zero]
    assert ours_now == theirs_now
    ours.close()


def test_import_leaves_out_damaged_replies_of_others_and_replaces_its_own():
    theirs, ours = filled(5), MemoryStore()
    good, bad, moved = list(theirs.keys())[:3]
    ours.put_many([(good, b"\x01 no record")])
    entries = [
        (good, theirs.get(good)), (bad, b"\x01 no record"), (moved, theirs.get(good)),
        ("z", DamagedEntry("z", "was met on the way")),
    ]  # fmt: skip
    result = merge(read_entries(entries), ours)
    assert (result.new, [damage.key for damage in result.damaged]) == (1, [bad, moved, "z"])
    assert contents(ours) == {good: contents(theirs)[good]}


def test_replies_without_requests_are_taken_only_when_allowed(file, tmp_path):
    store, stage = filled(3), tmp_path / "stage"
    stage.mkdir()
    portable.stage_replies(store, store.keys(), stage, requests=False)
    portable.write_members(stage, file, "run", {})
    assert b"apples" not in members(file)[LINES]
    with PortableFile(file) as opened:
        for bare, new in ((False, 0), (True, 3)):
            ours = MemoryStore()
            assert merge(opened.replies(), ours, foreign=True, bare=bare).new == new
        for key, record in read_entries(ours.items()):
            assert not record.call_size and record.reply().origin == "imported"
            theirs = read_entry(key, store.get(key) or b"")
            assert record.reply().text == theirs.reply().text and record.model == theirs.model


def test_a_store_is_exported_while_another_thread_writes(file, tmp_path):
    store = filled(200, DiskStore(tmp_path / "store"))
    before = set(store.keys())
    going, stop = threading.Event(), threading.Event()

    def put() -> None:
        number = 1000
        while not stop.is_set():
            store.put_many([record_of(call(number), Reply("late"))])
            number += 1
            going.set()
        store.close_thread()

    writer = threading.Thread(target=put)
    writer.start()
    going.wait()
    with closing(ReadOnlyStore(tmp_path / "store")) as reader:
        count = export_replies(reader, reader.keys(), file, "store")
    stop.set()
    writer.join()
    with closing(store), PortableFile(file) as opened:
        assert opened.contents.store == store.id and count > 200
        assert before < dict(opened.replies()).keys() <= set(store.keys())
