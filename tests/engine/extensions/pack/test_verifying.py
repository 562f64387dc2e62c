"""Verifying: every change of a pack is told by its name, and an unchanged one raises no alarm."""

import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.engine.extensions.pack.verifying import verify
from tests.command_line import Command
from tests.conftest import Campaign
from tests.packs import members, packed, resealed

Change = Callable[[dict[str, bytes]], None]


@pytest.mark.wire
def test_a_pack_is_verified_without_a_socket_and_without_its_code(
    pack: Path, place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*parts: Any, **more: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    done = command("export", "verify", pack)
    assert done.code == 0 and "every figure of 18 cells follows" in done.out, done.out + done.err
    assert not (place / "executed").exists(), "code of others ran"
    assert command("export", "pack", "run", "-o", "bare.oversight", "--no-store").code == 0
    bare = command("export", "verify", "bare.oversight")
    assert bare.code == 0 and "no replies are inside" in bare.out


@pytest.mark.campaign
def test_every_changed_byte_is_told_by_the_name_of_its_file(
    pack: Path, tmp_path: Path, campaign: Campaign
) -> None:
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
        called = {"said.jsonl": "of the record", "took.jsonl": "of the record"}.get(name, name)
        called = "" if name in ("pack.json", "manifest.json", "grid.json") else called
        told = [each for each in wrong if name in each or called in each]
        assert told, (number, name, place, wrong)
    assert verify(pack)[1] == ()


@pytest.mark.campaign
def test_packs_as_they_were_made_raise_no_alarm(
    place: Path, command: Command, campaign: Campaign
) -> None:
    protocols = (
        "naive_judge",
        "propaganda",
        "consultancy",
        "debate",
        "proposer_critic",
        "critique",
    )
    for number in range(campaign.size(5, 50)):
        chance = random.Random(number)
        draws = chance.randint(1, 2)
        (place / "one.yaml").write_text(
            f"problems: {{bundled: {{name: {chance.choice(('arithmetic', 'passages'))}, limit: "
            f"{chance.randint(1, 4)}}}}}\nagents: [sim/strong]\nseed: {number}\n"
            f"judges: {{kind: {chance.choice(('stated', 'logprob'))}, model: sim/judge}}\n"
            f"protocols: [{', '.join(chance.sample(protocols, 3))}]\ndraws: {draws}\n"
        )
        done = command("run", "one.yaml", "--run-folder", f"run{number}")
        assert done.code == 0, done.err
        file = place / f"{number}.oversight"
        assert command("export", "pack", f"run{number}", "-o", file).code == 0
        assert verify(file)[1] == (), number


def edited(name: str, old: str, new: str) -> Change:
    def change(members: dict[str, bytes]) -> None:
        content = members[name]
        assert old.encode() in content, (name, old)
        members[name] = content.replace(old.encode(), new.encode(), 1)

    return change


def without_a_cell(members: dict[str, bytes]) -> None:
    for name in ("outcomes.jsonl", "said.jsonl", "took.jsonl"):
        lines = members[name].splitlines(keepends=True)
        members[name] = b"".join(lines[:7] + lines[8:])


def line(name: str, number: int, edit: Callable[[dict[str, Any]], object]) -> Change:
    """Change one line of a member."""

    def change(members: dict[str, bytes]) -> None:
        lines = members[name].splitlines(keepends=True)
        told = orjson.loads(lines[number])
        edit(told)
        lines[number] = orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
        members[name] = b"".join(lines)

    return change


def another_verdict(told: dict[str, Any]) -> None:
    told["probs"] = told["probs"][::-1]


def another_reply(told: dict[str, Any]) -> None:
    told["calls"][0]["text"] += " indeed"


def more_tokens(told: dict[str, Any]) -> None:
    for call in told["calls"]:
        call["output_tokens"] += 1


def in_every_line(name: str, edit: Callable[[dict[str, Any]], object]) -> Change:
    def change(members: dict[str, bytes]) -> None:
        for number in range(members[name].count(b"\n")):
            line(name, number, edit)(members)

    return change


def other_words(told: dict[str, Any]) -> None:
    for call in told["calls"]:
        call["text"] += " indeed"


def another_figure(members: dict[str, bytes]) -> None:
    told = orjson.loads(members["figures.json"])
    told["figures"]["brier"]["rows"][1]["asd"]["value"] += 0.001
    members["figures.json"] = orjson.dumps(told, option=orjson.OPT_INDENT_2)


@pytest.mark.parametrize("figures", [False, True], ids=["contents", "contents and figures"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (without_a_cell, "figures.json: cell 7 ("),
        (line("outcomes.jsonl", 5, another_verdict), "outcomes.jsonl: cell 5 ("),
        (line("said.jsonl", 3, another_reply), "said.jsonl: cell 3 ("),
        (in_every_line("said.jsonl", other_words), "replies.bundle: cell 3 ("),
        (in_every_line("took.jsonl", more_tokens), "replies.bundle: cell 3 ("),
        (edited("problems.jsonl", '"value":1.0', '"value":2.0'), "figures.json: figures.brier."),
        (another_figure, "figures.json: figures.brier.rows[1].asd.value: "),
        (edited("manifest.json", '"identity": "', '"identity": "a'), "pack.json: identity: "),
    ],
    ids=["cell", "verdict", "reply", "replies", "tokens", "problem", "figure", "identity"],
)
def test_a_change_is_named_though_every_digest_was_made_anew(
    pack: Path, change: Change, named: str, figures: bool
) -> None:
    found = {each.name: data for each, data in members(pack)}
    change(found)
    resealed(pack, found, figures=figures)
    _, wrong = verify(pack)
    assert any(each.startswith(named) for each in wrong), wrong


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (edited("code/steel.py", "strength: int = 2", "strength: int = 9"), "contents.files"),
        (edited("grid.json", '"strength":3', '"strength":4'), "contents.files"),
        (edited("pack.json", '"version": "', '"version": "9.'), "pack.json: version: 9."),
    ],
    ids=["code", "settings", "claim"],
)
def test_a_change_beside_the_evidence_is_named(
    pack: Path, command: Command, change: Change, named: str
) -> None:
    found = {each.name: data for each, data in members(pack)}
    change(found)
    resealed(pack, found)
    done = command("export", "verify", pack, "--json")
    assert done.code == 1
    assert any(named in each for each in json.loads(done.out)["wrong"]), done.out


@pytest.mark.parametrize("raw", [b"[]", b"5", b"", b"{", b"\xff", b'{"cells": {"99": "a"}}'])
def test_figures_of_another_kind_are_named(pack: Path, raw: bytes) -> None:
    resealed(pack, {"figures.json": raw})
    _, wrong = verify(pack)
    assert wrong and all(each.startswith("figures.json: ") for each in wrong), wrong
