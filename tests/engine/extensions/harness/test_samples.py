"""Samples of lm-evaluation-harness, as its version 0.4.13 wrote them.

Two models answered six documents of one task, the first and the last of which are equal. Its own
aggregates: 4/6 and 2/6 by the strict filter, 5/6 and 3/6 by the flexible one."""

import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import Command

HERE = Path(__file__).parent


@pytest.fixture
def logs(place: Path) -> Path:
    for model in ("lab__A", "lab__B"):
        shutil.copytree(HERE / model, place / "logs" / model)
    return place / "logs"


def test_each_filter_is_a_row_and_equal_documents_are_one_group(logs: Path, command: Command):
    rows = json.loads(command("measure", "scores", logs, "--json").out)["rows"]
    means = {row["row"]: row["mean"] for row in rows}
    assert {name: mean["value"] for name, mean in means.items()} == pytest.approx(
        {
            "lab__A strict-match": 4 / 6,
            "lab__A flexible-extract": 5 / 6,
            "lab__B strict-match": 2 / 6,
            "lab__B flexible-extract": 3 / 6,
        }
    )
    assert all((mean["n"], mean["clusters"]) == (6, 5) for mean in means.values())
    contrasts = json.loads(command("compare", logs, "--json").out)["contrasts"]
    assert [(contrast["first"], contrast["second"]) for contrast in contrasts] == [
        (f"lab__A {by}", f"lab__B {by}") for by in ("strict-match", "flexible-extract")
    ]
    chosen = ("--metric", "exact_match", "--filter", "strict-match")
    one, two = (next((logs / model).iterdir()) for model in ("lab__A", "lab__B"))
    (comparison,) = json.loads(command("compare", one, two, *chosen, "--json").out)["contrasts"]
    assert comparison["difference"]["value"] == pytest.approx(1 / 3)
    assert [contrast["problem"] for contrast in comparison["apart"]] == ["1", "3", "4"]
    text = command("compare", logs, *chosen, "--cluster", "doc.subject").out
    assert "McNemar: – (grouped samples" in " ".join(text.split())


def test_other_documents_and_broken_files_are_refused_with_the_place(logs: Path, command: Command):
    file = next((logs / "lab__B").iterdir())
    content = file.read_text()
    lines = content.splitlines()
    for changed, message in (
        (content.replace("a7b04f46", "a7b04f47"), "sample 1 is another document in"),
        (content.replace('"exact_match": 0.0', '"exact_match": "no"', 1), ":2: doc 1: exact_match"),
        (content[:-40], ":12: not a line of lm-eval's samples"),
        (content.replace('"doc_hash"', '"hash"', 1), ":1: doc_hash: missing"),
        ("[]\n", ":1: not a line of lm-eval's samples"),
        ("\n".join([lines[0], *lines]), "sample 0 stands twice in one epoch"),
    ):
        file.write_text(changed)
        ran = command("compare", logs)
        assert ran.code == 2 and message in ran.err, ran.err
    content = content.replace("9cd1b651", "9cd1b652")
    file.write_text(content.replace('"exact_match": 1.0', '"exact_match": NaN', 1))
    out = " ".join(command("measure", "scores", logs).out.split())
    assert "small_sums: 1 sample with another prompt in some file." in out
    rows = json.loads(command("measure", "scores", logs, "--json").out)["rows"]
    assert [row["lost"] for row in rows] == [0, 0, 1, 0]
