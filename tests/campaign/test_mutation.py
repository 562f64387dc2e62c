"""The generator of mutants finds, breaks and counts them; it needs the tools of `make mutants`."""

import gc
from pathlib import Path

import pytest

from oversight.protocols.mechanisms.doubly_efficient_debate import Sampling
from tools.mutation import Mutant, Trials, break_into, files, mutated, rate, sample, table

FILE = "protocols/mechanisms/doubly_efficient_debate.py"


def test_mutants_are_drawn_by_their_seed_alone_and_change_functions_but_not_what_they_raise():
    pytest.importorskip("mutmut.mutation.mutators", reason="mutmut is not installed: make mutants")
    one, other, whole = (sample(files([FILE]), *each)[0] for each in ((5, 1), (5, 2), (10**6, 1)))
    assert one == sample(files([FILE]), 5, 1)[0] != other and all(map(mutated, whole[:40]))
    text = (Path(__file__).parents[2] / FILE).read_text().splitlines()
    assert len(whole) > 100 and len(set(map(str, whole))) > 90
    assert not [mutant for mutant in whole if "raise " in text[mutant.line - 1]]


def test_a_mutant_breaks_functions_that_the_collector_was_told_to_leave_alone(monkeypatch):
    monkeypatch.setattr(Sampling.passes, "__code__", Sampling.passes.__code__)
    whole = (Path(__file__).parents[2] / FILE).read_text()
    broken = whole.replace("9) < round(", "9) > round(")
    mutant = Mutant(FILE, "Sampling.passes", "", 1, "", "", broken)
    assert Sampling(0.05, 0.15, 0.1).passes(0.59, 0.5)
    gc.freeze()
    break_into(mutant)
    assert not Sampling(0.05, 0.15, 0.1).passes(0.59, 0.5)


def test_a_mutant_faces_the_tests_that_reach_it_known_truths_first():
    mutant = Mutant("a.py", "f", "operator_number", 1, "1", "2", "")
    trials = Trials([mutant], 1, True)
    trials.reach |= {"one": {"a.py:f"}, "two": {"a.py:g"}, "three": {"a.py:f"}}

    class Item:
        def __init__(self, nodeid: str, *keywords: str) -> None:
            self.nodeid, self.keywords = nodeid, keywords

    items = [Item("one", "unit"), Item("two", "unit"), Item("three", "known_truth")]
    facing = trials.facing(mutant, items)  # type: ignore[arg-type]
    assert [item.nodeid for item in facing] == ["three", "one"]


def test_the_table_tells_rates_with_intervals_and_who_survived():
    made = [
        Mutant("a.py", "f", operator, n, "1", "2", "")
        for n, operator in enumerate(["operator_number", "operator_string", "operator_name"])
    ]
    told = table(dict(zip(made, ("truth", "unit", "alive"), strict=True)), 7, 99)
    assert "Sample 7: 3 of 99 mutants." in told and rate(1, 2) in told and rate(2, 3) in told
    assert told.endswith("- `a.py:2 f: '1' -> '2'`")
