"""The leakage check on data whose leaks are known, and the balance that removes them.

GSM8K: which pairs are made of it, and that their form does not tell which is true; solutions in
one format, whoever wrote them (`leak.md`).

On a sample of our own in the same format and, in the campaign, on the published files."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from oversight.protocols.datasets.gsm8k import MOST_LEAN, Gsm8k
from oversight.protocols.datasets.leak import LeakageCheck, RuleAccuracy, leakage_check, power
from oversight.protocols.datasets.solution import number, number_text, steps
from oversight.protocols.question import Problem, labelled, randomness
from tests.protocols.datasets.published import PUBLISHED, SAMPLE, gate, loaded, needs_published
from tests.sessions import sessions
from tests.tables import expressions


def made(n, answers):
    """n problems; `answers` makes (text, work, value) of each from a generator."""
    return [
        labelled(f"made-{k}", "Which?", answers(randomness(0, str(k), "test"))) for k in range(n)
    ]


def always(*answers):
    """The same answers for each problem."""
    return lambda rng: list(answers)


def accuracy(gate, name):
    return next(rule for rule in gate.rules if rule.rule == name)


def test_a_rare_mark_is_caught_where_it_stands():
    def answers(rng):
        return [("18", "", 1.0), ("21.0" if rng.random() < 0.3 else "21", "", -1.0)]

    rule = accuracy(leakage_check(made(200, answers)), "has a .0")
    assert 40 < rule.applicable < 80
    assert rule.accuracy == pytest.approx(0.5 - rule.applicable / 400) and rule.leaks


def test_answers_without_a_tell_pass():
    def answers(rng):
        return [(str(rng.randint(10, 99)), f"step {rng.randint(1, 9)}", v) for v in (1.0, -1.0)]

    gate = leakage_check(made(100, answers))
    assert gate.leaks == ()
    assert gate.line.startswith("No label leak found. Most suspicious rule: ")
    assert gate.line.endswith(" of 100 problems. Leaks below 14 points may go undetected")


def stopped(n: int, tell: float, rng: random.Random) -> list[Problem]:
    """n problems whose right answer alone ends in a full stop with probability 1/2 + tell, and
    whose wrong one does else."""
    problems = []
    for k in range(n):
        dotted = rng.random() < 1 / 2 + tell
        pair = [("an answer." if dotted == right else "an answer", "", v) for right, v in SIDES]
        problems.append(labelled(f"made-{k}", "Which?", pair))
    return problems


SIDES = ((True, 1.0), (False, -1.0))


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("points", [0, 5, 10, 15])
@pytest.mark.campaign
def test_planted_tells_are_found_with_the_power_that_is_printed(campaign, n, points):
    rng = random.Random(campaign.seed * 1000 + points)
    runs = campaign.size(60, 1000)
    leaks = sum(
        accuracy(leakage_check(stopped(n, points / 100, rng)), "ends in a full stop").leaks
        for _ in range(runs)
    )
    # Without a tell the rule may be found to be off either way.
    p = power(n, points / 100) * (1 if points else 2)
    assert abs(leaks - runs * p) <= 4 * math.sqrt(runs * max(p * (1 - p), 0.01)) + 1


def test_power_and_intervals_follow_their_formulas():
    """The known truth: of 14 rules each interval holds with 1 - 0.05/14. The least number of hits
    whose interval (Wilson 1927) is above 1/2 is found by search, and its chance is binomial."""
    level = 1 - 0.05 / 14
    z = norm.ppf((1 + level) / 2)

    def ends(hits: float, n: int) -> tuple[float, float]:
        """The shares p with (hits/n - p)^2 = z^2 p (1 - p) / n."""
        roots = np.roots([1 + z * z / n, -(2 * hits / n + z * z / n), (hits / n) ** 2])
        return min(roots), max(roots)

    for n, tell in ((10, 0.4), (12, 0.5), (50, 0.1), (100, 0.15), (4000, 0.02), (4000, 0.04)):
        least = next(k for k in range(n + 1) if k > 0.53 * n and ends(k, n)[0] > 1 / 2)
        assert power(n, tell) == pytest.approx(binom.sf(least - 1, n, 1 / 2 + tell), abs=1e-9)
    # Of 10 problems only a rule that is right on all is found: (1/2 + .43)^10 < 1/2 < .94^10.
    assert [LeakageCheck(n, ()).unseen for n in (3, 10)] == [50, 43]
    # Of 50 problems, 40 are told apart and 30 of those rightly; the other 10 are even odds.
    pairs_of = [[("longer", "", v), ("long", "", -v)] for v in [1.0] * 30 + [-1.0] * 10]
    pairs_of += [[("even", "", 1.0), ("odds", "", -1.0)]] * 10
    problems = [labelled(f"{k}", "Which?", pair) for k, pair in enumerate(pairs_of)]
    rule, (low, high) = accuracy(leakage_check(problems), "longest answer"), ends(30, 40)
    measured = (rule.applicable, rule.accuracy, rule.chance, rule.low, rule.high)
    assert measured == pytest.approx((40, 0.7, 0.5, (40 * low + 5) / 50, (40 * high + 5) / 50))
    ranges = ((0.52, 0.51, 0.53), (0.54, 0.5, 0.6), (0.54, 0.51, 0.6), (0.46, 0.4, 0.49))
    leaks = [RuleAccuracy("", 9, *numbers, 0.5).leaks for numbers in ranges]
    assert leaks == [False, False, True, True] and power(0, 0.5) == 0


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
    files = "test.jsonl", "example_model_solutions.jsonl"
    rows = {name: [*map(json.loads, (SAMPLE / name).read_text().splitlines())] for name in files}
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
            *written, last = answer.work.split("\n")
            assert last == f"The answer is {answer.text}."
            assert written and tuple(written) == steps(answer.work)


def test_the_wrong_number_really_differs_and_is_of_the_same_kind(folder):
    for right, wrong in pairs(loaded(Gsm8k(str(folder)))):
        true, false = number(right.text), number(wrong.text)
        assert true is not None and false is not None
        assert true != false and (true % 1 == 0) == (false % 1 == 0)
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
        assert replace(settings, limit=5).load() == more[:5] and settings.load() == more


@pytest.mark.campaign
@needs_published
@pytest.mark.parametrize(("right", "least"), [("model", 400), ("person", 1000)])
def test_no_rule_of_form_tells_published_solutions_apart(right, least):
    check = gate(Gsm8k(str(PUBLISHED), right=right))
    assert (check.leaks, check.problems > least) == ((), True)


@pytest.mark.parametrize("steady", ["right", "wrong"])
def test_no_author_is_right_or_wrong_much_oftener_than_the_other_way(tmp_path, steady):
    """Twelve questions: one author is always right, or wrong; the other is new each time."""

    def edit(questions, solutions):
        (question, *_), (solved, *_) = questions, solutions
        both = {"right": solved.pop("large"), "wrong": solved.pop("small")}
        texts = [{"question": f"{n}: {question['question']}"} for n in range(12)]
        questions[:] = [question | text for text in texts]
        solutions[:] = [solved | text for text in texts]
        for n, row in enumerate(solutions):
            row |= {how if how == steady else f"{how} {n}": work for how, work in both.items()}

    assert len(replace(sample(tmp_path, edit), right="model").load()) == MOST_LEAN


def test_which_wrong_solution_is_drawn_depends_on_the_seed():
    drawn = (Gsm8k(str(SAMPLE), right="person", balanced=False, seed=n).load() for n in range(9))
    assert len({tuple(wrong.text for _, wrong in pairs(problems)) for problems in drawn}) > 3


@given(st.decimals(-(10**17), 10**17, places=4))
def test_a_shown_number_reads_as_itself_and_has_no_trailing_zeros(value):
    text = number_text(value)
    assert number(text) == value and not ("." in text and text.endswith(("0", ".")))
    assert text != "-0"


@given(st.text())
def test_any_text_can_be_laid_out(text):
    for step in steps(text):
        assert step.endswith(".") and step[0] == step[0].upper()
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


@sessions(Path(__file__).with_name("leak.md"))
def test_rules_and_solutions_are_as_written_down(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = dict(globals())
    session.check(request, expressions(names), names)
