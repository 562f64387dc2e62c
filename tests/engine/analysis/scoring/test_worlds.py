"""Scores and measures once more from their formulas: known truths."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.asd import BETAS, answer_scores, asd_ends
from oversight.protocols.scores import ALL_SCORES, RANGES, SOLIB_SCORES, TIE, applicable
from tests.engine.analysis.scoring.one_question import Worlds, measured

SOME = Worlds(((0.8, 0.2), (0.4, 0.6)), (1, -1))
"""The judge believes the truth at 0.8 where it is argued, and the lie at 0.6."""

TIED = Worlds(((0.7, 0.3), (0.3, 0.7)), (1, -1))
"""The judge believes either answer as much where it is argued."""


def questions(answers: st.SearchStrategy[int]) -> st.SearchStrategy[Worlds]:
    """Worlds of small whole weights, so that ties and certainties occur, and of graded values."""

    def of(k: int) -> st.SearchStrategy[Worlds]:
        weights = st.lists(st.integers(0, 8), min_size=k, max_size=k).filter(any)
        verdict = weights.map(lambda row: tuple(weight / sum(row) for weight in row))
        values = st.lists(st.sampled_from((-1.0, 0.0, 0.5, 1.0, 2.25)), min_size=k, max_size=k)
        return st.builds(
            Worlds,
            st.tuples(*[verdict] * k),
            values.filter(lambda row: min(row) < max(row)).map(tuple),
            st.sampled_from(("none", "solib")),
        )

    return answers.flatmap(of)


betas = st.one_of(st.sampled_from(BETAS), st.floats(1e-3, 1e3))


@pytest.mark.parametrize("values", [(1, -1), (1, -1, -1), (1, -1, -1, -1), (3, 2.5, 0, -1, -1)])
def test_a_judge_who_hears_nothing_has_no_asd_however_many_answers(values: tuple[float]) -> None:
    deaf = Worlds(tuple((1 / len(values),) * len(values) for _ in values), values)
    for score in applicable(len(values)):
        assert deaf.asd(score) == pytest.approx(0, abs=1e-12)
    if len(values) == 4:
        solib = replace(deaf, compat="solib")
        assert solib.asd("brier") == pytest.approx(1.5)
        assert solib.asd("log") == pytest.approx(2.77, abs=0.01)


@given(st.floats(0, 1), st.floats(0, 1))
def test_centring_changes_no_bit_of_answers_worth_plus_and_minus_one(p: float, q: float) -> None:
    worlds = Worlds(((p, 1 - p), (q, 1 - q)), (1, -1))
    # Accuracy differs for ties: the two treat them differently.
    tied = abs(p - 0.5) <= TIE or abs(q - 0.5) <= TIE
    for score in set(ALL_SCORES) - ({"accuracy"} if tied else set()):
        assert worlds.asd(score) == replace(worlds, compat="solib").asd(score)


@given(questions(st.integers(2, 5)))
def test_no_asd_lies_beyond_its_ends(worlds: Worlds) -> None:
    for score in applicable(len(worlds.values)):
        low, high = asd_ends(worlds.values, RANGES[score], worlds.compat)
        assert low - 1e-9 <= worlds.asd(score) <= high + 1e-9


def test_a_score_goes_by_its_name() -> None:
    with pytest.raises(KeyError, match="briar"):
        answer_scores((0.5, 0.5), "briar")


@given(questions(st.integers(2, 5)))
def test_scores_of_arrays_equal_scores_of_single_verdicts(worlds: Worlds) -> None:
    """Bit by bit where no logarithm is taken, for ties must tie in both."""
    scores = ALL_SCORES | SOLIB_SCORES if worlds.compat == "solib" else ALL_SCORES
    for name in applicable(len(worlds.values)):
        array = answer_scores(worlds.verdicts, name, worlds.compat)
        expected = [
            [scores[name](tuple(verdict), answer) for answer in range(len(verdict))]
            for verdict in worlds.verdicts
            if verdict
        ]
        if name in ("log", "logodds", "spherical"):
            assert array == pytest.approx(np.array(expected), abs=1e-14)
        else:
            assert array.tolist() == expected


@given(st.lists(questions(st.integers(2, 4)), min_size=1, max_size=5), betas)
def test_many_questions_are_measured_as_each_by_itself(every: list[Worlds], beta: float) -> None:
    alike = [replace(one, compat=every[0].compat) for one in every]
    many = measured(alike, "log")
    assert many.by_judgement.tolist() == [one.asd("log") for one in alike]
    chosen = many.chosen_by_judgement([beta])
    assert chosen["jse", beta].tolist() == [one.jse("log", beta) for one in alike]
    assert chosen["eas", beta].tolist() == [one.eas("log", beta) for one in alike]


@given(questions(st.integers(2, 5)))
def test_a_greedier_agent_expects_a_higher_log_score(worlds: Worlds) -> None:
    expected = [worlds.eas("log", beta) for beta in (math.inf, 10.0, 1.0, 0.1)]
    assert all(low <= high + 1e-9 for low, high in pairwise(expected))
