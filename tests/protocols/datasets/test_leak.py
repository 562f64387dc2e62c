"""The leakage check on data whose leaks are known, and the balance that removes them."""

import math
import random

import pytest

from oversight.protocols.datasets import leak
from oversight.protocols.datasets.leak import (
    FEATURES,
    FEWEST,
    POSITION,
    WORDING,
    Balance,
    LeakageCheck,
    leakage_check,
    power,
    wilson,
)
from oversight.protocols.question import Answer, Problem, labelled, randomness

CLUSTERS = FEWEST - 1
"""So few that no wording is learned."""


def made(n, answers, clusters=CLUSTERS):
    """n problems; `answers` makes (text, work, value) of each from a generator."""
    return [
        labelled(
            f"made-{k}", "Which?", answers(randomness(0, str(k), "test")), group=str(k % clusters)
        )
        for k in range(n)
    ]


def always(*answers):
    """The same answers for each problem."""
    return lambda rng: list(answers)


def accuracy(gate, name):
    return next(rule for rule in gate.rules if rule.rule == name)


def test_true_answers_that_are_longer_are_caught():
    gate = leakage_check(made(100, always(("a long one", "", 1.0), ("short", "", -1.0))))
    rule = accuracy(gate, "longest answer")
    assert (rule.applicable, rule.accuracy, rule.chance) == (100, 1.0, 0.5)
    assert rule.leaks
    assert rule in gate.leaks
    assert "'longest answer' right in 100% [92, 100] on 100 problems" in gate.line
    assert "fine" not in gate.line


def test_a_rare_mark_is_caught_where_it_stands():
    def answers(rng):
        return [("18", "", 1.0), ("21.0" if rng.random() < 0.3 else "21", "", -1.0)]

    rule = accuracy(leakage_check(made(200, answers)), "has a .0")
    assert 40 < rule.applicable < 80
    assert rule.accuracy == pytest.approx(0.5 - rule.applicable / 400)
    assert rule.leaks


def test_answers_without_a_tell_pass():
    def answers(rng):
        return [(str(rng.randint(10, 99)), f"step {rng.randint(1, 9)}", v) for v in (1.0, -1.0)]

    gate = leakage_check(made(100, answers, clusters=100))
    assert gate.leaks == ()
    assert gate.line.startswith("no label leakage found; farthest from chance: ")
    assert gate.line.endswith(" of 100 problems; leaks under 14 points may be missed")


def stopped(n: int, tell: float, rng: random.Random) -> list[Problem]:
    """n problems whose right answer alone ends in a full stop with probability 1/2 + tell, and
    whose wrong one does else."""
    problems = []
    for k in range(n):
        told = rng.random() < 1 / 2 + tell
        pair = [("an answer." if told == right else "an answer", "", v) for right, v in SIDES]
        problems.append(labelled(f"made-{k}", "Which?", pair, group=str(k % CLUSTERS)))
    return problems


SIDES = ((True, 1.0), (False, -1.0))


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("points", [0, 5, 10, 15])
@pytest.mark.campaign
def test_planted_tells_are_found_with_the_power_that_is_printed(campaign, n, points):
    rng = random.Random(campaign.seed * 1000 + points)
    runs = campaign.size(60, 1000)
    found = sum(
        accuracy(leakage_check(stopped(n, points / 100, rng)), "ends in a full stop").leaks
        for _ in range(runs)
    )
    # Without a tell the rule may be found to be off either way.
    p = power(n, points / 100) * (1 if points else 2)
    assert abs(found - runs * p) <= 4 * math.sqrt(runs * max(p * (1 - p), 0.01)) + 1


def test_the_power_grows_with_the_problems_and_with_the_tell():
    assert power(100, 0.05) < power(100, 0.10) < power(100, 0.15) < power(400, 0.15) < 1
    assert power(2000, 0.10) > 0.999 and power(0, 0.5) == 0
    gates = [LeakageCheck(n, ()) for n in (20, 100, 1000)]
    assert [gate.unseen for gate in gates] == sorted((g.unseen for g in gates), reverse=True)


def worded(n: int, tell: float, rng: random.Random, **settings: str) -> list[Problem]:
    """n problems with one word of style in each answer, all of one length, which is the right one's
    with probability 1/2 + tell."""
    problems = []
    for k in range(n):
        words = ["Thus", "Then"] if rng.random() < 1 / 2 + tell else ["Then", "Thus"]
        pair = [
            (f"{word} it is {rng.choice('abcdefgh') * 3} {rng.randint(100, 999)}", "", value)
            for word, value in zip(words, (1.0, -1.0), strict=True)
        ]
        problems.append(labelled(f"made-{k}", "Which?", pair, **settings))
    return problems


def test_a_word_that_tells_is_learned_and_no_rule_of_form_sees_it():
    gate = leakage_check(worded(160, 0.25, random.Random(1)))
    rule = accuracy(gate, WORDING)
    assert gate.leaks == (rule,) and 0.67 < rule.accuracy < 0.83 and rule.applicable == 160
    assert "have one hand write both" in rule.remedy


@pytest.mark.campaign
def test_a_word_that_tells_is_not_thinned_by_problems_that_nobody_read(monkeypatch):
    problems = worded(400, 0.5, random.Random(3))
    whole = accuracy(leakage_check(problems), WORDING).accuracy
    monkeypatch.setattr(leak, "MOST", 100)
    rule = accuracy(leakage_check(problems), WORDING)
    assert rule.leaks and rule.applicable <= 100
    assert rule.accuracy > whole - 0.1


@pytest.mark.campaign
def test_where_no_word_tells_nothing_is_learned(campaign):
    runs = campaign.size(8, 200)
    gates = [leakage_check(worded(100, 0.0, random.Random(seed))) for seed in range(runs)]
    assert sum(accuracy(gate, WORDING).leaks for gate in gates) <= runs * 0.05


def test_no_wording_is_learned_from_few_clusters():
    rule = accuracy(
        leakage_check(made(100, always(("Thus 1", "", 1.0), ("Hence 2", "", -1.0)))), WORDING
    )
    assert (rule.applicable, rule.accuracy) == (0, 0.5)


def test_a_wording_is_learned_from_other_clusters_alone():
    """Five problems a cluster, whose right answers share a word that no other cluster has: who
    learns from its own cluster is always right, and who does not is right by chance."""
    rng = random.Random(2)
    problems = []
    for k in range(300):
        cluster = k // 5
        pair = [(f"{rng.random()} w{'xyz'[cluster % 3] * (cluster + 2)}", "", 1.0)]
        pair.append((f"{rng.random()} v{'xyz'[cluster % 3] * (cluster + 2)}", "", -1.0))
        if cluster % 2:
            pair = [(text, work, -value) for text, work, value in pair]
        problems.append(labelled(f"made-{k}", "Which?", pair, group=f"cluster {cluster}"))
    assert accuracy(leakage_check(problems), WORDING).accuracy < 0.65


def test_neither_numbers_nor_questions_are_learned():
    rng = random.Random(3)

    def numbered(k: int) -> Problem:
        pair = [(f"It is {rng.randint(100, 199)}", "", 1.0), (f"It is {900 + k}", "", -1.0)]
        return labelled(f"made-{k}", f"Is it A? The right one is {pair[0][0]}", pair)

    rule = accuracy(leakage_check([numbered(k) for k in range(100)]), WORDING)
    assert (rule.applicable, rule.accuracy) == (0, 0.5)


def test_a_tie_counts_as_a_draw():
    gate = leakage_check(made(10, always(("yes", "", 1.0), ("nay", "", -1.0))))
    rule = accuracy(gate, "longest answer")
    assert (rule.applicable, rule.accuracy, rule.low, rule.high) == (0, 0.5, 0.5, 0.5)
    assert not rule.leaks


def test_chance_is_one_in_k_and_a_tie_for_first_is_shared():
    answers = always(("abc", "", 1.0), ("abd", "", -1.0), ("a", "", -1.0), ("b", "", -1.0))
    rule = accuracy(leakage_check(made(60, answers)), "longest answer")
    assert (rule.chance, rule.accuracy) == (0.25, 0.5)
    assert rule.leaks


def test_several_best_answers_are_all_right_picks():
    answers = always(("aa", "", 1.0), ("bbb", "", 1.0), ("c", "", 0.0))
    rule = accuracy(leakage_check(made(60, answers)), "longest answer")
    assert (rule.chance, rule.accuracy) == (pytest.approx(2 / 3), 1.0)


def test_position_is_a_rule_too():
    problems = [p for p in made(100, always(("x", "", 1.0), ("y", "", -1.0))) if p.best == 0]
    rule = accuracy(leakage_check(problems), POSITION)
    assert rule.accuracy == 1.0
    assert rule.leaks


def test_every_feature_takes_any_answer():
    for feature in FEATURES.values():
        for answer in (Answer("A", "x"), Answer("A", "0"), Answer("A", "9" * 24, "\n")):
            assert isinstance(feature(answer), int | float)


def test_balance_takes_the_wrong_answer_that_evens_things_out():
    right = Answer("", "12", "aaaa")
    longer, shorter = Answer("", "13", "aaaaaaa"), Answer("", "11", "a")
    balance = Balance()
    chosen = [balance.choose([(right, longer), (right, shorter)]) for _ in range(10)]
    assert chosen == [0, 1] * 5


def test_wilson_stays_within_bounds():
    assert wilson(0.0, 20) == (0.0, pytest.approx(0.161, abs=0.001))
    assert wilson(1.0, 20)[1] == 1.0
    with pytest.raises(ValueError, match=r"share of 1\.2"):
        wilson(1.2, 5)
