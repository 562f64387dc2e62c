"""Prompt sets as sweep files name them, and what `oversight plan --prompts` prints."""

from pathlib import Path

import orjson
import pytest

from oversight.engine.analysis.rows import against_naive
from oversight.engine.run.loaded_sweep import open_run
from oversight.engine.run.manifest import read_manifest
from oversight.engine.sweep.grid import baselines
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols.prompts.prompt_set import default_prompts
from tests.command_line import within
from tests.engine.sweep_files import sweep
from tools.prompt_page import prompt_page

PAGE = Path(__file__).parents[4] / "docs" / "prompts.md"
GRID = """\
agents: sim/strong
judges: sim/judge
protocols: [naive_judge, debate]
"""
MINE = """\
# The words of our own study.
debate:
  judge: You are the judge, and you are in no hurry.
"""


def test_the_default_set_is_no_setting_of_a_row():
    assert sweep(GRID).identity == sweep(GRID + "prompts: default\n").identity
    assert all(row.protocol.prompts is None for row in sweep(GRID).rows)


def test_one_block_may_be_changed_alone_and_reaches_the_protocols_that_read_it():
    grid = sweep(GRID, "prompts.debate.judge=Judge well.")
    naive, debate = (row.protocol for row in grid.rows)
    assert naive.prompts is None
    assert debate.words.text("debate.judge") == "Judge well."
    assert debate.words.text("debate.rules") == default_prompts().text("debate.rules")


def test_sets_are_an_axis_and_rows_tell_them_apart(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "s.yaml").write_text(
        GRID + "problems: {bundled: arithmetic}\nprompts: [default, mine.yaml]\n"
    )
    grid = read_sweep_file(tmp_path / "s.yaml").sweep({})
    assert [row.kind for row in grid.rows] == [
        "naive judge",
        "debate simultaneous 2",
        "debate simultaneous 2 prompts mine",
    ]
    assert len(grid.prompts) == 12 and grid.prompts != sweep(GRID).prompts


def test_a_run_keeps_its_words_when_their_file_has_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "s.yaml").write_text(
        GRID + "problems: {bundled: {name: arithmetic, limit: 2}}\nprompts: mine.yaml\n"
    )
    assert within("run", "s.yaml", cwd=tmp_path).code == 0
    (run,) = (tmp_path / "runs").iterdir()
    manifest = read_manifest(run)
    assert manifest.prompt_sets == {
        "mine.yaml": {"debate.judge": "You are the judge, and you are in no hurry."}
    }
    (tmp_path / "mine.yaml").unlink()
    told = orjson.loads(within("report", str(run), "--json", cwd=tmp_path).out)
    assert told["prompts"] == manifest.prompts
    again = open_run(run).sweep
    assert (again.identity, again.prompts) == (manifest.identity, manifest.prompts)


def test_what_every_seat_reads_can_be_looked_at(tmp_path):
    (tmp_path / "s.yaml").write_text(GRID + "problems: {bundled: arithmetic}\n")
    said = within("plan", "--prompts", "s.yaml", "--protocol", "debate", cwd=tmp_path)
    assert said.code == 0
    for part in ("· speak A · sim/strong", "· speak B ·", "· percentages · sim/judge"):
        assert part in said.out
    assert "You are Debater A, and you have been assigned" in said.out
    told = orjson.loads(within("plan", "--prompts", "s.yaml", "--json", cwd=tmp_path).out)
    assert [seat["protocol"] for seat in told["seats"]] == ["naive judge"] + [
        "debate simultaneous 2"
    ] * 3
    assert told["prompts"] == sweep(GRID).prompts


@pytest.mark.usefixtures("our_prompts")
def test_the_page_of_prompts_is_what_seats_read_now():
    assert PAGE.read_text() == prompt_page(), "run: make docs"


def test_rows_of_every_prompt_set_have_one_naive_judge(tmp_path):
    """Of three sets the naive judge has two rows: one changes nothing that it reads."""
    (tmp_path / "s.yaml").write_text(
        GRID
        + "problems: {bundled: arithmetic}\nprompts:\n- default\n- {debate: {judge: Judge well.}}\n"
        "- {naive_judge: {judge: Judge it.}}\n"
    )
    rows = read_sweep_file(tmp_path / "s.yaml").sweep({}).rows
    kinds = [row.mechanism for row in rows]
    assert kinds.count("naive judge") == kinds.count("debate") == 2
    first = kinds.index("naive judge")
    found = baselines(rows)
    assert {found[n] for n, each in enumerate(kinds) if each == "debate"} == {first}
    assert all(found[n] == n for n, each in enumerate(kinds) if each == "naive judge")
    assert dict(against_naive(rows)) == {
        n: first for n, each in enumerate(kinds) if each == "debate"
    }
