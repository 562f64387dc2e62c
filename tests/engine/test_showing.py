"""`oversight show`: worlds stand abreast where each has the room to be read."""

from pathlib import Path

import pytest

from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.question import Answer, Problem, Question
from tests.engine.conftest import Command

SWEEP = """\
problems: {{file: {count}.jsonl}}
agents: {{model: sim/strong}}
judges: sim/judge
protocols: propaganda
"""


def shown(place: Path, command: Command, count: int) -> list[str]:
    """What is printed of a problem with so many answers."""
    answers = tuple(Answer("ABCDEF"[n], f"{n}") for n in range(count))
    values = (1.0, *[-1.0] * (count - 1))
    write_jsonl([Problem("q", Question("How many?", answers), values)], place / f"{count}.jsonl")
    (place / f"{count}.yaml").write_text(SWEEP.format(count=count))
    assert command("run", f"{count}.yaml").code == 0
    ran = command("show", f"{count}.yaml")
    assert ran.code == 0
    return ran.out.splitlines()


@pytest.mark.parametrize(
    ("columns", "count", "abreast"),
    [
        (60, 2, [1, 1]),
        (80, 2, [2]),
        (80, 3, [2, 1]),
        (80, 4, [2, 2]),
        (120, 3, [2, 1]),
        (122, 3, [3]),
        (122, 4, [2, 2]),
        (170, 6, [3, 3]),
    ],
)
def test_as_many_worlds_stand_abreast_as_can_be_read(
    place: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    count: int,
    abreast: list[int],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(place, command, count)
    heads = [line.count("the agent argues (") for line in lines]
    assert [head for head in heads if head] == abreast
    assert max(map(len, lines)) <= columns
    scores = [line.count("agent score (brier)") for line in lines]
    assert [score for score in scores if score] == abreast
    places = {line.index("world ", 1) for line in lines if line.count("the agent argues (") > 1}
    assert len(places) <= 1, "worlds below one another begin in one column"
