"""ASD, JSE, EAS and bounds of drawn tables against the measures of each draw by itself, sums that
are written out here, and what every way of filling lost worlds in gives: known truths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.asd import (
    BETAS,
    Bounds,
    Scored,
    answer_scores,
    asd_weights,
    scored,
)
from oversight.engine.analysis.scoring.contrasts import contrasts
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.protocols.scores import SCORES, Compat, applicable
from tests.engine.analysis.scoring.one_question import Worlds

DRAWS = 3
GRADES = (1.0, -1.0, 0.25, -0.5, 0.0)


@dataclass(frozen=True)
class Drawn:
    values: tuple[float, ...]
    verdicts: np.ndarray
    """Draws × worlds × answers; NaN if missing."""
    doubtful: np.ndarray
    """Draws × worlds; a world that is in doubt and has no verdict failed, another is not run."""


def drawn(rng: np.random.Generator, answers: int) -> Drawn:
    verdicts = rng.integers(0, 5, size=(DRAWS, answers, answers)) + np.eye(answers)
    verdicts /= verdicts.sum(axis=-1, keepdims=True)
    ending = rng.choice(
        ["sound", "doubt", "failed", "not run"], (DRAWS, answers), p=(0.7, *[0.1] * 3)
    )
    verdicts[(ending == "failed") | (ending == "not run")] = math.nan
    return Drawn(GRADES[:answers], verdicts, (ending == "doubt") | (ending == "failed"))


def table(questions: Sequence[Drawn]) -> Judgements:
    """Draws whose worlds have all ended, as a run has them."""
    lines, doubts = [], []
    for n, one in enumerate(questions):
        for verdicts, doubtful in zip(one.verdicts, one.doubtful, strict=True):
            lost = np.isnan(verdicts[:, 0])
            if not (lost & ~doubtful).any():
                worlds = (
                    None if gone else tuple(p) for p, gone in zip(verdicts, lost, strict=True)
                )
                lines.append(Judgement(f"q{n}", one.values, tuple(worlds), {"problem": f"q{n}"}))
                doubts.append(np.resize(doubtful, 5) & (np.arange(5) < len(doubtful)))
    judged = Judgements.of(lines)
    return replace(judged, doubt=np.array(doubts)[:, : judged.ran.shape[1]], drawn=True)


def measured(table: Scored, betas: Sequence[float] = BETAS) -> dict[str, tuple[float, ...]]:
    chosen = table.chosen(betas)
    assert table.asd
    columns = [table.asd, *(chosen[name, b] for name in ("jse", "eas") for b in betas)]
    assert len({column.questions for column in columns}) == 1
    values = zip(*(column.values.tolist() for column in columns), strict=True)
    return dict(zip(table.asd.questions, values, strict=True))


@pytest.mark.parametrize("compat", ["none", "solib"])
@pytest.mark.parametrize("score", SCORES)
def test_measures_are_means_over_the_draws_that_have_all_verdicts(score: str, compat: Compat):
    rng = np.random.default_rng(0)
    questions = [drawn(rng, answers) for answers in rng.integers(2, 5, size=60)]
    by_id = scored(table(questions), score, compat)
    assert by_id is not None
    expected = {}
    for n, question in enumerate(questions):
        complete = [verdicts for verdicts in question.verdicts if not np.isnan(verdicts).any()]
        if complete and score in applicable(len(question.values)):
            by_draw = [
                Worlds(tuple(map(tuple, verdicts.tolist())), question.values, compat)
                for verdicts in complete
            ]
            parts = [(name, b) for name in ("jse", "eas") for b in BETAS]
            measures = [
                [one.asd(score), *(getattr(one, name)(score, b) for name, b in parts)]
                for one in by_draw
            ]
            expected[f"q{n}"] = tuple(map(fmean, zip(*measures, strict=True)))
    values = measured(by_id)
    assert sorted(values) == sorted(expected) and 0 < len(expected) < 60
    for id, measures in expected.items():
        assert values[id] == pytest.approx(measures, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from((2, 3, 5)))
def test_worlds_left_out_are_weighted_by_hand_alike(seed: int, graded: bool, answers: int) -> None:
    """Hajek's ratio: the mean score where the weight is above 0 less that where it is below."""
    rng = np.random.default_rng(seed)
    values = GRADES[:answers] if graded else (1.0, *[-1.0] * (answers - 1))
    weight, every = asd_weights(values), list[Judgement]()
    tops, bottoms = (list[tuple[float, float]]() for _ in range(2))
    for n in range(24):
        world = n % answers if n < 2 * answers else int(rng.integers(answers))
        p = rng.dirichlet(np.ones(answers))
        worlds: list[tuple[float, ...] | None] = [()] * answers
        worlds[world] = tuple(p.tolist())
        keys = {"problem": f"t{n % 9}", "judge": f"j{rng.integers(5)}"}
        every.append(Judgement(n, values, tuple(worlds), keys))
        side = tops if weight[world] > 0 else bottoms
        side.append((abs(float(weight[world])), float(answer_scores(p, "brier")[world])))
    judged = scored(Judgements.of(every), "brier")
    assert judged and judged.asd
    mass = float(np.maximum(weight, 0).sum())
    means = [sum(w * s for w, s in side) / sum(w for w, _ in side) for side in (tops, bottoms)]
    assert judged.asd.value == pytest.approx(mass * (means[0] - means[1]), abs=1e-12)
    crossed = judged.asd.estimate("cr1")
    # Each way by itself, by the sums of its clusters.
    psi = judged.asd.psi
    assert psi.sum() == pytest.approx(0.0, abs=1e-12)
    alone = {}
    for way, keys in judged.asd.ways.items():
        sums = [psi[keys == key].sum() for key in np.unique(keys)]
        alone[way] = np.square(sums).sum() * len(sums) / (len(sums) - 1)
        assert crossed.errors[way] == pytest.approx(np.sqrt(alone[way]), abs=1e-12)
    ways = (judged.asd.ways["problem"].tolist(), judged.asd.ways["judge"].tolist())
    joined = dict.fromkeys(zip(*ways, strict=True), 0.0)
    for pair, influence in zip(zip(*ways, strict=True), psi.tolist(), strict=True):
        joined[pair] += influence
    sums = list(joined.values())
    joint = np.square(sums).sum() * len(sums) / (len(sums) - 1)
    plain, largest = sum(alone.values()) - joint, max(alone.values())
    expected = plain if plain > 0 and np.sqrt(plain) >= np.sqrt(largest) / 2 else largest
    assert crossed.error == pytest.approx(np.sqrt(expected), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((2, 4)), st.sampled_from((0, 8)))
def test_one_draw_a_question_is_one_judgement_a_question(seed: int, answers: int, groups: int):
    """A run of one draw and a table of judgements say the same, rows by themselves and apart."""
    rng = np.random.default_rng(seed)
    texts = rng.integers(groups or 1, size=30)
    by_row = {}
    for row in ("a", "b"):
        lines = [
            Judgement(
                n,
                GRADES[:answers],
                tuple(map(tuple, rng.dirichlet(np.ones(answers), answers).tolist())),
                {"problem": f"t{texts[n]}" if groups else f"q{n}"},
            )
            for n in range(30)
        ]
        every = Judgements.of(lines)
        by_row[row] = [
            part.asd
            for draws in (replace(every, drawn=True), every)
            if (part := scored(draws, "brier")) and part.asd
        ]
    pairs = [contrasts({row: rows[n] for row, rows in by_row.items()})[0] for n in (0, 1)]
    both = [*zip(*([pair.estimate() for pair in row] for row in by_row.values()), strict=True)]
    for one, two in [*zip(*both, strict=True), (pairs[0].estimate, pairs[1].estimate)]:
        assert two.value == pytest.approx(one.value, abs=1e-12)
        assert two.interval == (one.interval and pytest.approx(one.interval, abs=1e-10))
        assert (two.degrees, two.clusters) == (one.degrees, one.clusters)
        assert two.p() == pytest.approx(one.p(), abs=1e-10)
    assert pairs[0].verdict == pairs[1].verdict


World = tuple[float | None, bool]
"""The probability of the first of two answers, None for a failure; whether it is in doubt."""
Doubted = tuple[tuple[World, World], tuple[float, float]]
"""Two worlds, and the values of the answers."""


def bounded(questions: Sequence[Doubted], score: str, compat: Compat = "none") -> Bounds:
    """Bounds of questions of one draw each."""
    every = [
        Drawn(
            values,
            np.array([[(np.nan, np.nan) if p is None else (p, 1 - p) for p, _ in worlds]]),
            np.array([[doubt for _, doubt in worlds]]),
        )
        for worlds, values in questions
    ]
    part = scored(table(every), score, compat)
    bounds = part and part.bounds()
    assert bounds
    return bounds


def dropped(bounds: Bounds) -> float | None:
    return bounds.drop and bounds.drop.value


probabilities = st.integers(0, 8).map(lambda n: n / 8)
worlds = st.one_of(st.tuples(probabilities, st.booleans()), st.just((None, True)))
doubted = st.tuples(st.tuples(worlds, worlds), st.sampled_from(((1.0, -1.0), (0.5, 2.0))))


@given(st.lists(doubted, min_size=1, max_size=6), st.sampled_from(list(SCORES)), st.data())
def test_bounds_hold_the_mean_for_any_missing_verdicts(given_up, score, data):
    bounds = bounded(given_up, score)
    truth = [
        (tuple((data.draw(probabilities) if doubt else p, False) for p, doubt in worlds), values)
        for worlds, values in given_up
    ]
    mean = dropped(bounded(truth, score))
    assert mean is not None and bounds.worst - 1e-9 <= mean <= bounds.best + 1e-9
