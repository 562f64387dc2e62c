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

from oversight.cache.bundle import BundleStore
from oversight.cache.record import read_record
from oversight.engine.run.manifest import read_manifest
from tests.command_line import Command
from tests.own_protocol import STEEL
from tests.packs import Members, member, members, packed
from tests.run_folders import noted

KEY = "sk-canary-0123456789abcdefghijklmnop"


def test_a_store_in_the_home_folder_is_the_one_that_the_run_names(
    place: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOME", str(place))
    assert command("run", "small.yaml", "--limit", "1", "--run-folder", "run").code == 0
    assert read_manifest(place / "run").store == "~/store"
    assert command("pack", "make", "run", "-o", "run.oversight").code == 0
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
    assert command("pack", "make", "run", "-o", "again.oversight").code == 0
    assert pack.read_bytes() == (place / "again.oversight").read_bytes()
    opened = command("pack", "open", pack, "-o", "opened/run")
    assert opened.code == 0, opened.err
    for words in (("report", "--json"), ("show", "--json"), ("search", "nats", "--json")):
        ours, theirs = (command(words[0], run, *words[1:]) for run in ("run", "opened/run"))
        assert (ours.code, ours.out) == (theirs.code, theirs.out)
    assert not (place / "executed").exists()
    packed_again = command("pack", "make", "opened/run", "-o", "third.oversight")
    assert packed_again.code == 0, packed_again.err
    ours, theirs = ({m.name: d for m, d in members(place / f)} for f in (pack, "third.oversight"))
    assert {n for n in ours if n != "pack.json" and ours[n] != theirs.get(n)} <= {"replies.bundle"}


def test_packs_are_reported_as_their_runs_one_below_the_other(
    pack: Path, place: Path, command: Command
) -> None:
    assert command("report", pack, "--json").out == command("report", "run", "--json").out
    words = ("run", "own.yaml", "--limit", "2", "--run-folder", "other")
    assert command(*words).code == 0
    (place / "executed").unlink(missing_ok=True)
    done = command("report", pack, "other", "--json", "--score", "log")
    found = [(e["run"], e["protocol"], e["n"]) for e in json.loads(done.out)["rows"]]
    rows = ("naive judge", "debate simultaneous 2", "steelman strength 3")
    assert found == [(run, row, n) for row in rows for run, n in (("run", 3), ("other", 2))]
    assert "2 runs: agent score difference (Brier, -2 to 2;" in command("report", pack, "other").out
    refused = command("report", pack, "other", "--measures")
    assert refused.code == 2 and "of several runs" in refused.err
    assert not (place / "executed").exists()


def test_code_of_a_pack_runs_only_where_a_sweep_file_of_ones_own_names_it(
    pack: Path, place: Path, command: Command
) -> None:
    assert command("pack", "open", pack, "-o", "theirs").code == 0
    refused = command("replay", "theirs")
    assert refused.code == 2 and "code of your own, steel.py:Steelman, is not loaded" in refused.err
    (place / "other.py").write_text(STEEL)
    noted(place / "theirs", overrides=("protocols=[{'other.py:Steelman': {strength: 3}}]",))
    assert command("replay", "theirs", "--sweep", "own.yaml").code == 2
    assert not (place / "executed").exists()
    noted(place / "theirs", overrides=())
    replayed = command("replay", "theirs", "--sweep", "own.yaml")
    assert replayed.code == 0, replayed.err
    assert "18 of 18 outcomes are equal to the byte" in replayed.err


def test_no_key_travels(
    place: Path, command: Command, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "0123456789-canary-of-ours")
    for source, told in (
        (f"# {KEY}\n", "looks like an API key"),
        ("# 0123456789-canary-of-ours\n", "$SOME_API_KEY"),
    ):
        (place / "steel.py").write_text(source + STEEL)
        made = command("pack", "make", "run", "-o", "leaky.oversight")
        assert made.code == 2 and told in made.err and "code/steel.py" in made.err
        assert "canary" not in made.err and not (place / "leaky.oversight").exists()


def test_source_texts_stay_where_their_licence_is_not_known_and_come_back_for_a_replay(
    place: Path, command: Command
) -> None:
    text = 'The whole of a source text that nobody may copy: \u00e4,\u2028 <b> and "all".'
    answers = [{"label": "A", "text": "yes", "value": 1}, {"label": "B", "text": "no", "value": -1}]
    problem = {"id": "p", "question": "Is it?", "answers": answers, "passage": text}
    (place / "own.jsonl").write_text(json.dumps(problem) + "\n")
    (place / "own.yaml").write_text(
        "problems: {file: own.jsonl}\n"
        "judges: {kind: stated, model: sim/judge, reads_passage: true}\n"
        "agents: sim/strong\nprotocols: [naive_judge, debate]\n"
    )
    assert command("run", "own.yaml", "--run-folder", "run").code == 0
    assert command("pack", "make", "run", "-o", "without.oversight").code == 0
    assert command("pack", "make", "run", "-o", "with.oversight", "--passages").code == 0
    for name, there in (("without", False), ("with", True)):
        content = {each.name: data for each, data in members(place / f"{name}.oversight")}
        assert (text.encode() in content["problems.jsonl"].replace(b'\\"', b'"')) is there
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest.encode() in b"".join(d for _, d in members(place / "without.oversight"))

    assert command("pack", "open", "without.oversight", "-o", "theirs").code == 0
    with closing(BundleStore(place / "theirs/replies.bundle")) as replies:
        records = [read_record(key, replies.get(key) or b"") for key in list(replies.keys())]
    assert records and not any(record.call_size or record.call_part for record in records)
    refused = command("replay", "theirs")
    assert refused.code == 2 and "--passages FROM" in refused.err
    other = json.dumps({**problem, "passage": f"{text}!"})
    (place / "other.jsonl").write_text(other + "\n")
    lacking = command("replay", "theirs", "--passages", "other.jsonl")
    assert (
        lacking.code == 2
        and f"0 of the 1 source texts, and not that of p, whose sha256 is {digest}" in lacking.err
    )
    (place / "data").mkdir()
    (place / "data" / "articles.json").write_text(json.dumps([{"article": {"body": text}}]))
    (place / "data" / "text.txt").write_text(f"{text}\n")
    (place / "lines.jsonl").write_text(json.dumps([text], ensure_ascii=False) + "\n[]\n")
    quoted = text.replace('"', '""')
    (place / "rows.csv").write_text(f'long,passage\n{"x" * 200_000},"{quoted}\n"\n')
    sources = ("own.jsonl", "run", "data", "data/articles.json", "data/text.txt")
    for source in (*sources, "lines.jsonl", "rows.csv"):
        replayed = command("replay", "theirs", "--passages", source)
        assert replayed.code == 0, replayed.err
        assert "4 of 4 outcomes are equal to the byte" in replayed.err
        assert command("replay", "run").out == replayed.out
    assert command("show", "theirs").code == 0
    assert command("view", "theirs", "--write", "site").code == 0
    assert (
        command(
            "export", "tables", "theirs", "-o", "tables", "--store", "theirs/replies.bundle"
        ).code
        == 0
    )
    third = command(
        "pack", "make", "theirs", "-o", "third.oversight", "--store", "theirs/replies.bundle"
    )
    assert third.code == 0, third.err
    for name in ("with", "without", "third"):
        verified = command("pack", "verify", f"{name}.oversight")
        assert verified.code == 0 and "follows from the evidence\n" in verified.out, verified.out


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
        opened = command("pack", "open", bad, "-o", "bad")
        assert opened.code == 2, f"{name}: {opened.err}"
        assert re.search(told, opened.err), f"{name}: {opened.err}"
        assert opened.err.count("\n") == 1 and "Traceback" not in opened.err
        bad.unlink()
        assert {file for file in place.rglob("*")} == before, name
    assert not os.path.exists("/tmp/evil")
    assert not (place / "executed").exists()
