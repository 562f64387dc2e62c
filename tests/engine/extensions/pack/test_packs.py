"""Packs: the same bytes each time, nothing of a key, and nothing of a hostile one on the disk."""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from oversight.cache.bundle import BundleStore
from oversight.cache.record import read_record
from oversight.engine.run.manifest import read_manifest
from oversight.protocols.datasets.jsonl import write_jsonl
from tests.command_line import Command
from tests.fakes import APPLES, CRATES
from tests.packs import Members, member, members, packed


def test_a_store_in_the_home_folder_is_the_one_that_the_run_names(
    place: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOME", str(place))
    assert command("run", "small.yaml", "--limit", "1", "--run-folder", "run").code == 0
    assert read_manifest(place / "run").store == "~/store"
    assert command("export", "pack", "run", "-o", "run.oversight").code == 0
    assert not caplog.text


def listed(content: Members, change: Callable[[dict[str, object]], None]) -> Members:
    """The same with a changed table of contents."""
    contents = json.loads(content[0][1])
    change(contents)
    return [member("pack.json", json.dumps(contents).encode()), *content[1:]]


def with_file(content: Members, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> Members:
    def add(contents: dict[str, object]) -> None:
        files = contents["files"]
        assert isinstance(files, list)
        digest = hashlib.sha256(data).hexdigest()
        files.append({"path": name, "size": len(data), "sha256": digest})

    its, _ = member(name, data, kind)
    if kind != tarfile.REGTYPE:
        its.linkname, its.size = "/etc/passwd", 0
    return [*listed(content, add), (its, data)]


def test_a_pack_is_the_same_each_time_and_opens_to_a_run_that_reads_the_same(
    pack: Path, place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("export", "pack", "run", "-o", "again.oversight").code == 0
    assert pack.read_bytes() == (place / "again.oversight").read_bytes()
    opened = command("export", "open", pack, "-o", "opened/run")
    assert opened.code == 0, opened.err
    for words in (("report", "--json"), ("show", "--json"), ("show", "--search", "nats", "--json")):
        ours, theirs = (command(words[0], run, *words[1:]) for run in ("run", "opened/run"))
        assert (ours.code, ours.out) == (theirs.code, theirs.out)
    assert not (place / "executed").exists()
    packed_again = command("export", "pack", "opened/run", "-o", "third.oversight")
    assert packed_again.code == 0, packed_again.err
    ours, theirs = ({m.name: d for m, d in members(place / f)} for f in (pack, "third.oversight"))
    assert {n for n in ours if n != "pack.json" and ours[n] != theirs.get(n)} <= {"replies.bundle"}


def test_replies_travel_without_their_requests_where_source_texts_stay(
    place: Path, command: Command
) -> None:
    told = replace(APPLES, question=replace(CRATES, passage="A text that nobody may copy."))
    write_jsonl([told], place / "own.jsonl")
    from_own = ("--set", "problems={file: own.jsonl}", "--set", "judges.reads_passage=true")
    sweep = (place / "small.yaml").read_text().replace("sim/judge", "{model: sim/judge}")
    (place / "small.yaml").write_text(sweep)
    assert command("run", "small.yaml", *from_own, "--run-folder", "run").code == 0
    assert command("export", "pack", "run", "-o", "p.oversight").code == 0
    (data,) = (data for each, data in members(place / "p.oversight") if "replies" in each.name)
    (place / "replies.bundle").write_bytes(data)
    with closing(BundleStore(place / "replies.bundle")) as replies:
        records = [read_record(key, replies.get(key) or b"") for key in list(replies.keys())]
    assert records and not any(record.call_size or record.call_part for record in records)


def hostile(pack: Path) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    content = members(pack)

    def files(change: Callable[[list[dict[str, object]]], None]) -> Members:
        return listed(content, lambda contents: change(contents["files"]))  # type: ignore[arg-type]

    def write(some: Members) -> Callable[[Path], None]:
        return lambda file: packed(file, some)

    for path in (
        "../evil",
        "/tmp/evil",
        "code/../../evil.py",
        "code/.hidden/x.py",
        "run.db",
    ):
        yield path, write(with_file(content, path, b"x")), re.escape(repr(path))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        linked = with_file(content, "code/l.py", b"", kind)
        yield f"member of type {kind!r}", write(linked), "a link or a device"
    yield (
        "digest",
        write(files(lambda all: all[0].update(sha256="0" * 64))),
        "is not what its table",
    )
    yield "size", write(files(lambda all: all[0].update(size=3))), "and 3 are listed"
    yield "claim", write(files(lambda all: all[0].update(size=10**15))), "would unpack to 1,000,000"
    yield "negative", write(files(lambda all: all[0].update(size=-1))), "-1 bytes"
    yield (
        "unlisted",
        write([*content, member("code/extra.py", b"x")]),
        "its table of contents does not",
    )
    yield "lacking", write(content[:-1]), "it lacks figures.json"
    yield "newer", write(listed(content, lambda c: c.update(format=9))), "of format 9"
    yield "claimed cells", write(listed(content, lambda c: c.update(cells=10**9))), "cells"
    yield "no contents", write(content[1:]), "does not begin with pack.json"
    for name, raw in (("torn", pack.read_bytes()[:-200]), ("foreign", b"PK\x03\x04 no pack")):
        yield name, partial(Path.write_bytes, data=raw), "no pack, or is damaged|it lacks"
    yield "bomb", write(with_file(content, "code/b.py", bytes(2**27))), "times its own size"
    rows = {each.name: data for each, data in content}
    lines = rows["said.jsonl"].splitlines(keepends=True)
    wild = lines[0].replace(b'"place":0', b'"place":999999999', 1)
    some = [
        (m, d) if m.name != "said.jsonl" else member(m.name, b"".join([wild, *lines[1:]]))
        for m, d in content
    ]
    said = next(d for m, d in some if m.name == "said.jsonl")

    def relist(all: list[dict[str, object]]) -> None:
        for each in all:
            if each["path"] == "said.jsonl":
                each.update(size=len(said), sha256=hashlib.sha256(said).hexdigest())

    contents = json.loads(content[0][1])
    relist(contents["files"])
    yield (
        "wild place",
        write([member("pack.json", json.dumps(contents).encode()), *some[1:]]),
        "different cells|out of place",
    )


def test_a_hostile_pack_is_refused_by_name_and_leaves_nothing(
    pack: Path, place: Path, command: Command
) -> None:
    before = {file for file in place.rglob("*")}
    for name, write, told in hostile(pack):
        bad = place / "bad.oversight"
        write(bad)
        opened = command("export", "open", bad, "-o", "bad")
        assert opened.code == 2, f"{name}: {opened.err}"
        assert re.search(told, opened.err), f"{name}: {opened.err}"
        assert opened.err.count("\n") == 1 and "Traceback" not in opened.err
        bad.unlink()
        assert {file for file in place.rglob("*")} == before, name
    assert not os.path.exists("/tmp/evil")
    assert not (place / "executed").exists()
