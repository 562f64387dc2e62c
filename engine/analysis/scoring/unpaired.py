"""ASD of judgements where questions need not be judged in every world.

With w_a the value of answer a less the mean value, J+ all (judgement, world) with w_a > 0, J- those
with w_a < 0, and W the mean over judgements of the sum of the positive w_a (1 for values +1 and
-1):

    ASD = W (mean over J+ of S(p, a), by w_a,  -  mean over J- of S(p, a), by -w_a)

the ratio form of Hajek of Horvitz and Thompson's estimator. It needs worlds assigned at random, and
equals the paired ASD where every question is judged once in each world. Each (judgement, world) has
the influence w (S - its mean) / sum of w; pairs sharpen the error by sharing clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....protocols.scores import RANGES, Compat, applicable
from .arrays import Flags, Floats, Places
from .bounds import bounded
from .estimate import Ends
from .inference import Influences, Keys, mean_of
from .judgements import Judgements
from .worlds import Worlds, answer_scores, asd_ends, asd_weights, chosen_ends

BLOCK = 2**16
"""Judgements that are scored at once, which bounds the memory that it takes."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Judgements under one score. None where the judgements do not determine a figure."""

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


def admitting(every: Judgements, score: str) -> Judgements | None:
    """The judgements with so many answers that the score is defined; None without any."""
    fit = [k for k in np.unique(every.answers).tolist() if score in applicable(k)]
    there = np.isin(every.answers, fit)
    return every if there.all() else every[there] if there.any() else None


def scored(
    judgements: Judgements, score: str, compat: Compat = "none", ways: Sequence[str] = ()
) -> Scored | None:
    """Judgements under a score; None if none admits it. ways: the kinds of clusters that are
    random, by default all. ValueError for a kind that some judgement lacks."""
    fit = admitting(judgements, score)
    if fit is None:
        return None
    lines = _Lines(fit, score, compat, ways)
    # First, since it takes the most memory on the way.
    paired = lines.paired()
    there = ~np.isnan(lines.scores)
    # A judgement that lacks a verdict counts in no world: leaving out one world of a pair would
    # weigh the others as if they were alone.
    known = ~np.isin(lines.of, lines.of[~there])
    # A verdict that counts in every world is one judgement.
    once = np.flatnonzero(known & ~(fit.everywhere[lines.of] & (lines.world > 0)))
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
    asd = lines.asd(known, lines.scores)
    return Scored(len(fit), asd, truth, lines.before(), paired, bounds)


def chosen(
    judgements: Judgements,
    score: str,
    betas: Sequence[float],
    compat: Compat = "none",
    ways: Sequence[str] = (),
) -> dict[tuple[str, float], Influences]:
    """JSE and EAS by beta, of judgements with a verdict in every world; none if some were not run
    in every world."""
    fit = admitting(judgements, score)
    if fit is None or not (fit.ran.sum(axis=1) == fit.answers).all():
        return {}
    whole = ~fit.everywhere & ~fit.lost.any(axis=1)
    kept = fit if whole.all() else fit[whole]
    if not len(kept):
        return {}
    columns: dict[tuple[str, float], Floats] = {}
    ends: Floats = np.empty((len(kept), 2))
    for k, at in _blocks(kept):
        worlds = Worlds(kept.worlds[at, :k, :k], kept.values[at, :k], compat)
        ends[at] = chosen_ends(k, RANGES[score], compat)
        for name, of in (("jse", worlds.jse), ("eas", worlds.eas)):
            for beta in betas:
                columns.setdefault((name, beta), np.empty(len(kept)))[at] = of(score, beta)
    low, high = ends.mean(axis=0).tolist()
    keys = kept.clusters(ways)
    return {name: mean_of(values, keys, (low, high)) for name, values in columns.items()}


def _blocks(every: Judgements) -> Iterator[tuple[int, Places]]:
    """Judgements with equally many answers, not too many at once, by their places."""
    for k in np.unique(every.answers).tolist():
        places = np.flatnonzero(every.answers == k)
        for start in range(0, len(places), BLOCK):
            yield k, places[start : start + BLOCK]


class _Lines:
    """Every (judgement, world) that was run, one line each."""

    def __init__(self, every: Judgements, score: str, compat: Compat, ways: Sequence[str]) -> None:
        self.every, self._keys = every, every.clusters(ways)
        blocks: list[tuple[Floats | Places, ...]] = []
        self.lows, self.highs, self.sums, self.first = np.empty((4, len(every)))
        """By judgement: least and most ASD, the sum of its positive weights, and the ASD of its
        first belief."""
        for k, places in _blocks(every):
            values = every.values[places, :k]
            weights = asd_weights(values, compat)
            scores = answer_scores(every.worlds[places, :k, :k], score, compat)
            best = values == values.max(axis=1, keepdims=True)
            truth = (scores * best[:, None]).sum(axis=2) / best.sum(axis=1, keepdims=True)
            of, world = np.nonzero(every.ran[places, :k])
            own = np.diagonal(scores, axis1=1, axis2=2)
            blocks.append((places[of], world, weights[of, world], own[of, world], truth[of, world]))
            self.lows[places], self.highs[places] = asd_ends(values, RANGES[score], compat)
            self.sums[places] = np.maximum(weights, 0).sum(axis=1)
            before = answer_scores(every.first[places, :k], score, compat)
            self.first[places] = (weights * before).sum(axis=1)
        of, world, weight, scores, truth = (
            np.concatenate(each) for each in zip(*blocks, strict=True)
        )
        self.of: Places = of.astype(np.int64)
        """The judgement of each line."""
        self.world: Places = world.astype(np.int64)
        self.weight: Floats = weight
        self.scores: Floats = scores
        self.truth: Floats = truth

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
        n, strata = len(np.unique(self.of[lines])), (self.weight[lines] < 0).astype(np.int64)
        return Influences(value, psi[lines], self.keys(lines), self._ends(), strata, n)

    def before(self) -> Influences | None:
        """ASD of the first beliefs; None if some judge stated none."""
        if np.isnan(self.first).any():
            return None
        return mean_of(self.first, self._keys, self._ends())

    def paired(self) -> Influences | None:
        """ASD of the questions judged in every world, each the sum of its worlds' mean scores."""
        known = np.flatnonzero(~np.isnan(self.scores))
        names, first, question = np.unique(
            self.every.question[self.of[known]], return_index=True, return_inverse=True
        )
        worlds = int(self.world.max()) + 1
        place = question * worlds + self.world[known]
        size = len(names) * worlds
        counts = np.bincount(place, minlength=size)
        sums = np.bincount(place, self.weight[known] * self.scores[known], size)
        means = (sums / np.maximum(counts, 1)).reshape(-1, worlds)
        judged = self.of[known][first]
        whole = (counts.reshape(-1, worlds) > 0).sum(axis=1) == self.every.answers[judged]
        if not whole.any():
            return None
        of = judged[whole]
        keys = {"problem": self._keys.get("problem", self.every.question)[of]}
        return mean_of(means[whole].sum(axis=1), keys, self._ends(of))

    def _ends(self, of: Places | slice = slice(None)) -> Ends:
        return float(self.lows[of].mean()), float(self.highs[of].mean())
