"""Tables of worlds in which some failed, some are in doubt and some were not run, drawn at random,
against the measures of each draw by itself: known truths."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import pytest

from oversight.engine.analysis.scoring.world_table import WorldBlock, WorldTable
from oversight.engine.analysis.scoring.worlds import BETAS, Worlds, asd_weights
from oversight.protocols.scores import RANGES, SCORES, Compat, applicable

DRAWS = 3


@dataclass(frozen=True)
class Drawn:
    """One question."""

    values: tuple[float, ...]
    verdicts: np.ndarray
    """Draws × worlds × answers; not a number where there is none."""
    doubtful: np.ndarray
    """Draws × worlds."""


def drawn(rng: np.random.Generator, answers: int) -> Drawn:
    verdicts = rng.integers(0, 5, size=(DRAWS, answers, answers)) + np.eye(answers)
    verdicts /= verdicts.sum(axis=-1, keepdims=True)
    ending = rng.choice(
        ["sound", "doubt", "failed", "not run"], (DRAWS, answers), p=(0.7, *[0.1] * 3)
    )
    verdicts[(ending == "failed") | (ending == "not run")] = math.nan
    values = (1.0, -1.0, 0.25, -1.0)[:answers]
    return Drawn(values, verdicts, (ending == "doubt") | (ending == "failed"))


def table(questions: list[Drawn], compat: Compat) -> WorldTable:
    blocks = []
    for answers in (2, 3, 4):
        places = [n for n, each in enumerate(questions) if len(each.values) == answers]
        if places:
            values = np.array([questions[n].values for n in places])[:, None]
            worlds = Worlds([questions[n].verdicts for n in places], values, compat)
            doubtful = np.array([questions[n].doubtful for n in places])
            blocks.append(WorldBlock(np.array(places), worlds, doubtful))
    ids = tuple(f"q{n}" for n in range(len(questions)))
    return WorldTable(ids, ("",) * len(ids), tuple(blocks))


@pytest.mark.parametrize("compat", ["none", "solib"])
@pytest.mark.parametrize("score", SCORES)
def test_measures_are_means_over_the_draws_that_have_all_verdicts(
    score: str, compat: Compat
) -> None:
    rng = np.random.default_rng(0)
    questions = [drawn(rng, answers) for answers in rng.integers(2, 5, size=60)]
    samples = table(questions, compat).samples(score, BETAS)
    assert samples is not None
    columns = zip(*(each.values for each in (samples.asd, *samples.jse, *samples.eas)), strict=True)
    found = dict(zip(samples.asd.questions, columns, strict=True))
    known = {}
    for n, question in enumerate(questions):
        whole = [verdicts for verdicts in question.verdicts if not np.isnan(verdicts).any()]
        if whole and score in applicable(len(question.values)):
            each = [Worlds(verdicts, question.values, compat) for verdicts in whole]
            measures = [
                [
                    one.asd(score),
                    *(one.jse(score, b) for b in BETAS),
                    *(one.eas(score, b) for b in BETAS),
                ]
                for one in each
            ]
            known[f"q{n}"] = tuple(map(fmean, zip(*measures, strict=True)))
    assert list(found) == list(known) and 0 < len(known) < 60
    for id, measures in known.items():
        assert found[id] == pytest.approx(measures, abs=1e-12)


@pytest.mark.parametrize("compat", ["none", "solib"])
def test_bounds_are_means_over_the_draws_that_were_run_in_every_world(compat: Compat) -> None:
    rng = np.random.default_rng(1)
    questions = [drawn(rng, answers) for answers in rng.integers(2, 5, size=60)]
    found = table(questions, compat).bounds("brier")
    lows, highs, drops, keeps, doubts = [], [], [], [], 0
    for question in questions:
        low, high, drop, keep, doubtful = [], [], [], [], False
        for verdicts, doubted in zip(question.verdicts, question.doubtful, strict=True):
            failed = np.isnan(verdicts[:, 0])
            if (failed & ~doubted).any():
                continue
            scores = Worlds(verdicts, question.values, compat).agent_scores("brier").tolist()
            weights = asd_weights(question.values, compat).tolist()
            ends = [
                [weight * end for end in (RANGES["brier"] if doubt else (score, score))]
                for weight, score, doubt in zip(weights, scores, doubted, strict=True)
            ]
            low.append(sum(map(min, ends)))
            high.append(sum(map(max, ends)))
            doubtful |= bool(doubted.any())
            if not failed.any():
                keep.append(sum(map(float.__mul__, weights, scores)))
                drop += [] if doubted.any() else keep[-1:]
        if low:
            lows.append(fmean(low))
            highs.append(fmean(high))
            drops += [fmean(drop)] if drop else []
            keeps += [fmean(keep)] if keep else []
            doubts += doubtful
    assert found is not None
    assert (found.n, found.doubtful) == (len(lows), doubts)
    assert found.drop and found.keep
    means = (found.drop.value, found.keep.value, found.worst, found.best)
    assert means == pytest.approx(tuple(map(fmean, (drops, keeps, lows, highs))), abs=1e-12)


def test_a_table_without_a_whole_draw_has_no_measures() -> None:
    lost = Worlds([[[[0.5, 0.5], [math.nan, math.nan]]]], [[[1, -1]]])
    block = WorldBlock(np.array([0]), lost, np.array([[[False, True]]]))
    assert WorldTable(("q",), ("",), (block,)).samples("brier", BETAS) is None
    three = Worlds([[[[0.5, 0.25, 0.25]] * 3]], [[[1, 0, -1]]])
    block = WorldBlock(np.array([0]), three, np.zeros((1, 1, 3), np.bool_))
    assert WorldTable(("q",), ("",), (block,)).samples("logodds", BETAS) is None
    assert WorldTable(("q",), ("",), (block,)).bounds("logodds") is None
