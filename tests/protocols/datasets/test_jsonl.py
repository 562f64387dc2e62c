"""Problems in our own format: read, refused with reasons, written and read again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oversight.protocols.datasets.file import JsonLines
from oversight.protocols.datasets.jsonl import problems, write_jsonl
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import LARGEST, Answer, Problem, Question, balanced

YES = {"label": "A", "text": "yes", "value": 1}
NO = {"label": "B", "text": "no", "value": -1}


def row(**changed):
    return {"id": "moon", "question": "Is it round?", "answers": [YES, NO]} | changed


def load(*rows, **settings):
    return tuple(problems("d.jsonl", "\n".join(map(json.dumps, rows)).encode(), **settings))


def test_a_row_becomes_a_problem_with_the_labels_that_it_has():
    answers = [NO | {"label": "wrong", "work": "It is flat."}, YES | {"label": "right"}]
    (problem,) = load(row(answers=answers, passage="The moon …", group="sky"))
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
    found = load(*rows, relabel=True)
    by_seed = {seed: tuple(balanced(found, seed)) for seed in (0, 0, 1)}
    assert tuple(balanced(found)) == by_seed[0] != by_seed[1]
    assert sum(problem.best for problem in by_seed[0]) == 20
    for problem in by_seed[1]:
        assert [answer.label for answer in problem.question.answers] == ["A", "B"]
        assert problem.question.answers[problem.best].text == "yes"


def test_answers_without_labels_are_labelled_as_if_asked_to():
    bare = [{"text": "yes", "value": 1}, {"text": "no", "value": -1}]
    assert load(row(answers=bare)) == load(row(), relabel=True)
    assert tuple(balanced(load(row()))) == load(row())


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
    (problem,) = load(row())
    path = tmp_path / "d.jsonl"
    lone = replace(problem, id="lone", question=replace(problem.question, text="a\ud800"))
    for wrong in (problem, replace(problem, id=""), lone):
        with pytest.raises(DatasetError, match=r"d\.jsonl:2"):
            write_jsonl([problem, wrong], path)
        assert not path.exists()
