"""SOlib's JSON: two numbers with proofs, in an array or in lines."""

import json
import re

import pytest

from oversight.protocols.datasets.solib import Solib
from oversight.protocols.errors import DatasetError
from tests.protocols.datasets.reading import refused

ROW = {
    "question": "A crate holds 12 jars. How many jars do 3 crates hold?",
    "answer_correct": {"numeric": "36", "proof": "It is 3 * 12 = <<3*12=36>>36 jars"},
    "answer_incorrect": {"numeric": 15.0, "proof": "It is 3+12=$15.0 jars.\n#### 15.0"},
    "source": "our own",
}


def test_an_array_and_lines_give_the_same_problems_in_one_format(tmp_path):
    rows = [ROW, ROW | {"question": "And with lids?"}]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))
    problems = Solib("a.json").load(tmp_path)
    assert problems == Solib("b.jsonl").load(tmp_path)
    assert [problem.id for problem in problems] == ["solib-1", "solib-2"]
    works = {answer.text: answer.work for answer in problems[0].question.answers}
    assert works == {
        "36": "It is 3 * 12 = 36 jars.\nThe answer is 36.",
        "15": "It is 3 + 12 = 15 jars.\nThe answer is 15.",
    }
    assert problems[0].question.answers[problems[0].best].text == "36"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"answer_incorrect": {"numeric": "36.0"}}, "both answers are 36"),
        ({"answer_incorrect": {"numeric": "many"}}, "answer_incorrect.numeric: 'many' is not a"),
        ({"answer_incorrect": {"proof": "none"}}, "answer_incorrect.numeric: missing"),
        ({"answer_incorrect": {"numeric": True}}, "answer_incorrect.numeric"),
        ({"answer_incorrect": {"numeric": 10**40}}, "is not a number such as"),
        ({"question": " "}, "question: ' ' has no text"),
    ],
)
def test_a_row_that_is_wrong_is_refused_with_its_line(tmp_path, changed, words):
    (tmp_path / "a.json").write_text(f"[{json.dumps(ROW)},\n{json.dumps(ROW | changed)}]")
    fault = refused(Solib("a.json").load, tmp_path)
    assert fault.line == 2 and words in str(fault)


BAD = [
    ROW | {"answer_incorrect": {"numeric": "36.0"}},
    ROW | {"answer_incorrect": {"numeric": "many"}},
]


def test_all_bad_rows_are_told_at_once(tmp_path):
    lines = ",\n".join(map(json.dumps, [ROW, BAD[0], ROW, BAD[1]]))
    (tmp_path / "a.json").write_text(f"[{lines}]")
    fault = refused(Solib("a.json").load, tmp_path)
    told = str(fault)
    assert fault.line == 2 and re.search("2 of 4 rows are wrong; .* on_bad_row: skip", told)
    assert "a.json:2: both answers are 36" in told and "a.json:4: answer_incorrect" in told


def test_bad_rows_are_skipped_and_counted_and_others_keep_their_names(tmp_path, caplog):
    (tmp_path / "a.json").write_text(json.dumps([ROW, *BAD, ROW]))
    loader = Solib("a.json", on_bad_row="skip")
    assert [problem.id for problem in loader.load(tmp_path)] == ["solib-1", "solib-4"]
    assert len(loader.skipped(tmp_path)) == 2
    assert "a.json: 2 of 4 rows are skipped" in caplog.text
    assert Solib("a.json").skipped(tmp_path) == ()


def test_a_file_of_bad_rows_alone_is_refused_even_so(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(BAD))
    with pytest.raises(DatasetError, match="no row of it can be used"):
        Solib("a.json", on_bad_row="skip").load(tmp_path)


def test_raw_keeps_what_was_published(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([ROW]))
    (problem,) = Solib("a.json", raw=True).load(tmp_path)
    (mended,) = Solib("a.json").load(tmp_path)
    works = {answer.text: answer.work for answer in problem.question.answers}
    assert works == {
        "36": "It is 3 * 12 = <<3*12=36>>36 jars",
        "15.0": "It is 3+12=$15.0 jars.\n#### 15.0",
    }
    assert problem.values == mended.values
