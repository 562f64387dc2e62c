"""The leak gate on data whose leaks are known, and the balance that removes them."""

import pytest

from oversight.protocols.datasets import leak_gate
from oversight.protocols.datasets.balance import Balance
from oversight.protocols.datasets.leak import FEATURES, POSITION
from oversight.protocols.question import Answer, labelled, randomness


def made(n, answers):
    """n problems; `answers` makes (text, work, value) of each from a generator."""
    return [
        labelled(f"made-{k}", "Which?", answers(randomness(0, str(k), "test"))) for k in range(n)
    ]


def accuracy(gate, name):
    return next(rule for rule in gate.rules if rule.rule == name)


def test_true_answers_that_are_longer_are_caught():
    gate = leak_gate(made(100, lambda rng: [("a long one", "", 1.0), ("short", "", -1.0)]))
    rule = accuracy(gate, "longest answer")
    assert (rule.applicable, rule.accuracy, rule.chance) == (100, 1.0, 0.5)
    assert rule.leaks
    assert rule in gate.leaks
    assert "longest answer 100 %" in gate.line
    assert "fine" not in gate.line


def test_true_answers_that_are_shorter_are_caught_as_well():
    gate = leak_gate(made(100, lambda rng: [("short", "", 1.0), ("a long one", "", -1.0)]))
    rule = accuracy(gate, "longest answer")
    assert rule.accuracy == 0.0
    assert rule.leaks


def test_a_rare_mark_is_caught_where_it_stands():
    def answers(rng):
        return [("18", "", 1.0), ("21.0" if rng.random() < 0.3 else "21", "", -1.0)]

    rule = accuracy(leak_gate(made(200, answers)), "has a .0")
    assert 40 < rule.applicable < 80
    assert rule.accuracy == pytest.approx(0.5 - rule.applicable / 400)
    assert rule.leaks


def test_answers_without_a_tell_pass():
    def answers(rng):
        return [(str(rng.randint(10, 99)), f"step {n}", v) for n, v in ((1, 1.0), (2, -1.0))]

    gate = leak_gate(made(300, answers))
    assert gate.leaks == ()
    assert gate.line.startswith("leak gate: ")
    assert gate.line.endswith(": fine")


def test_a_tie_counts_as_a_draw():
    gate = leak_gate(made(10, lambda rng: [("yes", "", 1.0), ("nay", "", -1.0)]))
    rule = accuracy(gate, "longest answer")
    assert (rule.applicable, rule.accuracy, rule.low, rule.high) == (0, 0.5, 0.5, 0.5)
    assert not rule.leaks


def test_chance_is_one_in_k_and_a_tie_for_first_is_shared():
    def answers(rng):
        return [("abc", "", 1.0), ("abd", "", -1.0), ("a", "", -1.0), ("b", "", -1.0)]

    rule = accuracy(leak_gate(made(60, answers)), "longest answer")
    assert (rule.chance, rule.accuracy) == (0.25, 0.5)
    assert rule.leaks


def test_several_best_answers_are_all_right_picks():
    def answers(rng):
        return [("aa", "", 1.0), ("bbb", "", 1.0), ("c", "", 0.0)]

    rule = accuracy(leak_gate(made(60, answers)), "longest answer")
    assert (rule.chance, rule.accuracy) == (pytest.approx(2 / 3), 1.0)


def test_position_is_a_rule_too():
    problems = [p for p in made(100, lambda r: [("x", "", 1.0), ("y", "", -1.0)]) if p.best == 0]
    rule = accuracy(leak_gate(problems), POSITION)
    assert rule.accuracy == 1.0
    assert rule.leaks


def test_a_larger_data_set_has_a_narrower_interval():
    def answers(rng):
        return [("x" * rng.randint(1, 9), "", 1.0), ("y" * rng.randint(1, 9), "", -1.0)]

    few, many = (accuracy(leak_gate(made(n, answers)), POSITION) for n in (50, 500))
    assert many.high - many.low < few.high - few.low
    assert few.low < 0.5 < few.high


def test_no_problems_are_refused():
    with pytest.raises(ValueError, match="no problems"):
        leak_gate([])


@pytest.mark.parametrize(
    ("name", "more", "less"),
    [
        ("longest answer", Answer("A", "12", "long work"), Answer("B", "12", "work")),
        ("most lines", Answer("A", "1", "a\nb"), Answer("B", "1", "a b")),
        ("most sentences", Answer("A", "One. Two."), Answer("B", "One, 2.5 two.")),
        ("most equations", Answer("A", "1", "1 = 1, 2 = 2"), Answer("B", "1", "1 = 1")),
        ("most numbers", Answer("A", "1 and 2"), Answer("B", "1,000.5")),
        ("starts with a number", Answer("A", "-$3 each"), Answer("B", "each 3")),
        ("work starts with a number", Answer("A", "a", "3 each"), Answer("B", "3", "each")),
        ("largest number", Answer("A", "$1,000"), Answer("B", "999")),
        ("largest number", Answer("A", "-5"), Answer("B", "many")),
        ("roundest number", Answer("A", "1500"), Answer("B", "1510")),
        ("roundest number", Answer("A", "7"), Answer("B", "7.5")),
        ("has a .0", Answer("A", "7", "it is 7.00 now"), Answer("B", "7", "it is 7.05")),
        ("has a money sign", Answer("A", "7", "a $"), Answer("B", "7", "a")),
        ("most negations", Answer("A", "It isn't, no"), Answer("B", "A note, not")),
        ("ends in a full stop", Answer("A", "Yes."), Answer("B", "Yes")),
    ],
)
def test_a_feature_measures_what_its_name_says(name, more, less):
    assert FEATURES[name](more) > FEATURES[name](less)


def test_every_feature_takes_any_answer():
    for feature in FEATURES.values():
        for answer in (Answer("A", "x"), Answer("A", "0"), Answer("A", "9" * 24, "\n")):
            assert isinstance(feature(answer), int | float)


def test_balance_takes_the_wrong_answer_that_evens_things_out():
    right = Answer("", "12", "aaaa")
    longer, shorter = Answer("", "13", "aaaaaaa"), Answer("", "11", "a")
    balance = Balance()
    chosen = [balance.choose(right, (longer, shorter)) for _ in range(10)]
    assert chosen == [longer, shorter] * 5


def test_balance_has_no_choice_among_one():
    only = Answer("", "11", "a")
    assert Balance().choose(Answer("", "12"), (only,)) is only
