"""`oversight try` finds authors' mistakes, with their lines."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from oversight.engine.extensions.planning.trial import tried
from oversight.engine.run.record.values import turns_of
from oversight.engine.views.cli.group import oversight
from tests import virtual
from tests.command_line import ROOT

HEAD = """\
import asyncio, itertools, random, subprocess, time, uuid
from dataclasses import dataclass
from msgspec.structs import replace
from datetime import datetime
from pathlib import Path
from oversight.protocols import *
from oversight.protocols.datasets.loader import Loader

SAYS = Words("Argue for ({label}).")
ADVOCATE = RolePrompt("Advocate", Words("Two advocates."), SAYS)
SEEN, NUMBERS = [], itertools.count()

"""

PROTOCOL = (
    HEAD
    + """\
@dataclass(frozen=True)
class Mine(Conversation):
    agent: Speaker
    rounds: int = 1

    async def converse(self, transcript, side, ask):
        for _ in range(self.rounds):
            turn = await Seat(self.agent, side, ADVOCATE).speak(transcript, ask)
            transcript = transcript.then(turn)
        return transcript
"""
)

MISTAKES = {
    title: (code, words)
    for title, words, code in re.findall(
        r"#### (.*?) \| (.*?)\n(.*?)\n(?=####|\Z)",
        Path(__file__).with_name("mistakes.txt").read_text(),
        re.DOTALL,
    )
}
"""Authors' code by fault, with words of the message; the wrong line ends with its check."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_line(mistake, tmp_path, monkeypatch):
    monkeypatch.setattr(asyncio, "run", virtual.run)
    code, words = MISTAKES[mistake]
    code = code if "SAYS = " in code else HEAD + code
    file = tmp_path / "mine.py"
    file.write_text(code)
    (line,) = [n for n, text in enumerate(code.splitlines(), 1) if "  # " in text]
    check = code.splitlines()[line - 1].rpartition("  # ")[2]
    mistakes = tried(f"{file}:Mine").mistakes
    assert (line, check) in {(m.line, m.check) for m in mistakes}, mistakes
    assert any(m.line == line and words in m.message for m in mistakes), mistakes
    assert {m.line for m in mistakes} == {line}, "nothing else is wrong with it"


@pytest.mark.parametrize("name", ["Steelman", "OneWord", "Terse", "Finder", "Sums"])
def test_examples_in_the_documents_have_no_faults(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, text = name.lower(), (ROOT / "docs" / "extending.md").read_text()
    (code,) = re.findall(rf"```python\n(# {page}\.py\n.*?)```", text, re.DOTALL)
    (tmp_path / f"{page}.py").write_text(code)
    more = ["--set", "highest=9"] if name == "Sums" else []
    ran = CliRunner().invoke(oversight, ["try", f"{page}.py:{name}", *more])
    assert (ran.exit_code, "no problems found" in ran.stdout) == (0, True), ran.output


def test_problems_of_ones_own_take_the_place_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PROTOCOL)
    Path("mine.csv").write_text("id,question,answer,wrong\none,1 + 1?,2,3\ntwo,1 + 2?,3,4\n")
    result = tried("mine.py:Mine", ["problems.file=mine.csv"])
    assert result.trial is not None
    assert {world.cell.problem.id for world in result.trial.worlds} == {"one"}


def test_several_causes_are_reported_together_and_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        PROTOCOL.replace("({label})", "({lable})").replace("    rounds", "    heat = 2\n    rounds")
    )
    ran = CliRunner().invoke(oversight, ["try", "mine.py:Mine", "--json", "--set", "rounds=2"])
    report = json.loads(ran.stdout)
    assert ran.exit_code == 1
    assert {mistake["check"] for mistake in report["mistakes"]} == {"filled", "identity"}
    assert report["protocol"] == "mine" and len(report["worlds"]["A"]["turns"]) == 2
    unknown = CliRunner().invoke(oversight, ["try", "mine.py:Mime"])
    assert "mine.py: unknown class 'Mime': did you mean 'Mine'?" in str(unknown.exception)


def test_reply_that_a_judge_cannot_read_is_shown_as_unreadable(tmp_path, monkeypatch):
    monkeypatch.setattr(asyncio, "run", virtual.run)
    title = "a judge that can read nothing that is said to it"
    file = tmp_path / "mine.py"
    file.write_text(HEAD + MISTAKES[title][0])
    worlds = tried(f"{file}:Mine").trial.worlds
    assert worlds
    for world in worlds:
        end, calls = world.shown.outcome, world.shown.calls
        assert (end.kind, end.message) == ("unreadable", "no grade")
        (speech,) = turns_of(end, calls, world.cell.problem.question)
        assert speech.side.label == "AB"[world.cell.side] and speech.text
