"""Packs: the same bytes each time, no key, and no trace of a hostile one on the disk; each change
is named, and an unchanged pack raises no alarm."""

import json
import os
import random
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from operator import setitem
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from oversight.cache.entry import read_reply
from oversight.cache.reply import Reply
from oversight.engine.extensions.mock.process import serving
from oversight.engine.extensions.pack.pack import figures_of
from oversight.engine.extensions.pack.verifying import verify
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.values import RecordedCell
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.transcript import Failure
from tests.engine.extensions.pack.conftest import CELLS
from tests.fakes import APPLES, CRATES
from tests.portable_files import Members, listed, members, write
from tests.run_folders import noted, overwrite

REPLIES, DATABASE, SWEEP = "replies/000001.jsonl", "run/run.db", "run/sweep.yaml"
OUTCOMES, FIGURES = "run/outcomes.jsonl", "run/figures.json"
PASSAGE = "A text that nobody may copy."


def test_pack_finds_a_store_in_the_home_folder(place, command, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(place))
    assert command("run", "small.yaml", "--limit", "1", "--run-folder", "run").code == 0
    assert read_manifest(place / "run").store == "~/store"
    assert command("export", "pack", "run", "-o", "run.oversight").code == 0 and not caplog.text


@pytest.mark.wire
def test_pack_is_deterministic_and_opens_to_an_equal_run(pack, place, command, monkeypatch):
    again = command("export", "pack", "run", "-o", "again.oversight", "--sweep", "run.yaml")
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
    ours, theirs = members(pack), members(place / "third.oversight")
    # Replies say that they were imported.
    assert {name for name in ours if ours[name] != theirs.get(name)} == {"manifest.json", REPLIES}
    # Its replies are in the folder: no other store is needed.
    shutil.rmtree(place / "store")
    assert command("export", "open", "plain.oversight", "-o", "plain-again").code == 0
    assert "outcomes are equal to the byte" in command("replay", "plain-again").err


@pytest.mark.wire
def test_pack_of_wire_replies_is_verified(place, command, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asks = ("--set", "judges.model=openai/gpt-6-luna", "--set", "judges.effort=none")
    with serving(["--sweep", "small.yaml", *asks]) as url:
        at = ("--set", f"providers.openai.base_url={url}/v1", "--limit", "1")
        ran = command("run", "small.yaml", *asks, *at, "--run-folder", "run")
    assert ran.code == 0, ran.err
    assert command("export", "pack", "run", "-o", "run.oversight").code == 0
    assert verify(place / "run.oversight")[1:] == ((), "")


def test_withheld_texts_and_requests_are_in_no_member(place, command):
    write_jsonl([replace(APPLES, question=replace(CRATES, passage=PASSAGE))], place / "own.jsonl")
    from_own = ("--set", "problems={file: own.jsonl}", "--set", "judges.reads_passage=true")
    sweep = (place / "small.yaml").read_text().replace("sim/judge", "{model: sim/judge}")
    (place / "small.yaml").write_text(sweep)
    assert command("run", "small.yaml", *from_own, "--run-folder", "run").code == 0
    for flags, passages in (((), 0), (("--passages",), 1)):
        (place / "p.oversight").unlink(missing_ok=True)
        assert command("export", "pack", "run", "-o", "p.oversight", *flags).code == 0
        contents, wrong, why = verify(place / "p.oversight")
        assert contents is not None and wrong == () and bool(why) != bool(passages)
        assert contents.counts["passages"] == passages
        assert contents.counts["requests"] == passages * contents.counts["replies"]
        content = members(place / "p.oversight")
        lines = [json.loads(line) for line in content[REPLIES].splitlines()]
        assert lines and {"call" in line for line in lines} == {bool(passages)}
        assert (PASSAGE.encode() in content[REPLIES]) == bool(passages)
        words = b"".join(content[name] for name in content if name != REPLIES)
        assert passages or PASSAGE.encode() not in words
        shutil.rmtree(place / "opened", ignore_errors=True)
        assert command("export", "open", "p.oversight", "-o", "opened").code == 0
        with RunReader(place / "opened") as run:
            assert (run.problems[0].question.passage == PASSAGE) == bool(passages)
    imported = command("cache", "import", "p.oversight", "--store", "other")
    assert imported.code == 0, imported.err
    assert command("export", "pack", "run", "-o", "q.oversight").code == 0
    refused = command("cache", "import", "q.oversight", "--store", "another")
    assert refused.code == 2 and "its requests were left out" in refused.err
    assert not (place / "another").exists()


def test_passages_of_examples_are_withheld_and_given_back(place, command):
    examples = [replace(APPLES, question=replace(APPLES.question, passage=PASSAGE))]
    write_jsonl(examples, place / "shots.jsonl")
    judge = (
        "judges={kind: stated, model: sim/judge, reads_passage: true, shots: {file: shots.jsonl}}"
    )
    assert command("run", "small.yaml", "--set", judge, "--run-folder", "run").code == 0
    for flags, passages in (((), 0), (("--passages",), 1)):
        (place / "p.oversight").unlink(missing_ok=True)
        assert command("export", "pack", "run", "-o", "p.oversight", *flags).code == 0
        content = members(place / "p.oversight")
        assert any(name.startswith("run/shots/") for name in content)
        _, wrong, why = verify(place / "p.oversight")
        assert wrong == () and bool(why) != bool(passages)
        holds = [name for name in content if PASSAGE.encode() in content[name]]
        assert bool(holds) == bool(passages), holds
    assert command("export", "pack", "run", "-o", "q.oversight").code == 0
    # A pack of an opened pack has the same digests.
    assert command("export", "open", "q.oversight", "-o", "opened").code == 0
    assert command("export", "pack", "opened", "-o", "r.oversight").code == 0
    contents, wrong, why = verify(place / "r.oversight")
    assert contents is not None and wrong == () and "source texts were left out" in why
    assert (contents.counts["passages_left_out"], contents.counts["requests"]) == (1, 0)
    assert command("export", "open", "r.oversight", "-o", "again").code == 0
    refused = command("replay", "again")
    assert refused.code == 2 and "source texts were left out" in refused.err
    ran = command("replay", "again", "--passages", "shots.jsonl", "--store", "store")
    assert ran.code == 0, ran.err


def in_folder(at: Path, content: Members, change: Callable[[Path], object]) -> Members:
    """The members, after a change of the run's files in a separate folder."""
    shutil.rmtree(at, ignore_errors=True)
    for name, data in content.items():
        if name.startswith("run/"):
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_bytes(data)
    change(at / "run")
    return content | {name: (at / name).read_bytes() for name in content if name.startswith("run/")}


def with_cell(change: Callable[[RecordedCell], RecordedCell], place: int) -> Callable:
    """Change the recorded cell at a place."""

    def changed(folder: Path) -> None:
        with RunReader(folder) as run:
            (cell,) = run.tables.cells([place])
        overwrite(folder, [change(cell)])

    return changed


def edited(statement: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "run.db")) as db, db:
            db.execute(statement)

    return change


def hostile(pack: Path, at: Path) -> Iterator[tuple[str, Members, str]]:
    content = members(pack)

    def counts(lacks: str = "", **changed: int) -> Members:
        manifest = json.loads(content["manifest.json"])
        manifest["counts"] |= changed
        manifest["counts"].pop(lacks, None)
        return listed(content | {"manifest.json": json.dumps(manifest).encode()})

    def inside(change: Callable[[Path], object]) -> Members:
        return listed(in_folder(at, content, change))

    for name in ("evil", "run.db-journal", "lock", "code/x.sh", "replies/cache.db", "ledger"):
        yield name, listed(content | {f"run/{name}": b"x"}), f"'run/{name}', which is not allowed"
    for name in ("code/../../evil.py", "code/.hidden/x.py", "prompts/../../evil"):
        bad = listed(content | {f"run/{name}": b"x"})
        yield name, bad, f"'run/{re.escape(name)}' is not allowed"
    lacking = listed({name: data for name, data in content.items() if name != DATABASE})
    yield "lacking", lacking, "lacks run/run.db"
    yield "cells", counts(cells=10**9), "manifest.json lists 1000000000 cells, and it has 24"
    yield "problems", counts(problems=1), "manifest.json lists 1 problems, and it has 2"
    yield "left out", counts(passages_left_out=7), "lists 7 passages_left_out, and it has 0"
    yield "uncounted", counts("replies"), "manifest.json lists no number of replies"
    for name in ("store", "store_id", "id"):
        message = inside(lambda folder, name=name: noted(folder, **{name: "0" * 16}))
        yield f"named {name}", message, "names a store or an id"
    other = listed(content | {DATABASE: b"no database" * 99})
    yield "no database", other, "run.db is not the database"
    yield "torn", listed(content | {DATABASE: content[DATABASE][:4096]}), "run.db .*damaged"
    planted = "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN DELETE FROM cells; END"
    yield "trigger", inside(edited(planted)), "is not the database of a run"
    misplaced = with_cell(lambda cell: replace(cell, row=1 - cell.row), 0)
    yield "row", inside(misplaced), "cell 0 is out of place"
    wild = with_cell(lambda cell: replace(cell, place=10**6), 0)
    yield "place", inside(wild), "cell .* none of this sweep|lists 24 cells"


@pytest.mark.wire
def test_hostile_pack_is_refused_by_name_and_leaves_nothing(pack, place, command, tmp_path):
    scratch = tmp_path.parent / f"{tmp_path.name}-scratch"
    before = {file for file in place.rglob("*")}
    for name, content, message in hostile(pack, scratch):
        bad = place / "bad.oversight"
        write(bad, content)
        opened = command("export", "open", bad, "-o", "bad")
        assert opened.code == 2, f"{name}: {opened.err}"
        assert re.search(message, opened.err), f"{name}: {opened.err}"
        assert opened.err.count("\n") == 1 and "Traceback" not in opened.err
        wrong = command("export", "verify", bad)
        assert wrong.code == 1 and re.search(message, wrong.out), f"{name}: {wrong.out}"
        bad.unlink()
        assert {file for file in place.rglob("*")} == before, name
    assert not os.path.exists("/tmp/evil") and not (place / "executed").exists()


@pytest.mark.wire
def test_pack_is_verified_without_sockets_and_code(pack, place, command, monkeypatch):
    def refused(*parts: Any, **more: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    ran = command("export", "verify", pack)
    assert ran.code == 0 and f"every figure of {CELLS} cells follows" in ran.out, ran.out
    assert "cells were not run again" in ran.err and "steel.py:Steelman" in ran.err
    plain = command("export", "verify", "plain.oversight")
    assert (plain.code, plain.err) == (0, "")
    assert not (place / "executed").exists(), "code of others ran"
    bare = command("export", "pack", "run", "-o", "bare.oversight", "--no-store")
    assert bare.code == 0 and "not in it: steel.py, which the sweep names; to put it" in bare.err
    bare = command("export", "verify", "bare.oversight")
    assert bare.code == 0 and "no replies are inside" in bare.err
    write(pack, listed(members(pack) | {FIGURES: b"{}"}))
    assert command("export", "verify", pack).code == 1


def replies(member: bytes | bytearray) -> list[Reply]:
    read = (orjson.dumps(orjson.loads(line)["reply"]) for line in member.splitlines())
    return [read_reply("", reply, "") for reply in read]


@pytest.mark.campaign
def test_changed_byte_is_reported_with_its_file(pack, place, campaign):
    """Half of the changes go with a corrected manifest. Then unused bytes of the database, bytes of
    the sweep file that mean nothing, and keys of replies whose value is the default may change."""
    chance = random.Random(campaign.seed)
    contents, bad = members(place / "plain.oversight"), place / "bad.oversight"
    for number in range(campaign.size(50, 200)):
        name = chance.choice(sorted(contents))
        at = chance.randrange(len(contents[name]))
        changed = bytearray(contents[name])
        changed[at] ^= 1 << chance.randrange(7)
        content = contents | {name: bytes(changed)}
        corrected = bool(number % 2) and name != "manifest.json"
        write(bad, listed(content) if corrected else content)
        _, wrong, _ = verify(bad)
        if not wrong and name == REPLIES:
            assert replies(changed) == replies(contents[name]), (number, at)
        assert wrong or (corrected and name in (DATABASE, SWEEP, REPLIES)), (number, name, at)
        # A changed text is one that the database and the replies state differently.
        called = "run.db" if corrected else name.removeprefix("run/").partition("/")[0]
        faults = " ".join(wrong)
        assert not wrong or name == SWEEP or called in faults or name in faults, (number, name, at)
    assert verify(place / "plain.oversight")[1] == ()


def put(value: Any, path: str, new: Any) -> Any:
    """The value with a new one at a path such as `calls.*.cost.served`."""
    if not path:
        return new(value) if callable(new) else new
    name, _, after = path.partition(".")
    if isinstance(value, tuple):
        parts = enumerate(value)
        return tuple(put(part, after, new) if name in ("*", str(n)) else part for n, part in parts)
    return replace(value, **{name: put(getattr(value, name), after, new)})


def with_file(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / name
        text = file.read_text()
        assert old in text, (name, old)
        file.write_text(text.replace(old, new, 1))

    return change


def with_figure(folder: Path) -> None:
    figures = orjson.loads((folder / "figures.json").read_bytes())
    figures["brier"]["rows"][1]["asd"]["value"] += 0.001
    (folder / "figures.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))


def with_figures(raw: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "figures.json").write_bytes(raw)


IN_CELL = r"run/run.db: cell \d+ \(.*\): "
IN_CALLS: list[tuple[str, object]] = [
    *{"model": "sim/x", "text": "No.", "outcome": "empty", "settings": "{}", "draw": (7,)}.items(),
    *{
        "reasoning": "Hm.", "cost.stop_reason": "x", "cost.served": "x", "cost.identity": "x",
    }.items(),
    *((f"cost.{name}_tokens", 7) for name in ("input", "output", "cache_read", "cache_write")),
]  # fmt: skip
TURN, JUDGEMENT = "outcome.transcript.turns.0", "outcome.judgements.0"
EVIDENCE: list[tuple[str, object, str]] = [
    *(
        (f"calls.*.{name}", value, f"call .*, {name.removeprefix('cost.')}: ")
        for name, value in IN_CALLS
    ),
    ("calls.*.address", "f" * 64, "call ffffffffffff: it has no reply"),
    (f"{TURN}.text", "Another text.", "turn 1, text: 'Another text.' recorded"),
    (f"{TURN}.speaker", "Somebody", "turn 1, speaker: 'Somebody' recorded"),
    (f"{JUDGEMENT}.text", "B wins.", "judgement 1, text: 'B wins.' recorded"),
    (f"{JUDGEMENT}.captured", 0.5, "(judgement 1, captured|captured): 0.5 recorded"),
    ("outcome.probs", lambda probs: probs[::-1], "probs: "),
    ("outcome.measures", (("m", 1.0),), "measures: "),
    ("outcome", Failure("crash", "no"), "failure: "),
    ("id", "f" * 16, "id: f+ recorded"),
    ("counts", {"turns": 99}, "counts: "),
    ("calls", lambda calls: calls[1:], "call 1, address: "),
]
BESIDE: list[tuple[Callable[[Path], object], str]] = [
    (with_file("outcomes.jsonl", '"probs":[', '"probs":[0.5,'), "run/outcomes.jsonl: line 1, cell"),
    (with_file("outcomes.jsonl", '"place":0', '"place": 0'), "line 1, cell 0 .*: it is spelled"),
    (with_figure, r"run/figures.json: brier.rows\[1\].asd.value: "),
    *[(with_figures(raw), "run/figures.json: ") for raw in (b"[]", b"5", b"", b"{", b"\xff")],
    (with_file("sweep.yaml", "debate", "propaganda"), "run/run.db: (grid|identity): "),
    (lambda folder: noted(folder, identity="0" * 64), "run/run.db: identity: "),
    (lambda folder: (folder / "outcomes.jsonl").write_bytes(b""), "outcomes.jsonl: line 1, cell"),
]


def verified(place: Path, change: Callable[[Path], object]) -> tuple[str, ...]:
    """The differences that are found after a change of the run, whose digests are corrected."""
    file = place / "plain.oversight"
    write(file, listed(in_folder(place / "changed", members(file), change)))
    return verify(file).differences


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("path", "new", "message"), EVIDENCE)
def test_changed_cell_with_matching_digests_is_named(pack, place, path, new, message, corrected):
    """corrected: whether outcomes and figures are made again from the changed cell, too."""

    def changed(folder: Path) -> None:
        with_cell(lambda cell: put(cell, path, new), 6)(folder)
        if corrected:
            with RunReader(folder) as run:
                lines = b"".join(record.line for record in run.recorded_outcomes())
                (folder / "outcomes.jsonl").write_bytes(lines)
                (folder / "figures.json").write_bytes(figures_of(run))

    wrong = verified(place, changed)
    assert any(re.match(f"({IN_CELL}|replies).*({message})", line) for line in wrong), wrong


@pytest.mark.parametrize(("change", "message"), BESIDE)
def test_changed_file_with_matching_digests_is_named(pack, place, change, message):
    wrong = verified(place, change)
    assert any(re.search(message, line) for line in wrong), wrong


LINES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda line: line["reply"].update(text="No."), f"{IN_CELL}call .*, text: "),
    (lambda line: line["reply"].update(stop_reason="x"), f"{IN_CELL}call .*, stop_reason: "),
    (lambda line: line["reply"]["usage"].update(output_tokens=9), f"{IN_CELL}.*, output_tokens: "),
    (lambda line: line["reply"].update(outcome="refused"), f"{IN_CELL}call .*, outcome: "),
    (lambda line: line["call"][1].update(model="sim/x"), "replies: .*: its call .* another key"),
    (lambda line: setitem(line, "at", -1), "replies: .*: it needs a time"),
]


@pytest.mark.parametrize(("change", "message"), LINES)
def test_changed_reply_with_matching_digests_is_named(pack, place, change, message):
    file = place / "plain.oversight"
    content = members(file)
    first, *others = content[REPLIES].splitlines(keepends=True)
    line = json.loads(first)
    change(line)
    raw = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    write(file, listed(content | {REPLIES: b"".join((raw, *others))}))
    _, wrong, _ = verify(file)
    assert any(re.search(message, line) for line in wrong), wrong
    # Replies that are said to lack their requests do not keep cells from being run again unseen.
    manifest = json.loads(content["manifest.json"])
    manifest["counts"]["requests"] = 0
    write(file, listed(content | {"manifest.json": json.dumps(manifest).encode()}))
    assert any("0 requests are listed" in line for line in verify(file).differences)
    # Without the line, its cells have a call without a reply.
    write(file, listed(content | {REPLIES: b"".join(others)}))
    assert any("it has no reply" in line for line in verify(file).differences)


def test_unused_reply_is_named(pack, place):
    file = place / "plain.oversight"
    content, lines = members(file), members(file)[REPLIES].splitlines(keepends=True)
    foreign = next(line for line in members(pack)[REPLIES].splitlines(True) if line not in lines)
    write(file, listed(content | {REPLIES: b"".join(sorted([*lines, foreign]))}))
    wrong = verify(file).differences
    assert [line.rpartition(": ")[2] for line in wrong] == [
        "no cell asks for it",
        f"{len(lines)} replies are listed, and the pack has {len(lines) + 1}",
        f"{len(lines)} requests are listed, and the pack has {len(lines) + 1}",
    ]
