"""Judgements from anywhere: ASD where questions need not be judged in every world.

A judgement is one verdict of one judge, in one world or in all of them (a debate, where every
answer is argued). A question may be judged several times, or in some of its worlds only; a world
that the design did not fill is not run, which is neither a failure nor missing. With w_a the value
of answer a less the mean value, J+ all (judgement, world) with w_a > 0, J- those with w_a < 0, and
W the mean over judgements of the sum of the positive w_a (1 for values +1 and -1):

    ASD = W (mean over J+ of S(p, a), by w_a,  -  mean over J- of S(p, a), by -w_a)

the ratio form of Hajek of Horvitz and Thompson's estimator. It needs worlds assigned at random, and
equals the paired ASD where every question is judged once in each world. Each (judgement, world) has
the influence w (S - its mean) / sum of w; pairs sharpen the error by sharing clusters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..scores import RANGES, Compat, applicable
from .arrays import Flags, Floats, Places
from .bounds import bounded
from .estimate import Ends
from .inference import Influences, Keys, mean_of
from .worlds import answer_scores, asd_ends, asd_weights


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict, or one for each of several worlds of a question."""

    question: str
    values: tuple[float, ...]
    worlds: tuple[tuple[float, ...] | None, ...]
    """By answer argued, the probability of each answer; None without a verdict, () if not run."""
    clusters: Mapping[str, str]
    """By kind of cluster, its name: problem, judge, speaker."""
    first: tuple[float, ...] | None = None
    """What the judge believed before anything was said."""
    everywhere: bool = False
    """Whether one verdict stands for all worlds: every answer was argued."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Judgements under one score. None where the judgements do not determine a figure."""

    score: str
    n: int
    asd: Influences | None
    truth: Influences | None
    """Score of the best answer, over all judgements and worlds."""
    before: Influences | None
    """ASD of what the judges believed before anything was said, over all judgements."""
    paired: Influences | None
    """ASD of the questions judged in every world, question by question."""
    bounds: tuple[float, float, Ends | None] | None
    """Least and most that verdicts which failed could make of the ASD, and the interval of what it
    would have been (Stoye 2009); None if none failed."""

    @property
    def gain(self) -> Influences | None:
        """ASD less that before: what was gained within the judgements."""
        return self.asd - self.before if self.asd and self.before else None


def scored(judgements: Sequence[Judgement], score: str, compat: Compat = "none") -> Scored | None:
    """Judgements under a score; None if none admits it."""
    fit = [each for each in judgements if score in applicable(len(each.values))]
    if not fit:
        return None
    lines = _Lines(fit, score, compat)
    there = ~np.isnan(lines.scores)
    # A judgement that lacks a verdict counts in no world: leaving out one world of a pair would
    # weigh the others as if they were alone.
    known = ~np.isin(lines.of, lines.of[~there])
    asd = lines.asd(known, lines.scores)
    # A verdict that counts in every world is one judgement.
    once = np.flatnonzero(known & ~(lines.everywhere & (lines.world > 0)))
    truth = mean_of(lines.truth[once], lines.keys(once), RANGES[score]) if len(once) else None
    bounds = None
    if not there.all():
        ends = RANGES[score]
        low, high = (
            lines.asd(
                np.ones_like(known),
                np.where(there, lines.scores, np.where(lines.weight > 0, up, down)),
            )
            for up, down in (ends, ends[::-1])
        )
        if low and high:
            least, most = low.estimate(), high.estimate()
            bounds = least.value, most.value, bounded(least, most)
    before = _before(lines) if all(each.first for each in fit) else None
    return Scored(score, len(fit), asd, truth, before, lines.paired(), bounds)


class _Lines:
    """Every (judgement, world) that was run, one line each."""

    def __init__(self, judgements: Sequence[Judgement], score: str, compat: Compat) -> None:
        self.judgements, self.range = judgements, RANGES[score]
        self.compat: Compat = compat
        self.score = score
        blocks: list[tuple[Floats | Places, ...]] = []
        self.lows, self.highs = np.empty(len(judgements)), np.empty(len(judgements))
        self.sums: Floats = np.empty(len(judgements))
        """Sum of the positive weights of each judgement's answers."""
        for answers in sorted({len(each.values) for each in judgements}):
            places = np.array([n for n, j in enumerate(judgements) if len(j.values) == answers])
            none = (np.nan,) * answers
            table = np.array([[w or none for w in judgements[n].worlds] for n in places])
            ran = np.array([[w != () for w in judgements[n].worlds] for n in places])
            values = np.array([judgements[n].values for n in places], np.float64)
            weights = asd_weights(values, compat)
            scores = answer_scores(table, score, compat)
            best = values == values.max(axis=1, keepdims=True)
            truth = (scores * best[:, None]).sum(axis=2) / best.sum(axis=1, keepdims=True)
            of, world = np.nonzero(ran)
            own = np.diagonal(scores, axis1=1, axis2=2)
            blocks.append((places[of], world, weights[of, world], own[of, world], truth[of, world]))
            self.lows[places], self.highs[places] = asd_ends(values, self.range, compat)
            self.sums[places] = np.maximum(weights, 0).sum(axis=1)
        of, world, weight, scores, truth = (
            np.concatenate(each) for each in zip(*blocks, strict=True)
        )
        self.of: Places = of.astype(np.int64)
        """The judgement of each line."""
        self.world: Places = world.astype(np.int64)
        self.weight: Floats = weight
        self.scores: Floats = scores
        self.truth: Floats = truth
        self.everywhere = np.array([each.everywhere for each in judgements])[self.of]
        self._keys = {
            name: np.array([each.clusters[name] for each in judgements])
            for name in judgements[0].clusters
        }

    def keys(self, lines: Places) -> dict[str, Keys]:
        return {name: keys[self.of[lines]] for name, keys in self._keys.items()}

    def asd(self, known: Flags, scores: Floats) -> Influences | None:
        """ASD over the lines that are known; None without a line of either sign."""
        value, whole = 0.0, float(self.sums.mean())
        psi = np.zeros(len(scores))
        for sign in (1.0, -1.0):
            inside = np.flatnonzero(known & (np.sign(self.weight) == sign))
            if not len(inside):
                return None
            w = np.abs(self.weight[inside])
            mean = float((w * scores[inside]).sum() / w.sum())
            value += sign * whole * mean
            psi[inside] = sign * whole * w * (scores[inside] - mean) / w.sum()
        lines = np.flatnonzero(known & (self.weight != 0))
        ends = float(self.lows.mean()), float(self.highs.mean())
        n, strata = len(np.unique(self.of[lines])), (self.weight[lines] < 0).astype(np.int64)
        return Influences(value, psi[lines], self.keys(lines), ends, strata, n)

    def paired(self) -> Influences | None:
        """ASD of the questions judged in every world, each the sum of its worlds' mean scores."""
        known = np.flatnonzero(~np.isnan(self.scores))
        questions = np.array([each.question for each in self.judgements])
        names, question = np.unique(questions[self.of[known]], return_inverse=True)
        worlds = int(self.world.max()) + 1
        place = question * worlds + self.world[known]
        size = len(names) * worlds
        counts = np.bincount(place, minlength=size)
        sums = np.bincount(place, self.weight[known] * self.scores[known], size)
        means = (sums / np.maximum(counts, 1)).reshape(-1, worlds)
        _, first = np.unique(question, return_index=True)
        judged = self.of[known][first]
        answers = np.array([len(self.judgements[n].values) for n in judged])
        whole = (counts.reshape(-1, worlds) > 0).sum(axis=1) == answers
        if not whole.any():
            return None
        of = judged[whole]
        keys = {"problem": self._keys.get("problem", questions)[of]}
        ends = float(self.lows[of].mean()), float(self.highs[of].mean())
        return mean_of(means[whole].sum(axis=1), keys, ends)


def _before(lines: _Lines) -> Influences:
    """ASD of the first beliefs."""
    values = np.array(
        [
            float(
                (
                    asd_weights(each.values, lines.compat)
                    * answer_scores(each.first or (), lines.score, lines.compat)
                ).sum()
            )
            for each in lines.judgements
        ]
    )
    every = np.arange(len(values))
    keys = {name: keys[every] for name, keys in lines._keys.items()}
    return mean_of(values, keys, (float(lines.lows.mean()), float(lines.highs.mean())))
