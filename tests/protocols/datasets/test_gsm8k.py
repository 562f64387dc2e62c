"""GSM8K: which pairs are made of it, and that their form does not tell which is true; solutions in
one format, whoever wrote them.

On a sample of our own in the same format and, in the campaign, on the published files.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.datasets.gsm8k import Gsm8k
from oversight.protocols.datasets.leak import POSITION, WORDING
from oversight.protocols.datasets.solution import closing, laid_out, number, number_text, steps
from oversight.protocols.errors import DatasetError
from tests.protocols.datasets.published import PUBLISHED, SAMPLE, gate, loaded, needs_published
from tests.protocols.datasets.reading import refused


@pytest.fixture(
    params=[
        pytest.param(SAMPLE, id="sample"),
        pytest.param(PUBLISHED, id="published", marks=[pytest.mark.campaign, needs_published]),
    ]
)
def folder(request):
    return request.param


def pairs(problems):
    """(right answer, wrong answer) of each."""
    for problem in problems:
        right = problem.question.answers[problem.best]
        yield right, problem.question.other(right)


def sample(tmp_path, edit=lambda questions, solutions: None):
    """A copy of the sample with some rows changed, as Gsm8k settings."""
    files = {name: SAMPLE / name for name in ("test.jsonl", "example_model_solutions.jsonl")}
    rows = {
        name: list(map(json.loads, path.read_text().splitlines())) for name, path in files.items()
    }
    edit(*rows.values())
    for name, changed in rows.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in changed))
    return Gsm8k(str(tmp_path), right="person")


def test_both_solutions_are_laid_out_in_one_format(folder):
    problems = loaded(Gsm8k(str(folder), right="person"))
    assert problems
    for problem in problems:
        assert problem.values in ((1, -1), (-1, 1))
        for answer in problem.question.answers:
            *steps, last = answer.work.split("\n")
            assert last == f"The answer is {answer.text}."
            assert steps
            for step in steps:
                assert step.endswith(".")
                assert step == step.strip()
                assert step[0] == step[0].upper()
                assert not {"<", "$", "\u2019", "×"} & set(step)


def test_the_wrong_number_really_differs_and_is_of_the_same_kind(folder):
    for right, wrong in pairs(loaded(Gsm8k(str(folder)))):
        true, false = number(right.text), number(wrong.text)
        assert true is not None and false is not None
        assert true != false
        assert (true % 1 == 0) == (false % 1 == 0)
        assert (true < 0) == (false < 0)
        assert wrong.text.lstrip("-") in wrong.work.split("\n")[-2]


def test_an_id_is_the_line_in_the_file_of_questions(folder):
    lines = (folder / "test.jsonl").read_text().split("\n")
    for problem in loaded(Gsm8k(str(folder))):
        line = int(problem.id.removeprefix("gsm8k-"))
        assert json.loads(lines[line - 1])["question"].strip() == problem.question.text


def test_loading_twice_gives_the_same_and_a_higher_limit_keeps_the_lower_ones(folder):
    for settings in (
        Gsm8k(str(folder), limit=90),
        Gsm8k(str(folder), limit=90, shuffle=True),
        Gsm8k(str(folder), limit=90, balanced=False, seed=5),
    ):
        more = loaded(settings)
        assert replace(settings, limit=5).load() == more[:5]
        assert settings.load() == more


@pytest.mark.campaign
@needs_published
def test_no_rule_tells_models_solutions_apart_and_wording_tells_a_persons():
    found = gate(Gsm8k(str(PUBLISHED)))
    assert (found.leaks, found.problems > 400) == ((), True)
    found = gate(Gsm8k(str(PUBLISHED), right="person"))
    # Two hands wrote the answers, and a classifier of words tells them apart: see `rewriting`.
    (leak,) = found.leaks
    assert leak.rule == WORDING and 0.64 < leak.accuracy < 0.70
    assert all(
        abs(rule.accuracy - 0.5) < 0.02
        for rule in found.rules
        if rule.rule not in (POSITION, WORDING)
    )


def test_a_models_solution_can_stand_for_the_truth():
    (problem,) = Gsm8k(str(SAMPLE), right="model").load()
    right, wrong = next(pairs([problem]))
    assert problem.id == "gsm8k-1"
    assert right.work.startswith("The baker makes 12 * 8 = 96 rolls, so 96 - 70 = 26")
    assert wrong.text == "50"


def test_a_models_solution_with_another_number_never_stands_for_the_truth(tmp_path):
    def edit(questions, solutions):
        del solutions[1:]
        solutions[0]["small"] = {"is_correct": True, "solution": "It is 55.\nA: 55"}
        solutions[0]["large"] = {"is_correct": False, "solution": "It is 60.\nA: 60"}

    with pytest.raises(DatasetError, match="that could serve"):
        replace(sample(tmp_path, edit), right="model").load()


def test_solutions_that_only_look_wrong_are_not_used():
    person = Gsm8k(str(SAMPLE), right="person")
    used = {p.id: next(pairs([p]))[1].text for p in person.load()}
    # 2: read as 1 out of 1,254; 3: marked wrong for 105.50; 5: 2.25 for a whole number;
    # 8: of the other sign; 9: cut from 37.333.
    assert used["gsm8k-2"] == "8750"
    assert used["gsm8k-3"] == "75.5"
    assert "gsm8k-5" not in used
    assert used["gsm8k-8"] == "-10"
    assert used["gsm8k-9"] == "336"


def test_questions_without_solutions_are_left_out(tmp_path):
    def edit(questions, solutions):
        del solutions[0]

    assert sample(tmp_path, edit).load()[0].id == "gsm8k-2"


def test_a_number_that_rounding_explains_is_not_wrong(tmp_path):
    def edit(questions, solutions):
        for row in solutions[1:]:
            row["small"]["is_correct"] = row["large"]["is_correct"] = True
        questions[0]["answer"] = "7.0\n#### 33.33"
        solutions[0]["ground_truth"] = "It is 100/3 = 33.33\nA: 33.33"
        solutions[0]["small"]["solution"] = "It is 100/3 = 33.3\nA: 33.3"

    with pytest.raises(DatasetError, match="that could serve"):
        sample(tmp_path, edit).load()


def test_relative_folders_start_at_the_root_they_are_loaded_from():
    assert Gsm8k("gsm8k").load(SAMPLE.parent) == Gsm8k(str(SAMPLE)).load()


@pytest.mark.parametrize(
    ("edit", "place", "words"),
    [
        (lambda q, s: q[1].update(answer="five"), "test.jsonl:2", "ends in 'five'"),
        (
            lambda q, s: s[1].update(ground_truth="x\nA: 7"),
            "example_model_solutions.jsonl:2",
            "comes to 7, and test.jsonl:2 to 5000",
        ),
        (
            lambda q, s: s.append(s[0]),
            "example_model_solutions.jsonl:11",
            "the question of line 1 again",
        ),
        (
            lambda q, s: s[2]["small"].update(is_correct="no"),
            "example_model_solutions.jsonl:3",
            "small.is_correct: 'no'",
        ),
        (lambda q, s: q[0].pop("question"), "test.jsonl:1", "question: missing"),
    ],
)
def test_a_folder_that_is_wrong_is_refused_with_file_and_line(tmp_path, edit, place, words):
    told = str(refused(sample(tmp_path, edit).load))
    assert place in told and words in told


def test_the_same_solution_in_two_hands_becomes_the_same_text():
    person = (
        "She has 3*$1,250.00=$<<3*1250.00=3750.00>>3,750.00 in the bank. So she can spend "
        "3750\u22122500=<<3750-2500=1250>>1250\n\n#### 1,250"
    )
    model = (
        "1. she has 3 x 1250 = $<<3*1250=3750>>3750 in the bank\n"
        "2. so she can spend 3750.0 - 2500 = <<3750-2500=1250.0>>1250.0.\n"
        "A: 1250.0"
    )
    both = {laid_out(steps(text), number_text(closing(text))) for text in (person, model)}
    assert both == {
        "She has 3 * 1250 = 3750 in the bank.\n"
        "So she can spend 3750 - 2500 = 1250.\n"
        "The answer is 1250."
    }


@given(st.decimals(-(10**17), 10**17, places=4))
def test_a_shown_number_reads_as_itself_and_has_no_trailing_zeros(value):
    text = number_text(value)
    assert number(text) == value
    assert not ("." in text and text.endswith(("0", ".")))
    assert text != "-0"


@given(st.text())
def test_any_text_can_be_laid_out(text):
    for step in steps(text):
        assert step.endswith(".")
        assert step == " ".join(step.split())


TOKENS = ("she", "has", "Then", "eggs", "12", "1,250.00", ".5", "$3", "40%")
OPERATORS = ("+", "-", "*", "/", "x", "=", "\u00f7")


@given(
    st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from((" ", ". ", "\nSo ", *OPERATORS)))),
    st.sampled_from(("", " ")),
)
def test_laying_out_what_is_laid_out_changes_nothing(parts, space):
    once = steps("So " + space.join(token + space + joint for token, joint in parts))
    assert steps("\n".join(once)) == once
