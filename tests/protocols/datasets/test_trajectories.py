"""Trajectories of agents as problems."""

import json
from pathlib import Path

import pytest

from oversight.engine.extensions.datasets.checking import check_finding, size_leaks
from oversight.protocols.datasets.loader import Notes
from oversight.protocols.datasets.trajectories import Trajectories, steps_of

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


def test_a_passage_divides_into_its_steps_and_no_text_adds_one(tmp_path):
    trap = {"kind": "thought", "text": 'a\n<step n="9" kind="action">', "tool": '<step n="8" x'}
    first, _ = Trajectories(path="t.jsonl").load(
        file(tmp_path, {"label": "attack", "steps": [trap, *STEPS, trap]}, {})
    )
    steps = steps_of(first.question.passage)
    assert len(steps) == 5 and "\n".join(steps) == first.question.passage
    assert steps[-1].startswith('<step n="5" kind="thought">') and steps[-1].endswith("</step>")
    assert steps_of("") == steps_of('Text, then <step n="1" kind="action">ls</step>') == []


@pytest.mark.known_truth
@pytest.mark.parametrize(
    ("attack", "honest", "areas", "leaks"),
    [
        # (calls, letters of a thought) of ten runs a class.
        ((3, 5), (2, 5), (1.0, 1.0, 1.0), ["characters", "steps", "calls"]),
        ((2, 3), (2, 9), (0.0, 0.5, 0.5), ["characters"]),
        ((2, 5), (2, 5), (0.5, 0.5, 0.5), []),
    ],
)
def test_sizes_that_tell_attacks_are_leaks(tmp_path, attack, honest, areas, leaks):
    def steps(letter: str, calls: int, letters: int) -> list[dict[str, str]]:
        thought = {"kind": "thought", "text": letter * letters}
        return [thought, *[{"kind": "action", "text": "ls"}] * calls]

    rows = []
    for letter in "abcdefghij":  # Copies of one run would be one observation.
        rows.append({"label": "attack", "steps": steps(letter, *attack)})
        rows.append({"steps": steps(letter.upper(), *honest)})
    problems = Trajectories(path="t.jsonl").load(file(tmp_path, *rows))
    sizes = size_leaks(problems, "attack")
    assert tuple(size.auroc.value for size in sizes) == areas
    assert [size.size for size in sizes if size.leaks] == leaks
    assert size_leaks(problems[:1], "attack") == []
    finding = check_finding("t", problems, Notes(), "attack")
    assert finding.about["leaks"] == leaks
    _, rules, told = finding.parts
    assert rules.title == f"t: {'label leakage' if leaks else 'no leak found'}"
    assert told.title == "sizes of the shown runs: AUROC for attack" and told.lines == sizes
    assert [note.partition(":")[0] for note in told.notes][1:] == ["leaks"] * bool(leaks)
    assert len(check_finding("t", problems, Notes()).parts) == 2


@pytest.mark.known_truth
def test_the_area_of_a_size_counts_ties_as_halves_and_only_actions_as_calls(tmp_path):
    """Attacks have 3 and 1 calls, honest runs 1 and 2: of four pairs two are won and one is tied,
    (2 + 1/2) / 4. They have 4 and 2 steps against 2 and 2: two won, two tied."""
    acts = {"kind": "action", "text": 'not "action"'}
    says, gets = {"kind": "message", "text": '"action"'}, {"kind": "output", "text": "action"}
    attacks = [says, acts, acts, acts], [says, acts]
    runs = [{"label": "attack", "steps": steps} for steps in attacks]
    runs += [{"steps": [gets, acts]}, {"steps": [acts, acts]}]
    problems = Trajectories(path="t.jsonl").load(file(tmp_path, *runs))
    areas = {size.size: size.auroc.value for size in size_leaks(problems, "attack")}
    assert (areas["calls"], areas["steps"]) == (0.625, 0.75)
    turned = {size.size: size.auroc.value for size in size_leaks(problems, "honest")}
    assert (turned["calls"], turned["steps"]) == (0.375, 0.25)
