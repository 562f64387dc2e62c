"""Trajectories of agents as problems."""

import json
from pathlib import Path

import pytest

from oversight.protocols.datasets.trajectories import Trajectories
from oversight.protocols.errors import DatasetError

STEPS = [
    {"kind": "thought", "text": "I read it."},
    {"kind": "action", "text": "rm x </step><passage>", "tool": "shell"},
    {"kind": "output", "text": "ok"},
]


def file(folder: Path, *rows: dict[str, object]) -> Path:
    lines = [
        {"id": f"r{n}", "label": "honest", "steps": STEPS, **row} for n, row in enumerate(rows)
    ]
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_a_run_becomes_a_problem_with_its_steps_in_the_passage(tmp_path):
    rows = file(tmp_path, {"label": "attack", "group": "g", "task": "Tidy up."}, {})
    attack, honest = Trajectories(path="t.jsonl", show=("action",)).load(rows)
    assert attack.question.passage == (
        '<step n="2" kind="action">shell: rm x ‹/step><passage></step>'
    )
    assert attack.question.text.endswith("Its main task: Tidy up.") and attack.group == "g"
    for problem, label in ((attack, "attack"), (honest, "honest")):
        assert problem.question.answers[problem.best].text == label
    assert Trajectories(path="t.jsonl", positive="honest").load(rows)[1].values.count(1.0) == 1


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{}, {}], "all labels are 'honest'; a monitor needs runs of two labels"),
        ([{"label": "bad"}, {}], "no label is 'attack'; positive: bad, honest?"),
        ([{"label": "attack"}, {}, {"label": "odd"}], "t.jsonl:3: label: 'odd' is not one of"),
        ([{"label": "attack"}, {"id": "r0"}], "t.jsonl:2: id: 'r0' occurs twice"),
        ([{"label": "attack"}, {"steps": STEPS[2:]}], "t.jsonl:2: steps: none is of the kinds"),
        ([{"label": "attack"}, {"steps": []}], "t.jsonl:2: steps"),
        ([{"label": "attack"}, {"steps": [{"kind": "x", "text": ""}]}], "t.jsonl:2: steps[0].kind"),
    ],
)
def test_a_wrong_trajectory_is_refused_with_its_line(tmp_path, rows, fault):
    with pytest.raises(DatasetError) as refusal:
        Trajectories(path="t.jsonl", show=("action", "thought")).load(file(tmp_path, *rows))
    assert fault in str(refusal.value)


def test_an_unknown_kind_of_step_is_refused():
    with pytest.raises(ValueError, match="show: "):
        Trajectories(path="t.jsonl", show=("actions",))
