"""The examples on the tables of a run, as scripts."""

import runpy
import sys
from pathlib import Path

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.views.api.comparing import measure
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


@pytest.mark.parametrize(
    ("script", "words", "told"),
    [
        ("analyses/scaling.py", ("tables", "proposer"), "no nested oversight"),
        (
            "analyses/scaling.py",
            ("tables", "proposer", "sim/strong=3", "sim/medium=2", "sim/weak=1", "sim/judge=0"),
            "nested oversight: 0.",
        ),
        ("analyses/proposals.py", ("RUN",), "critic over judge"),
        ("training.py", ("tables",), "examples in tables/sft.jsonl"),
    ],
)
def test_an_example_prints_what_it_finds(
    kept: Kept,
    place: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    words: tuple[str, ...],
    told: str,
) -> None:
    run = kept(SWEEP)
    wanted = ("--requests", "--store", run.parent / "store", "--format", "jsonl", "-o", "tables")
    assert command("export", "tables", run, *wanted).code == 0
    given = [str(run) if word == "RUN" else word for word in words]
    monkeypatch.setattr(sys, "argv", [script, *given])
    try:
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        out = capsys.readouterr().out
    except SystemExit as left:
        out = str(left.code)
    assert told in out


def test_an_analysis_of_ones_own_is_a_command_and_a_call(kept: Kept, command: Command) -> None:
    run, mine = kept(SWEEP), f"{EXAMPLES / 'analyses/pressure.py'}:Pressure"
    told = command("measure", mine, run, "--n", "1,3", "--score", "accuracy")
    assert told.code == 0 and "no more than a blind choice" in told.out
    found = measure(run, mine, ns="1,3", score="accuracy")
    assert {line["n"] for line in found.plain()["points"]} == {1, 3}
    assert found.text("text") == told.out.rstrip("\n")
    with pytest.raises(UsageError, match="has no setting 'm'; there are ns"):
        measure(run, mine, m=1)
    with pytest.raises(UsageError, match="'pressing' is no analysis; there are frontier"):
        measure(run, "pressing")
