"""What files are read as, and what is refused in them, by every loader: `loaded.md`; problems in
our own format: read, refused with reasons, written and read again.
"""

import csv
import io
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pyarrow import feather, parquet
from pydantic import BaseModel, ConfigDict, FiniteFloat

from oversight.engine.extensions.datasets.writing import known_questions
from oversight.protocols import (
    BoolQ,
    Gpqa,
    JsonLines,
    LogiQa,
    Mmlu,
    MmluPro,
    Problem,
    ProntoQa,
    Quality,
    Solib,
    SuperGpqa,
    TruthfulQa,
)
from oversight.protocols.datasets.jsonl import problems, write_jsonl
from oversight.protocols.datasets.loader import FileLoader
from oversight.protocols.datasets.rows import json_rows, read_bytes, regular
from oversight.protocols.datasets.tabular import csv_records
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import LARGEST, Answer, Question, balanced
from tests.protocols.datasets.published import best, texts
from tests.sessions import sessions
from tests.tables import expressions

FILE = Path(__file__).with_name("loaded.md")
GIVEN = json.loads(Path(__file__).with_name("rows.json").read_text())
"""Rows of each format, by name."""
ROWS, ANSWERS = GIVEN["ROWS"], GIVEN["ANSWERS"]
STORY = {"article_id": "7", "article": "A child lit the lamp.", "questions": [ROWS["ASKED"]]}


class Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    size: FiniteFloat = 0.0


def shown(problems: tuple[Problem, ...]) -> list[str]:
    """Each in a line; the right answer first, whatever its label."""
    lines = []
    for each in problems:
        said = [f"{a.text} ({a.work})" if a.work else a.text for a in each.question.answers]
        right = said.pop(each.best)
        group = f" of {each.group}" if each.group else ""
        passage = f" {each.question.passage!r}" if each.question.passage else ""
        asked = f"{each.id}{group}:{passage} {each.question.text!r}"
        lines.append(f"{asked} {right!r}, not {', '.join(map(repr, sorted(said)))}")
    return lines


def load(kind: type[FileLoader], *rows: Mapping[str, object], **settings: object) -> list[str]:
    """Of a file of JSON Lines."""
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return shown(kind("rows.jsonl", **settings).load())


def array(kind: type[FileLoader], *rows: Mapping[str, object], **settings: object) -> list[str]:
    Path("rows.json").write_text(json.dumps(rows, indent=1))
    return shown(kind("rows.json", **settings).load())


def table(kind: type[FileLoader], *records: list[str], **settings: object) -> list[str]:
    out = io.StringIO()
    csv.writer(out).writerows(records)
    Path("rows.csv").write_bytes(b"\xef\xbb\xbf" + out.getvalue().encode())
    return shown(kind("rows.csv", **settings).load())


def mapped(name: str, columns: Mapping[str, object], *rows: Mapping[str, object]) -> list[str]:
    """Of a table in the form that the name's ending says, read by the names of its columns."""
    table = pyarrow.Table.from_pylist(list(rows))
    match Path(name).suffix:
        case ".parquet":
            parquet.write_table(table, name)
        case ".arrow":
            with (
                pyarrow.OSFile(name, "wb") as file,
                pyarrow.ipc.new_stream(file, table.schema) as to,
            ):
                to.write_table(table)
        case ".feather":
            feather.write_feather(table, name)
        case ".tsv":
            lines = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
            Path(name).write_text("".join("\t".join(line) + "\n" for line in lines))
    return shown(JsonLines(name, columns=columns).load())


def arrow(kind: type[FileLoader], *rows: Mapping[str, object], **settings: object) -> list[str]:
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), "rows.parquet")
    return shown(kind("rows.parquet", **settings).load())


def nested(*rows: Mapping[str, object], **settings: object) -> list[str]:
    """Of a file as PrOntoQA's own program writes it."""
    shots = {"question": "Every zumpus is shy.", "query": "Q", "answer": "False"}
    told = {
        f"example{n}": {"in_context_example0": shots, "test_example": row}
        for n, row in enumerate(rows, 1)
    }
    Path("rows.json").write_text(json.dumps(told, indent=2))
    return shown(ProntoQa("rows.json", **settings).load())


def known(*rows: Mapping[str, object]) -> list[str]:
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [repr(each) for each in known_questions(Path("rows.jsonl"))]


def without(row: Mapping[str, object], *keys: str) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in keys}


NAMES = {
    **ROWS,
    **{each.__name__: each for each in (load, array, table, nested, known, without, mapped, arrow)},
    **{each.__name__: each for each in (JsonLines, Mmlu, MmluPro, SuperGpqa, LogiQa, Gpqa)},
    **{each.__name__: each for each in (TruthfulQa, Quality, BoolQ)},
    **{"ProntoQa": ProntoQa, "Solib": Solib, "STORY": STORY, **GIVEN},
    **dict(zip(("YES", "NO"), ANSWERS, strict=True)),
    "rows": lambda data: [f"{n} {row.name}" for n, row in json_rows("d.jsonl", data, Line)],
    "records": lambda data: [f"{n} {row}" for n, row in csv_records("d.csv", data)],
}


@sessions(FILE)
def test_a_file_is_read_as_it_says_or_refused_with_the_line(
    session, request, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    session.check(request, expressions(NAMES))


def test_rows_are_read_as_they_are_asked_for():
    first = next(iter(json_rows("d.jsonl", b'{"name": "a"}\nnot json\n', Line)))
    assert first[1].name == "a"


def test_what_is_no_file_is_refused_by_its_kind_and_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    kinds = {"/dev/zero": "a device", "pipe": "a pipe", "socket": "a socket", ".": "a folder"}
    for name, kind in kinds.items():
        for read in (read_bytes, regular):
            with pytest.raises(DatasetError, match=f"is {kind}; name a file with the rows"):
                read(tmp_path / name)
    with pytest.raises(DatasetError, match="no such file"):
        read_bytes(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Quality, STORY),
        (BoolQ, ROWS["LAMP"]),
        (ProntoQa, ROWS["WUMPUS"]),
        (Mmlu, ROWS["TOOLS"]),
        (Solib, ROWS["JARS"]),
    ],
    ids=str,
)
def test_labels_are_half_and_half_drawn_by_seed(tmp_path, kind, row):
    path = str(tmp_path / "rows.jsonl")
    Path(path).write_text(f"{json.dumps(row)}\n" * 60)
    first, again, other = (kind(path, seed=seed).load() for seed in (0, 0, 1))
    assert first == again
    assert [problem.best for problem in first] != [problem.best for problem in other]
    # Half and half, of each two in turn.
    assert [a.best + b.best for a, b in batched_pairs(first)] == [1] * 30
    assert kind(path, limit=10).load() == first[:10]
    shuffled = kind(path, shuffle=True).load()
    assert [each.id for each in shuffled] != [each.id for each in first]
    assert {each.id for each in shuffled} == {each.id for each in first}
    assert sum(each.best for each in shuffled) == 30


def batched_pairs(problems: tuple[Problem, ...]) -> list[tuple[Problem, Problem]]:
    return list(zip(problems[::2], problems[1::2], strict=True))


def test_of_answers_that_are_equally_good_one_is_drawn(tmp_path):
    """Of distractors that as many found best, of all where nobody was asked, and of right answers
    that say something."""
    asked, path = ROWS["ASKED"], tmp_path / "rows.jsonl"
    tied = asked | {"validation": [{"untimed_best_distractor": n} for n in (1, 4)]}
    for row, expected in (
        (tied, {"The cook", "Nobody"}),
        (without(asked, "validation"), {"The cook", "The pilot", "Nobody"}),
    ):
        path.write_text(json.dumps(STORY | {"questions": [row] * 40}))
        problems = Quality(str(path)).load()
        assert problems == Quality(str(path)).load()
        assert set().union(*map(texts, problems)) == expected | {"A child"}
    path.write_text(json.dumps(ROWS["SKY"]))
    drawn = {best(TruthfulQa(str(path), seed=seed).load()[0]) for seed in range(20)}
    assert drawn == {"Blue", "It is blue"}


def test_bad_rows_are_skipped_and_counted_and_others_keep_their_names(tmp_path, caplog):
    jars = ROWS["JARS"]
    bad = [jars | {"answer_incorrect": {"numeric": each}} for each in ("36.0", "many")]
    (tmp_path / "a.json").write_text(json.dumps([jars, *bad, jars]))
    loader = Solib("a.json", on_bad_row="skip")
    assert [problem.id for problem in loader.load(tmp_path)] == ["solib-1", "solib-4"]
    assert len(loader.skipped(tmp_path)) == 2 and Solib("a.json").skipped(tmp_path) == ()
    assert "a.json: 2 of 4 rows are skipped" in caplog.text


YES = {"label": "A", "text": "yes", "value": 1}
NO = {"label": "B", "text": "no", "value": -1}


def row(**changed):
    return {"id": "moon", "question": "Is it round?", "answers": [YES, NO]} | changed


def load_lines(*rows, **settings):
    return tuple(problems("d.jsonl", "\n".join(map(json.dumps, rows)).encode(), **settings))


def test_a_row_becomes_a_problem_with_the_labels_that_it_has():
    answers = [NO | {"label": "wrong", "work": "It is flat."}, YES | {"label": "right"}]
    (problem,) = load_lines(row(answers=answers, passage="The moon …", group="sky"))
    assert problem == Problem(
        "moon",
        Question(
            "Is it round?",
            (Answer("wrong", "no", "It is flat."), Answer("right", "yes")),
            "The moon …",
        ),
        (-1, 1),
        "sky",
    )
    assert problem.best == 1


def test_relabelling_is_seeded_and_keeps_texts_and_values_together():
    rows = [row(id=f"moon-{n}") for n in range(40)]
    found = load_lines(*rows, relabel=True)
    by_seed = {seed: tuple(balanced(found, seed)) for seed in (0, 0, 1)}
    assert tuple(balanced(found)) == by_seed[0] != by_seed[1]
    assert sum(problem.best for problem in by_seed[0]) == 20
    for problem in by_seed[1]:
        assert [answer.label for answer in problem.question.answers] == ["A", "B"]
        assert problem.question.answers[problem.best].text == "yes"


def test_answers_without_labels_are_labelled_as_if_asked_to():
    bare = [{"text": "yes", "value": 1}, {"text": "no", "value": -1}]
    assert load_lines(row(answers=bare)) == load_lines(row(), relabel=True)
    assert tuple(balanced(load_lines(row()))) == load_lines(row())


def test_a_higher_limit_keeps_the_problems_of_a_lower_one(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(json.dumps(row(id=f"moon-{n}")) for n in range(50)))
    for shuffle in (False, True):
        some = JsonLines("d.jsonl", limit=7, shuffle=shuffle).load(tmp_path)
        more = JsonLines("d.jsonl", limit=20, shuffle=shuffle).load(tmp_path)
        assert more[:7] == some
        assert len(more) == len(set(problem.id for problem in more)) == 20
    assert some != JsonLines("d.jsonl", limit=7, shuffle=True, seed=1).load(tmp_path)


def test_a_limit_stops_before_rows_that_it_does_not_need(tmp_path):
    (tmp_path / "d.jsonl").write_text(json.dumps(row()) + "\nnot json")
    assert len(JsonLines("d.jsonl", limit=1).load(tmp_path)) == 1
    with pytest.raises(DatasetError, match=r"d\.jsonl:2"):
        JsonLines("d.jsonl").load(tmp_path)


words = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
grades = st.lists(st.floats(-LARGEST, LARGEST), min_size=2, max_size=5, unique=True)


@given(text=words, work=st.text(st.characters(codec="utf-8")), values=grades)
def test_what_is_written_is_read_back_the_same(tmp_path_factory, text, work, values):
    path = tmp_path_factory.mktemp("written") / "d.jsonl"
    answers = tuple(Answer(f"L{n}", f"{text} {n}a", work) for n in range(len(values)))
    whole = Problem("moon", Question(text, answers, work), tuple(values), "sky")
    spare = replace(whole, id="sun", question=Question(text, answers), group="")
    write_jsonl([whole, spare], path)
    assert JsonLines(str(path)).load() == (whole, spare)


def test_nothing_is_written_that_could_not_be_read_back(tmp_path):
    (problem,) = load_lines(row())
    path = tmp_path / "d.jsonl"
    lone = replace(problem, id="lone", question=replace(problem.question, text="a\ud800"))
    for wrong in (problem, replace(problem, id=""), lone):
        with pytest.raises(DatasetError, match=r"d\.jsonl:2"):
            write_jsonl([problem, wrong], path)
        assert not path.exists()
