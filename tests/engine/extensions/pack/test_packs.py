"""Packs: the same bytes each time, nothing of a key, and nothing of a hostile one on the disk;
every change of one is told by its name, and an unchanged one raises no alarm.
"""

import hashlib
import io
import json
import os
import random
import re
import shutil
import socket
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from msgspec.structs import replace

from oversight.cache.bundle import BundleStore
from oversight.cache.record import read_record
from oversight.engine.extensions.mock.process import serving
from oversight.engine.extensions.pack.verifying import verify
from oversight.engine.run.manifest import read_manifest
from oversight.protocols.datasets.jsonl import write_jsonl
from tests.engine.extensions.pack.conftest import CELLS
from tests.fakes import APPLES, CRATES

Members = list[tuple[tarfile.TarInfo, bytes]]


def members(pack: Path) -> Members:
    with (
        pack.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as raw,
        tarfile.open(fileobj=raw, mode="r|") as tar,
    ):
        opened = ((each, tar.extractfile(each)) for each in tar)
        return [(each, content.read() if content else b"") for each, content in opened]


def packed(file: Path, content: Members) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for member, data in content:
            tar.addfile(member, io.BytesIO(data))
    file.write_bytes(repacked(raw.getvalue()))


def unpacked(pack: Path) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(pack.read_bytes()).readall()


def repacked(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE
) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size, member.type = len(data), kind
    return member, data


def resealed(file: Path, changed: Mapping[str, bytes], *, figures: bool = False) -> None:
    """Replace members, and correct the digests in the table of contents. figures: also those of
    files and cells that the figures state."""
    found = {each.name: data for each, data in members(file)} | changed
    contents = json.loads(found.pop("pack.json"))

    def listed() -> list[dict[str, object]]:
        return [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(found.items())
        ]

    if figures:
        told = json.loads(found["figures.json"])
        told["contents"]["files"] = {
            str(e["path"]): e["sha256"] for e in listed() if e["path"] != "figures.json"
        }
        lines = found["cells.jsonl"].splitlines(keepends=True)
        told["cells"] = {
            str(orjson.loads(line)["place"]): hashlib.sha256(line).hexdigest() for line in lines
        }
        found["figures.json"] = json.dumps(told).encode()
    contents["files"] = listed()
    found = {"pack.json": json.dumps(contents).encode(), **found}
    packed(file, [member(name, data) for name, data in found.items()])


def test_a_store_in_the_home_folder_is_the_one_that_the_run_names(
    place, command, monkeypatch, caplog
):
    monkeypatch.setenv("HOME", str(place))
    assert command("run", "small.yaml", "--limit", "1", "--run-folder", "run").code == 0
    assert read_manifest(place / "run").store == "~/store"
    assert command("export", "pack", "run", "-o", "run.oversight").code == 0
    assert not caplog.text


def listed(content: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    """The same with a changed table of contents."""
    contents = json.loads(content[0][1])
    change(contents)
    return [member("pack.json", json.dumps(contents).encode()), *content[1:]]


def with_file(content: Members, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> Members:
    its, _ = member(name, data, kind)
    entry = {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if kind != tarfile.REGTYPE:
        its.linkname, its.size = "/etc/passwd", 0
    return [*listed(content, lambda contents: contents["files"].append(entry)), (its, data)]


@pytest.mark.wire
def test_a_pack_is_the_same_each_time_and_opens_to_a_run_that_reads_the_same(
    pack, place, command, monkeypatch
):
    again = command("export", "pack", "run", "-o", "again.oversight", "--sweep", "own.yaml")
    assert again.code == 0, again.err
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


@pytest.mark.wire
def test_pack_of_wire_replies_is_verified(place, command, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asks = ("--set", "judges.model=openai/gpt-6-luna", "--set", "judges.effort=none")
    with serving(["--sweep", "small.yaml", *asks]) as url:
        at = ("--set", f"providers.openai.base_url={url}/v1", "--limit", "1")
        ran = command("run", "small.yaml", *asks, *at, "--run-folder", "run")
    assert ran.code == 0, ran.err
    assert command("export", "pack", "run", "-o", "run.oversight").code == 0
    assert verify(place / "run.oversight")[1] == ()


def test_replies_travel_without_their_requests_where_source_texts_stay(place, command):
    told = replace(APPLES, question=replace(CRATES, passage="A text that nobody may copy."))
    write_jsonl([told], place / "own.jsonl")
    from_own = ("--set", "problems={file: own.jsonl}", "--set", "judges.reads_passage=true")
    sweep = (place / "small.yaml").read_text().replace("sim/judge", "{model: sim/judge}")
    (place / "small.yaml").write_text(sweep)
    assert command("run", "small.yaml", *from_own, "--run-folder", "run").code == 0
    assert command("export", "pack", "run", "-o", "p.oversight").code == 0
    assert verify(place / "p.oversight")[1] == ()
    (data,) = (data for each, data in members(place / "p.oversight") if "replies" in each.name)
    (place / "replies.bundle").write_bytes(data)
    with closing(BundleStore(place / "replies.bundle")) as replies:
        records = [read_record(key, replies.get(key) or b"") for key in list(replies.keys())]
    assert records and not any(record.call_size or record.call_part for record in records)


def hostile(pack: Path) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    content = members(pack)

    def first(**changed: object) -> Members:
        return listed(content, lambda contents: contents["files"][0].update(changed))

    def write(some: Members) -> Callable[[Path], None]:
        return lambda file: packed(file, some)

    def wild(file: Path) -> None:
        shutil.copyfile(pack, file)
        cells = next(data for each, data in content if each.name == "cells.jsonl")
        resealed(file, {"cells.jsonl": cells.replace(b'"place":0', b'"place":999999999', 1)})

    for path in ("../evil", "/tmp/evil", "code/../../evil.py", "code/.hidden/x.py", "run.db"):
        yield path, write(with_file(content, path, b"x")), re.escape(repr(path))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        linked = with_file(content, "code/l.py", b"", kind)
        yield f"member of type {kind!r}", write(linked), "a link or a device"
    yield "digest", write(first(sha256="0" * 64)), "is not what its"
    yield "size", write(first(size=3)), "and 3 are listed"
    yield "claim", write(first(size=10**15)), "would unpack to 1,000,000"
    yield "negative", write(first(size=-1)), "-1 bytes"
    yield "unlisted", write([*content, member("code/extra.py", b"x")]), "contents does not"
    yield "lacking", write(content[:-1]), "it lacks figures.json"
    yield "newer", write(listed(content, lambda c: c.update(format=9))), "of format 9"
    yield "claimed cells", write(listed(content, lambda c: c.update(cells=10**9))), "cells"
    yield "no contents", write(content[1:]), "does not begin with pack.json"
    for name, raw in (("torn", pack.read_bytes()[:-200]), ("foreign", b"PK\x03\x04 no pack")):
        yield name, partial(Path.write_bytes, data=raw), "no pack, or is damaged|it lacks"
    raw = unpacked(pack)
    first_file = 512 + len(content[0][1])
    commented, _ = member("pack.json", content[0][1])
    commented.uname = "hidden"
    noted = io.BytesIO()
    with tarfile.open(fileobj=noted, mode="w", pax_headers={"comment": "hidden"}) as tar:
        tar.addfile(commented, io.BytesIO(content[0][1]))
    skipped = b"\x50\x2a\x4d\x18\6\0\0\0hidden"
    for name, some in {
        "behind the frame": pack.read_bytes() + b"hidden",
        "a second frame": pack.read_bytes() + repacked(b"hidden"),
        "a frame that is skipped, behind": pack.read_bytes() + skipped,
        "behind the last member": repacked(raw + b"hidden"),
        "at the end": repacked(raw[:-6] + b"hidden"),
        "between members": repacked(raw[:first_file] + b"hidden" + raw[first_file + 6 :]),
    }.items():
        yield name, partial(Path.write_bytes, data=some), "it holds more than the pack"
    yield "head", write([(commented, content[0][1]), *content[1:]]), "in the head of 'pack.json'"
    yield "before", partial(Path.write_bytes, data=skipped + pack.read_bytes()), "no pack"
    yield "comment", partial(Path.write_bytes, data=repacked(noted.getvalue())), "no regular file"
    yield "field", write(listed(content, lambda c: c.update(hidden="x"))), "unknown field `hidden`"
    yield "bomb", write(with_file(content, "code/b.py", bytes(2**27))), "times its own size"
    yield "wild place", wild, "out of place"


@pytest.mark.wire
def test_a_hostile_pack_is_refused_by_name_and_leaves_nothing(pack, place, command):
    before = {file for file in place.rglob("*")}
    for name, write, told in hostile(pack):
        bad = place / "bad.oversight"
        write(bad)
        opened = command("export", "open", bad, "-o", "bad")
        assert opened.code == 2, f"{name}: {opened.err}"
        assert re.search(told, opened.err), f"{name}: {opened.err}"
        assert opened.err.count("\n") == 1 and "Traceback" not in opened.err
        wrong = command("export", "verify", bad)
        assert wrong.code == 1 and re.search(told, wrong.out), f"{name}: {wrong.out}"
        bad.unlink()
        assert {file for file in place.rglob("*")} == before, name
    assert not os.path.exists("/tmp/evil")
    assert not (place / "executed").exists()


Change = Callable[[dict[str, bytes]], None]


@pytest.mark.wire
def test_a_pack_is_verified_without_a_socket_and_without_its_code(
    pack, place, command, monkeypatch
):
    def refused(*parts: Any, **more: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    done = command("export", "verify", pack)
    assert done.code == 0 and f"every figure of {CELLS} cells follows" in done.out, done.out
    assert not (place / "executed").exists(), "code of others ran"
    made = command("export", "pack", "run", "-o", "bare.oversight", "--no-store")
    assert made.code == 0 and "not in it: steel.py, which the sweep names; to put it" in made.err
    bare = command("export", "verify", "bare.oversight")
    assert bare.code == 0 and "no replies are inside" in bare.out
    resealed(pack, {"figures.json": b"{}"})
    assert command("export", "verify", pack).code == 1


@pytest.mark.campaign
def test_every_changed_byte_is_told_by_the_name_of_its_file(pack, tmp_path, campaign):
    """Half of the changes go with a table of contents that was made anew."""
    chance = random.Random(campaign.seed)
    whole = {each.name: data for each, data in members(pack)}
    bad = tmp_path / "bad.oversight"
    for number in range(campaign.size(50, 200)):
        name = chance.choice(sorted(whole))
        place = chance.randrange(len(whole[name]))
        changed = bytearray(whole[name])
        changed[place] ^= 1 << chance.randrange(7)
        bad.write_bytes(pack.read_bytes())
        if number % 2 and name != "pack.json":
            resealed(bad, {name: bytes(changed)})
        else:
            packed(bad, [(e, bytes(changed) if e.name == name else d) for e, d in members(bad)])
        _, wrong = verify(bad)
        called = "of the record" if name == "cells.jsonl" else name
        called = "" if name in ("pack.json", "manifest.json", "grid.json") else called
        told = [each for each in wrong if name in each or called in each]
        assert told, (number, name, place, wrong)
    assert verify(pack)[1] == ()


def edited(name: str, old: str, new: str) -> Change:
    def change(members: dict[str, bytes]) -> None:
        content = members[name]
        assert old.encode() in content, (name, old)
        members[name] = content.replace(old.encode(), new.encode(), 1)

    return change


def without_a_cell(members: dict[str, bytes]) -> None:
    lines = members["cells.jsonl"].splitlines(keepends=True)
    members["cells.jsonl"] = b"".join(lines[:7] + lines[8:])


def cells(edit: Callable[[dict[str, Any]], object], numbers: Collection[int]) -> Change:
    """Change the lines of these cells."""

    def change(members: dict[str, bytes]) -> None:
        lines = members["cells.jsonl"].splitlines(keepends=True)
        for number in numbers:
            told = orjson.loads(lines[number])
            edit(told)
            lines[number] = orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
        members["cells.jsonl"] = b"".join(lines)

    return change


def another_verdict(told: dict[str, Any]) -> None:
    told["probs"] = told["probs"][::-1]


def calls_with(field: str, value: object) -> Change:
    """Change a field of every call; those of its cost are named by a dot."""

    def edit(cell: dict[str, Any]) -> None:
        for call in cell["calls"]:
            part, _, name = field.rpartition(".")
            (call[part] if part else call)[name] = value

    return cells(edit, range(CELLS))


def another_turn(cell: dict[str, Any]) -> None:
    cell["turns"][0]["text"] += " indeed"


def another_figure(members: dict[str, bytes]) -> None:
    told = orjson.loads(members["figures.json"])
    told["figures"]["brier"]["rows"][1]["asd"]["value"] += 0.001
    members["figures.json"] = orjson.dumps(told, option=orjson.OPT_INDENT_2)


def with_figures(raw: bytes) -> Change:
    return lambda members: members.update({"figures.json": raw})


EVIDENCE: list[tuple[Change, str]] = [
    (without_a_cell, "figures.json: cell 7 ("),
    (cells(another_verdict, [5]), "figures.json: cell 5 ("),
    (cells(lambda cell: cell["calls"][0].update(text="No."), [3]), "cells.jsonl: cell 3 ("),
    *[
        (calls_with(field, value), f"cells.jsonl: cell 0 (*, {field.rpartition('.')[2]}: {value!r}")
        for field, value in (
            ("model", "sim/other"),
            ("text", "No."),
            ("outcome", "truncated"),
            ("reasoning", "Hm."),
            ("settings", "{}"),
            ("draw", (7,)),
            ("cost.stop_reason", "elsewhere"),
            ("cost.served", "other-1"),
            ("cost.identity", "another endpoint"),
            ("cost.input_tokens", 7),
            ("cost.output_tokens", 7),
            ("cost.cache_read_tokens", 7),
            ("cost.cache_write_tokens", 7),
        )
    ],
    (edited("problems.jsonl", '"value":1.0', '"value":2.0'), "figures.json: figures.brier."),
    (another_figure, "figures.json: figures.brier.rows[1].asd.value: "),
    (edited("manifest.json", '"identity": "', '"identity": "a'), "pack.json: identity: "),
]
BESIDE: list[tuple[Change, str]] = [
    (cells(another_turn, [4]), "figures.json: cell 4 ("),
    (edited("code/steel.py", "strength: int = 2", "strength: int = 9"), "figures.json: contents."),
    (edited("grid.json", '"strength":3', '"strength":4'), "figures.json: contents.files"),
    (edited("pack.json", '"version": "', '"version": "9.'), "pack.json: version: 9."),
    *[
        (with_figures(raw), "figures.json: ")
        for raw in (b"[]", b"5", b"", b"{", b"\xff", b'{"cells": {"99": "a"}}')
    ],
]


@pytest.mark.parametrize(
    ("change", "named", "figures"),
    [(*each, figures) for each in EVIDENCE for figures in (False, True)]
    + [(*each, False) for each in BESIDE],
)
def test_change_is_named_although_all_digests_match(pack, change, named, figures):
    """figures: whether the digests that stand with the figures match, too."""
    found = {each.name: data for each, data in members(pack)}
    change(found)
    resealed(pack, found, figures=figures)
    _, wrong = verify(pack)
    if figures:
        # The digests of cells are those of the changed ones: their figures differ.
        named = re.sub("^figures.json: cell .*", "figures.json: figures.", named)
    start, _, end = named.partition("*")
    assert any(each.startswith(start) and end in each for each in wrong), wrong
