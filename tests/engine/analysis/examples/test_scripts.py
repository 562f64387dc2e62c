"""The examples on the tables of a run, as scripts."""

import runpy
import sys
from pathlib import Path

import pytest

from oversight import UsageError, measure
from tests.command_line import Command
from tests.engine.kept_runs import Kept

EXAMPLES = Path(__file__).parents[4] / "examples"

SWEEP = """\
name: proposed
draws: 2
problems: {bundled: {name: arithmetic, limit: 6, proposals: true}}
agents: {model: [sim/strong, sim/medium, sim/weak]}
judges: [sim/judge, sim/weak, sim/medium]
protocols: [naive_judge, proposer_critic]
"""


@pytest.mark.wire
def test_a_script_prints_what_it_wrote(runs, place, command, monkeypatch, capsys):
    options = ("--requests", "--store", runs(SWEEP).parent / "store", "--format", "jsonl")
    assert command("export", "tables", runs(SWEEP), *options, "-o", "tables").code == 0
    monkeypatch.setattr(sys, "argv", ["training.py", "tables"])
    runpy.run_path(str(EXAMPLES / "training.py"), run_name="__main__")
    assert "examples in tables/sft.jsonl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("analysis", "words", "text"),
    [
        ("pressure.py:Pressure", (), "no more than a blind choice"),
        ("scaling.py:Scaling", ("--protocol", "proposer"), "no nested oversight"),
        (
            "scaling.py:Scaling",
            [
                *("--protocol", "proposer", "--at", "sim/strong=3", "--at", "sim/medium=2"),
                *("--at", "sim/weak=1", "--at", "sim/judge=0"),
            ],
            "nested oversight: 0.",
        ),
    ],
)
@pytest.mark.wire
def test_an_example_prints_what_it_finds(runs, command, analysis, words, text):
    ran = command("measure", f"{EXAMPLES / 'analyses'}/{analysis}", runs(SWEEP), *words)
    assert ran.code == 0 and text in ran.out


def test_an_analysis_of_ones_own_is_a_command_and_a_call(runs: Kept, command: Command) -> None:
    run, mine = runs(SWEEP), f"{EXAMPLES / 'analyses/pressure.py'}:Pressure"
    ran = command("measure", mine, run, "--n", "1,3", "--score", "accuracy")
    assert ran.code == 0 and "no more than a blind choice" in ran.out
    finding = measure(run, mine, ns="1,3", score="accuracy")
    assert {line["n"] for line in finding.plain()["points"]} == {1, 3}
    assert finding.text("text") == ran.out.rstrip("\n")
    with pytest.raises(UsageError, match="unknown setting 'm': choose from ns"):
        measure(run, mine, m=1)
    with pytest.raises(UsageError, match="unknown analysis 'pressing': "):
        measure(run, "pressing")
