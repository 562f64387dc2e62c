"""`examples/training.py`, on the tables of a run: imitation and preferences."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from examples.training import training
from oversight.engine.views.cli.group import oversight

SWEEP: dict[str, Any] = {
    "problems": {"bundled": {"name": "arithmetic", "limit": 4}},
    "agents": {"model": "sim/medium"},
    "judges": {"model": "sim/weak"},
    "draws": 2,
    "protocols": {"naive_judge": None, "debate": {"rounds": 1}, "propaganda": None},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    (folder / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    store = ("--store", str(folder / "store"))
    for words in (
        ("run", str(folder / "sweep.yaml"), "--run-folder", str(folder / "run"), *store),
        ("export", "tables", str(folder / "run"), "--requests", "--format", "jsonl",
         "-o", str(folder / "tables"), *store),
    ):  # fmt: skip
        ran = CliRunner().invoke(oversight, words, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
    return folder / "tables"


def lines(tables: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tables / f"{name}.jsonl").read_text().splitlines()]


def test_a_speech_is_imitated_where_the_judge_believed_it_and_is_the_agents_own(tables: Path):
    everything, _ = training(tables, least=0.0)
    believed, _ = training(tables, least=0.5)
    none, _ = training(tables, least=1.1)
    assert 0 < len(believed) < len(everything) and none == []
    calls = {turn["call"] for turn in lines(tables, "turns") if turn["side"] == turn["world"]}
    replies = {call["reply"] for call in lines(tables, "calls") if call["call"] in calls}
    assert {line["completion"][0]["content"] for line in everything} == replies
    for line in everything:
        assert [message["role"] for message in line["prompt"]] == ["system", "user"]
        assert [message["role"] for message in line["completion"]] == ["assistant"]


def test_of_two_draws_the_better_believed_is_preferred(tmp_path: Path):
    worlds = [{"row": 0, "problem": "apples", "world": "A", "draw": draw} for draw in range(3)]
    beliefs, replies = (0.4, 0.9, 0.6), ("weak", "strong", "middling")
    request = [1, {"messages": [{"role": "user", "text": "Argue."}], "response_format": None}]
    sound = {"side": "A", "cut": False, "spoofed_tags": 0, "tools": None}
    for name, rows in {
        "cells": [
            {**world, "status": "ok", "p_side": p} for world, p in zip(worlds, beliefs, strict=True)
        ],
        "turns": [
            {**world, **sound, "call": reply} for world, reply in zip(worlds, replies, strict=True)
        ],
        "calls": [
            {"call": reply, "reply_outcome": "ok", "request": request, "reply": reply}
            for reply in replies
        ],
    }.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sft, (pair,) = training(tmp_path)
    assert [line["completion"][0]["content"] for line in sft] == ["strong", "middling"]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("strong", "weak")
    assert pair["prompt"] == [{"role": "user", "content": "Argue."}]
    assert training(tmp_path, apart=0.51)[1] == []


def test_no_true_value_is_among_what_is_learned(tables: Path, tmp_path: Path):
    """Turned values change who argues for the best answer, and nothing that is written."""
    for name in ("calls", "turns"):
        (tmp_path / f"{name}.jsonl").write_text((tables / f"{name}.jsonl").read_text())
    turned = [{**cell, "value": -cell["value"]} for cell in lines(tables, "cells")]
    (tmp_path / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in turned))
    assert training(tmp_path) == training(tables)


@pytest.mark.parametrize("fault", ["cut", "spoofed_tags", "tools"])
def test_faulty_turns_are_left_out(tables: Path, tmp_path: Path, fault: str):
    for name in ("calls", "cells"):
        (tmp_path / f"{name}.jsonl").write_text((tables / f"{name}.jsonl").read_text())
    spoiled = [{**turn, fault: 1} for turn in lines(tables, "turns")]
    (tmp_path / "turns.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in spoiled))
    assert training(tmp_path, least=0.0) == ([], [])
