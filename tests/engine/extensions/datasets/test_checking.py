"""The finding of `oversight dataset check`: all contents of a data set, as figures and as notes."""

import pytest

from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.extensions.datasets.checking import SizeLeak, check_finding
from oversight.protocols import Answer, Problem, Question
from oversight.protocols.datasets.loader import Notes
from oversight.protocols.errors import DatasetError

LETTERED, PARTLY = ("A. one", "B. two"), ("A. one", "B. two", "so? an")
REFERS = ("All of the above", "Ill of the abode")


def asked(k: int) -> Problem:
    """One of twelve problems whose first answer is right, and whose answers look alike otherwise.
    The questions stand twice, on two passages of one group and without a passage."""
    texts = LETTERED if k < 6 else PARTLY if k == 6 else REFERS if k == 11 else ("one", "two")
    answers = tuple(Answer("ABC"[n], text) for n, text in enumerate(texts))
    passage, group = ("One.", "g") if k % 6 == 0 else ("Two.", "g") if k % 6 == 1 else ("", "")
    question = Question(f"Which of {k % 6}?", answers, passage)
    return Problem(f"p{k}", question, (1.0, -1.0, -1.0)[: len(texts)], group)


def test_all_contents_of_a_data_set_are_told():
    """The known truth: only a rule that is right on all 12 problems is found, so the power for a
    tell of t is (1/2 + t)^12: .001, .002 and .006. Blind picks are right 11 times by 1/2 and once
    by 1/3."""
    faults = [DatasetError("d.jsonl", n, f"fault {n}") for n in range(1, 8)]
    changed = {"merged": ["d:1"], "references": ["d:2"], "letters": ["d:3"]}
    notes = Notes(rows=19, bad=faults, changed=changed | {"ties": ["d:4"], "left out": ["d:5"]})
    finding = check_finding("d.jsonl", [asked(k) for k in range(12)], notes)
    carrying = [f"p{n}" for n in range(7)]
    pairs = [(f"p{n}", f"p{n + 6}") for n in range(6)]
    powers = finding.about["power"]
    assert powers == pytest.approx({5: 0.55**12, 10: 0.6**12, 15: 0.65**12})
    assert finding.about == {
        "problems": 12, "answers": {2: 11, 3: 1}, "best": {"A": 12}, "passages": 2, "groups": 9,
        "duplicates": tuple(pairs), "leaks": ["first position"], "power": powers,
        "skipped": list(map(str, faults)), "changed": notes.changed, "letters": carrying,
        "references": ["p11"],
    }  # fmt: skip
    every, shown = finding.parts
    assert (len(every.lines), every.shown, shown.title) == (14, False, "d.jsonl: label leakage")
    (row,) = shown.lines
    assert (row.rule, row.applicable, row.accuracy) == ("first position", 12, 1)
    assert row.chance == pytest.approx((11 / 2 + 1 / 3) / 12)
    idle, about_n, about_leaks, *rest = shown.notes
    assert idle.startswith("not applicable: longest answer, ") and idle.count(",") == 12
    assert about_n.startswith("n: ") and "3 points" in about_leaks
    assert rest[:13] == [
        "problems: 12 (11 of 2 answers, 1 of 3 answers)",
        "best answer: A 12",
        "passages: 2",
        "groups that a bootstrap keeps together: 9",
        "duplicates: 6 questions stand more than once:",
        *(f"  p{n}, p{n + 6}" for n in range(5)),
        "  … and 1 more",
        "skipped: 7 invalid rows:",
        "  d.jsonl:1: fault 1",
    ]
    assert rest[16:18] == ["  d.jsonl:5: fault 5", "  … and 2 more"]
    kinds = [line.partition(":")[0].partition(",")[0] for line in rest[18:]]
    assert kinds == [
        "merged", "letters", "left out", "letters", "cross-references", "power with n = 12",
        "what to do about first position",
    ]  # fmt: skip
    assert "letters: 7 problems (p0, p1, p2, p3, p4, …) with answers" in rest[21]
    assert "cross-references: 1 problem (p11) with an answer" in rest[22]
    assert rest[23].endswith("of 5 points 0%, of 10 points 0%, of 15 points 1%")


def test_a_clean_data_set_has_no_note_that_it_does_not_need():
    finding = check_finding("d", [asked(k) for k in (8, 9)], Notes())
    lines = finding.parts[1].notes
    assert finding.parts[1].title == "d: no leak found" and "duplicates: none" in lines
    words = ("passages", "groups", "skipped", "letters", "cross", "merged", "what")
    assert not [line for line in lines if line.startswith(words)]


@pytest.mark.parametrize(
    ("value", "interval", "leaks"),
    [
        (0.7, (0.6, 0.8), True), (0.3, (0.2, 0.4), True), (0.61, (0.51, 0.7), True),
        (0.59, (0.55, 0.63), False), (0.41, (0.4, 0.42), False), (0.7, (0.5, 0.9), False),
        (0.3, (0.1, 0.5), False), (0.9, (0.4, 1.0), False), (0.9, None, False),
    ],
)  # fmt: skip
def test_a_size_leaks_if_it_is_far_from_chance_and_its_interval_excludes_it(value, interval, leaks):
    estimate = Estimate(value, 9, error=0.1 if interval else None, stated=interval)
    assert SizeLeak("steps", estimate).leaks is leaks
