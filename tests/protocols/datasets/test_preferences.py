"""Tables with labels of comparisons, and tables with images."""

import json
from pathlib import Path

import pytest

from oversight.protocols import JsonLines, Problem
from oversight.protocols.datasets.loader import Notes
from oversight.protocols.errors import DatasetError

COLUMNS = {"question": "q", "choices": ["one", "two"], "answer": "label"}


def read(folder: Path, *rows: dict[str, object], **settings) -> tuple[list[Problem], Notes]:
    common = {"one": "first", "two": "second"}
    lines = [{"q": f"Which? {n}", **common, **row} for n, row in enumerate(rows)]
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    problems, notes = JsonLines(path="t.jsonl", columns=COLUMNS, **settings).read(folder)
    return list(problems), notes


@pytest.mark.parametrize(
    ("label", "best"),
    [
        *(("A>B", "first"), ("B>A", "second"), ("A<B", "second"), ("B<A", "first")),
        *(("[[A>>B]]", "first"), (" A < B ", "second"), ("A", "first")),
    ],
)
def test_a_comparison_names_the_better_answer(tmp_path, label, best):
    ((problem,), _) = read(tmp_path, {"label": label})
    assert problem.question.answers[problem.best].text == best


def test_a_tie_is_left_out_and_counted(tmp_path):
    problems, notes = read(tmp_path, {"label": "A>B"}, {"label": "A=B"})
    assert len(problems) == 1
    assert [*notes.lines()] == [
        f"ties, 1 × ({tmp_path / 't.jsonl'}:2): no answer is better, so the row was left out"
    ]


@pytest.mark.parametrize("label", ["A>C", "A<>B", "AB", ">", "A>A"])
def test_other_labels_are_refused(tmp_path, label):
    with pytest.raises(DatasetError, match="is none of the 2 choices"):
        read(tmp_path, {"label": label})


IMAGES = [{"bytes": "x", "path": None}, [{"bytes": None, "path": "a.png"}]]


@pytest.mark.parametrize("image", IMAGES)
def test_a_column_of_images_is_refused_unless_ignored(tmp_path, image):
    with pytest.raises(DatasetError, match="image_1 holds images, which no role can read yet"):
        read(tmp_path, {"label": "A", "image_1": None}, {"label": "B", "image_1": image})
    problems, _ = read(tmp_path, {"label": "A", "image_1": image}, images="ignore")
    assert len(problems) == 1
