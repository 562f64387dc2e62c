"""How good those are who judged, one by one, and how far they agree: of people and models alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ...protocols.question import Problem
from ...protocols.scores import TIE, brier
from .findings.finding import Part, change, figure, number, share, word
from .scoring.agreement import Agreement, krippendorff_alpha, shrunk
from .scoring.arrays import Flags, Floats, Places
from .scoring.calibration import Calibration, calibration
from .scoring.estimate import Ends, Estimate, Interval
from .scoring.inference import WAY, ErrorKind, cluster, mean_of
from .scoring.judgements import Judgements
from .scoring.worlds import answer_scores, found_right

Probs = tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Every verdict of some judgements; one that stands for all worlds counts once."""

    every: Judgements
    of: Places
    """The judgement of each."""
    right: Floats
    """Whether a best answer is the likeliest; answers that tie share."""
    score: Floats
    """Brier score of the truth, in [-2, 0]."""
    largest: Floats

    @property
    def calibration(self) -> Calibration:
        """Of the largest probability."""
        return calibration(self.largest, self.right, self.every.clusters(WAY)["problem"][self.of])

    @property
    def moved(self) -> Estimate | None:
        """The score less that of what was believed before; None where nobody stated that."""
        first = self.every.first[self.of]
        known = ~np.isnan(first[:, 0])
        if not known.any():
            return None
        gained = self.score[known] - truths(first[known], self.every.best[self.of[known]])
        return self.mean(gained, (-2.0, 2.0), among=known)

    def mean(
        self,
        values: Floats,
        ends: Ends,
        ways: Sequence[str] = WAY,
        error: ErrorKind = "cr3",
        interval: Interval = "t",
        among: Flags | slice = slice(None),
    ) -> Estimate:
        """The mean of one value a verdict, or a verdict `among` them, by these clusters."""
        keys = {way: codes[self.of[among]] for way, codes in self.every.clusters(ways).items()}
        return mean_of(values, keys, ends).estimate(error, interval)

    def how_right(self) -> Estimate:
        return self.mean(self.right, (0.0, 1.0))

    def how_good(self) -> Estimate:
        return self.mean(self.score, (-2.0, 0.0))


def told(every: Judgements) -> Told | None:
    """None without a verdict."""
    of, probs = every.verdicts()
    if not len(of):
        return None
    best, largest = every.best[of], np.nanmax(probs, axis=1)
    return Told(every, of, found_right(probs, best), truths(probs, best), largest)


def truths(probs: Floats, best: Flags) -> Floats:
    """Brier score of the best answers under each verdict; those of fewer answers end in NaN."""
    scores = answer_scores(np.nan_to_num(probs), "brier")
    found: Floats = np.where(best, scores, 0.0).sum(axis=1) / best.sum(axis=1)
    return found


@dataclass(frozen=True, slots=True)
class Rater:
    """How good one judge is."""

    judge: str
    n: int
    right: Estimate
    score: Estimate
    """Mean Brier score of the truth."""
    shrunk: float
    """`score`, drawn to that of all raters by as much as it is chance (empirical Bayes): the figure
    to rank by. Who judged once must not top the table."""
    calibration: Calibration
    moved: Estimate | None
    """Change by the transcript, of verdicts with a belief before it."""


def raters(every: Judgements) -> list[Rater]:
    """Those who gave a verdict, in the order in which they came."""
    parts = every.by("judge")
    found = {judge: its for judge in parts if (its := told(parts[judge]))}
    if not found:
        return []
    scores = [its.score for its in found.values()]
    n = np.array([len(each) for each in scores], np.float64)
    means = np.array([each.mean() for each in scores])
    within = sum(float(np.square(each - each.mean()).sum()) for each in scores)
    chance = within / max(n.sum() - len(n), 1.0) / n
    drawn = shrunk(means, chance, float((n * means).sum() / n.sum())).tolist()
    return [
        Rater(judge, len(its.of), its.how_right(), its.how_good(), to, its.calibration, its.moved)
        for (judge, its), to in zip(found.items(), drawn, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Both:
    """One transcript, as one judge and as others found it."""

    problem: Problem
    one: Probs
    others: Sequence[Probs]

    @property
    def mean(self) -> Probs:
        """The others' mean probabilities."""
        return tuple(map(fmean, zip(*self.others, strict=True)))


@dataclass(frozen=True, slots=True)
class Beside:
    """One judge and others on the same transcripts."""

    first: str
    second: str
    transcripts: int
    judgements: int
    """Of the others."""
    first_score: Estimate
    """Brier score of the truth."""
    second_score: Estimate
    """The mean of the others' scores on each transcript."""
    difference: Estimate
    """The others less the first: above zero, they are better."""
    apart: float
    """Mean distance of the probability of the truth from the others' mean, in [0, 1]."""
    same: float
    """Share of transcripts on which both find the same answer likeliest."""
    correlation: float | None
    alpha: Agreement | None
    """Krippendorff's alpha of the two, taken as two raters."""


def beside(first: str, second: str, pairs: Sequence[Both]) -> Beside:
    """ValueError without a transcript."""
    problems = [each.problem for each in pairs]
    keys = {"problem": np.array([cluster(each.id, each.group) for each in problems])}
    ours = [brier(each.one, each.problem.best) for each in pairs]
    theirs = [fmean(brier(p, each.problem.best) for p in each.others) for each in pairs]
    means = [each.mean for each in pairs]
    of_truth = np.array(
        [(e.one[e.problem.best], m[e.problem.best]) for e, m in zip(pairs, means, strict=True)]
    )
    spread = len(pairs) > 1 and bool(of_truth.std(axis=0).all())
    return Beside(
        first,
        second,
        len(pairs),
        sum(len(each.others) for each in pairs),
        mean_of(ours, keys, (-2.0, 0.0)).estimate(),
        mean_of(theirs, keys, (-2.0, 0.0)).estimate(),
        mean_of(np.subtract(theirs, ours), keys, (-2.0, 2.0)).estimate(),
        float(np.abs(of_truth[:, 0] - of_truth[:, 1]).mean()),
        fmean(likeliest(e.one) == likeliest(m) for e, m in zip(pairs, means, strict=True)),
        float(np.corrcoef(of_truth.T)[0, 1]) if spread else None,
        alpha([(m, e.one) for e, m in zip(pairs, means, strict=True)], [p.id for p in problems]),
    )


def likeliest(probs: Sequence[float]) -> Probs:
    """Indicator of the likeliest answer; answers that tie share the 1 equally."""
    top = [p >= max(probs) - TIE for p in probs]
    return tuple(each / sum(top) for each in top)


def alpha(units: Sequence[Sequence[Probs]], clusters: Sequence[str] = ()) -> Agreement | None:
    """Krippendorff's alpha of probabilities, those of fewer answers filled up with 0."""
    most = max((len(p) for unit in units for p in unit), default=0)
    filled = [[(*p, *(0.0,) * (most - len(p))) for p in unit] for unit in units]
    return krippendorff_alpha(filled, clusters)


def raters_part(every: Judgements, title: str) -> Part:
    """How good each of those is who judged, the best first."""
    columns = [
        word("judge", "judge"),
        number("n", "n"),
        share("right", "right.value", key="right"),
        figure("Brier", "score"),
        change("shrunk", "shrunk"),
        number("calibration error", "calibration.debiased_error", "z.3f"),
        change("overconfident", "calibration.overconfidence"),
        figure("moved by what was said", "moved"),
    ]
    notes = ("shrunk: Brier score, shrunk toward the mean of all by its noise; the order.",)
    lines = sorted(raters(every), key=lambda rater: (-rater.shrunk, -rater.n))
    return Part("raters", title, columns, lines, notes)


@dataclass(frozen=True, slots=True)
class _Alpha:
    of: str
    agreement: Agreement | None


def agreement_part(
    title: str, found: Mapping[str, Agreement | None], notes: Sequence[str] = ()
) -> Part:
    """found: Krippendorff's alpha, by what it is of."""
    columns = [
        word("of", "of"),
        figure("alpha", "agreement.alpha", key="alpha"),
        number("units", "agreement.units", key="units"),
        number("values", "agreement.values", key="values"),
    ]
    return Part("agreement", title, columns, [_Alpha(*each) for each in found.items()], notes)


def beside_part(title: str, lines: Sequence[Beside]) -> Part:
    columns = [
        word("judge", "first"),
        word("and", "second", key="second"),
        number("transcripts", "transcripts"),
        number("judgements", "judgements"),
        figure("Brier", "first_score"),
        figure("of the others", "second_score"),
        figure("others less judge", "difference"),
        number("apart", "apart", ".3f"),
        share("same", "same"),
        number("correlation", "correlation", ".3f"),
        figure("alpha", "alpha.alpha", 2, key="alpha"),
    ]
    return Part("beside", title, columns, lines)
