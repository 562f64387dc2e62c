"""Two ways to one figure: the table of worlds, which a run is scored by, and judgements in columns,
which everything else is scored by. What both can say, they say alike; what one alone can say is
held against sums written out here."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.contrasts import contrasts, decided, unpaired
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import estimate, of_sample
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.engine.analysis.scoring.unpaired import chosen, scored
from oversight.engine.analysis.scoring.world_table import WorldBlock, WorldTable
from oversight.engine.analysis.scoring.worlds import Worlds, answer_scores, asd_weights
from oversight.protocols.protocol import score_difference
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.scores import ALL_SCORES, applicable
from oversight.protocols.transcript import Transcript, Verdict

GRADES = (1.0, -1.0, 0.25, -0.5, 0.0)
BETAS = (0.0, 1.0)


class Drawn:
    """Verdicts of one row: questions × draws × worlds × answers, NaN without a verdict."""

    def __init__(
        self, seed: int, answers: int, n: int, draws: int, missing: float, groups: int, graded: bool
    ) -> None:
        rng = np.random.default_rng(seed)
        self.verdicts = rng.dirichlet(np.ones(answers), (n, draws, answers))
        self.verdicts[rng.random((n, draws, answers)) < missing] = np.nan
        self.values = GRADES[:answers] if graded else (1.0, *[-1.0] * (answers - 1))
        self.groups = tuple(f"g{k}" for k in rng.integers(groups, size=n)) if groups else ("",) * n
        self.ids = tuple(f"q{k}" for k in range(n))

    def table(self) -> WorldTable:
        n = len(self.ids)
        worlds = Worlds(self.verdicts, np.tile(self.values, (n, 1, 1)))
        doubtful = np.isnan(self.verdicts[..., 0])
        return WorldTable(self.ids, self.groups, (WorldBlock(np.arange(n), worlds, doubtful),))

    def judgements(self) -> list[Judgement]:
        return [
            Judgement(
                id,
                self.values,
                tuple(None if np.isnan(p[0]) else tuple(p.tolist()) for p in worlds),
                {"problem": group or f"\0{id}"},
            )
            for id, group, draws in zip(self.ids, self.groups, self.verdicts, strict=True)
            for worlds in draws
        ]


@st.composite
def rows(draw: st.DrawFn) -> Drawn:
    # Draws that lack a verdict weigh the rest of their question by themselves in one engine alone.
    draws = draw(st.integers(1, 3))
    return Drawn(
        draw(st.integers(0, 2**32)),
        draw(st.integers(2, 5)),
        draw(st.integers(12, 40)),
        draws,
        draw(st.sampled_from((0.0, 0.1))) if draws == 1 else 0.0,
        draw(st.sampled_from((0, 8))),
        draw(st.booleans()),
    )


def alike(one: Estimate, two: Estimate) -> None:
    assert two.value == pytest.approx(one.value, abs=1e-12)
    assert two.interval == (one.interval and pytest.approx(one.interval, abs=1e-10))
    assert two.p() == pytest.approx(one.p(), abs=1e-10)
    assert two.degrees == one.degrees and two.clusters == one.clusters


@settings(max_examples=30, deadline=None)
@given(rows(), st.sampled_from(("brier", "log", "logodds", "spherical", "accuracy")))
def test_a_row_has_one_asd_and_one_interval(row: Drawn, score: str) -> None:
    if score not in applicable(len(row.values)):
        return
    ours = row.table().samples(score, BETAS)
    every = Judgements.of(row.judgements())
    theirs = scored(every, score)
    assert ours and theirs and theirs.asd
    alike(estimate(ours.asd), theirs.asd.estimate())
    of_choice = chosen(every, score, BETAS)
    for name, samples in (("jse", ours.jse), ("eas", ours.eas)):
        for beta, sample in zip(BETAS, samples, strict=True):
            alike(estimate(sample), of_choice[name, beta].estimate())


@settings(max_examples=20, deadline=None)
@given(rows(), st.integers(0, 2**32))
def test_a_contrast_is_one_whichever_way_it_is_paired(row: Drawn, seed: int) -> None:
    other = Drawn(seed, len(row.values), len(row.ids), 2, 0.0, 0, False)
    other.values, other.groups = row.values, row.groups
    samples = {}
    for name, its in (("a", row), ("b", other)):
        found = its.table().samples("brier", ())
        assert found
        samples[name] = found.asd
    if samples["a"].questions != samples["b"].questions:
        return
    figures = [
        scored(part, "brier")
        for part in Judgements.of(
            [
                Judgement(each.question, each.values, each.worlds, {**each.keys, "row": name})
                for name, its in (("a", row), ("b", other))
                for each in its.judgements()
            ]
        )
        .by("row")
        .values()
    ]
    one, two = (each.asd.by("problem") for each in figures if each and each.asd)
    (ours,) = contrasts(samples)
    (theirs,) = decided([unpaired("a", "b", one, two)])
    alike(ours.estimate, theirs.estimate)
    assert theirs.p == pytest.approx(ours.p, abs=1e-10) and theirs.verdict == ours.verdict
    assert theirs.mde == (ours.mde and pytest.approx(ours.mde, abs=1e-9))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from((2, 3, 5)))
def test_worlds_left_out_are_weighted_by_hand_alike(seed: int, graded: bool, answers: int) -> None:
    """Hajek's ratio: the mean score where the weight is above 0 less that where it is below."""
    rng = np.random.default_rng(seed)
    values = GRADES[:answers] if graded else (1.0, *[-1.0] * (answers - 1))
    weight = asd_weights(values)
    every, tops, bottoms = (
        list[Judgement](),
        list[tuple[float, float]](),
        list[tuple[float, float]](),
    )
    for n in range(24):
        world = n % answers if n < 2 * answers else int(rng.integers(answers))
        p = rng.dirichlet(np.ones(answers))
        worlds: list[tuple[float, ...] | None] = [()] * answers
        worlds[world] = tuple(p.tolist())
        keys = {"problem": f"t{n % 9}", "judge": f"j{rng.integers(5)}"}
        every.append(Judgement(n, values, tuple(worlds), keys))
        side = tops if weight[world] > 0 else bottoms
        side.append((abs(float(weight[world])), float(answer_scores(p, "brier")[world])))
    found = scored(Judgements.of(every), "brier")
    assert found and found.asd
    whole = float(np.maximum(weight, 0).sum())
    means = [sum(w * s for w, s in side) / sum(w for w, _ in side) for side in (tops, bottoms)]
    assert found.asd.value == pytest.approx(whole * (means[0] - means[1]), abs=1e-12)
    crossed = found.asd.estimate("cr1")
    # Each way by itself, by the sums of its clusters.
    psi = found.asd.psi
    assert psi.sum() == pytest.approx(0.0, abs=1e-12)
    alone = {}
    for way, keys in found.asd.ways.items():
        sums = [psi[keys == key].sum() for key in np.unique(keys)]
        alone[way] = np.square(sums).sum() * len(sums) / (len(sums) - 1)
        assert crossed.errors[way] == pytest.approx(np.sqrt(alone[way]), abs=1e-12)
    ways = (found.asd.ways["problem"].tolist(), found.asd.ways["judge"].tolist())
    joined = dict.fromkeys(zip(*ways, strict=True), 0.0)
    for pair, each in zip(zip(*ways, strict=True), psi.tolist(), strict=True):
        joined[pair] += each
    sums = list(joined.values())
    joint = np.square(sums).sum() * len(sums) / (len(sums) - 1)
    plain = sum(alone.values()) - joint
    largest = max(alone.values())
    expected = plain if plain > 0 and np.sqrt(plain) >= np.sqrt(largest) / 2 else largest
    assert crossed.error == pytest.approx(np.sqrt(expected), abs=1e-12)


def test_a_sample_and_its_influences_are_one_figure() -> None:
    row = Drawn(3, 3, 30, 2, 0.0, 7, True)
    samples = row.table().samples("brier", ())
    assert samples
    alike(estimate(samples.asd), of_sample(samples.asd).estimate())


@pytest.mark.parametrize("score", sorted(ALL_SCORES))
def test_one_problem_has_one_asd_with_numpy_and_without(score: str) -> None:
    """What pages and transcripts print of a problem, centred as in the report."""
    values = (1.0, -1.0) if score == "logodds" else GRADES[:4]
    verdicts = np.random.default_rng(5).dirichlet(np.ones(len(values)), len(values))
    answers = tuple(Answer(label, label) for label in "ABCD"[: len(values)])
    problem = Problem("p", Question("?", answers), values)
    told = [Verdict(tuple(p.tolist()), Transcript(problem.question)) for p in verdicts]
    alone = score_difference(problem, told, score)
    assert alone == pytest.approx(float(Worlds(verdicts, values).asd(score)), abs=1e-12)
