"""Quality of each judge, agreement between judges, and beliefs round by round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...protocols.scores import TIE
from .findings.finding import Column, Finding, Part, change, figure, number, share, word
from .scoring.agreement import Agreement, Calibration, calibration, krippendorff_alpha, shrunk
from .scoring.asd import answer_scores, found_right
from .scoring.estimate import Ends, Estimate, Interval
from .scoring.inference import WAY, ErrorKind, Flags, Floats, Places, mean_of
from .scoring.judgements import Judgements


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdicts of some judgements; one that stands for all worlds counts once."""

    every: Judgements
    line: Places
    """The judgement of each verdict."""
    world: Places
    probs: Floats
    right: Floats
    """Whether a best answer is the likeliest; answers that tie share."""
    score: Floats
    """Brier score of the truth, in [-2, 0]."""

    @property
    def largest(self) -> Floats:
        largest: Floats = np.nanmax(self.probs, axis=1)
        return largest

    def by_transcript(self, among: Flags | slice = slice(None)) -> list[Places]:
        """The verdicts on each transcript, as indices."""
        kinds = [k for k in ("file", "setting", "speaker", "repeat") if k in self.every.codes]
        keys = [self.every.codes[kind][self.line] for kind in kinds]
        world = np.where(self.every.everywhere[self.line], -1, self.world)
        columns = np.stack((self.every.question[self.line], world, *keys))
        transcript = np.unique(columns, axis=1, return_inverse=True)[1].ravel()
        at = np.arange(len(self.line))[among]
        at = at[np.argsort(transcript[at], kind="stable")]
        return np.split(at, np.flatnonzero(np.diff(transcript[at])) + 1) if len(at) else []

    @property
    def calibration(self) -> Calibration:
        """Calibration of the largest probability."""
        return calibration(self.largest, self.right, self.every.clusters(WAY)["problem"][self.line])

    @property
    def moved(self) -> Estimate | None:
        """The score minus the first belief's score; None if nobody stated a first belief."""
        first = self.every.first[self.line]
        present = ~np.isnan(first[:, 0])
        if not present.any():
            return None
        gained = self.score[present] - truths(first[present], self.every.best[self.line[present]])
        return self.mean(gained, (-2.0, 2.0), among=present)

    def mean(
        self,
        values: Floats,
        ends: Ends,
        ways: Sequence[str] = WAY,
        error: ErrorKind = "cr3",
        interval: Interval = "t",
        among: Flags | Places | slice = slice(None),
    ) -> Estimate:
        """The mean of one value per verdict, or per verdict `among` them, by these clusters."""
        keys = {way: codes[self.line[among]] for way, codes in self.every.clusters(ways).items()}
        return mean_of(values, keys, ends).estimate(error, interval)

    def how_right(self) -> Estimate:
        return self.mean(self.right, (0.0, 1.0))

    def how_good(self) -> Estimate:
        return self.mean(self.score, (-2.0, 0.0))


def verdicts_of(every: Judgements) -> Verdicts | None:
    """None without a verdict."""
    line, world, probs = every.verdicts()
    if not len(line):
        return None
    best = every.best[line]
    return Verdicts(every, line, world, probs, found_right(probs, best), truths(probs, best))


def truths(probs: Floats, best: Flags) -> Floats:
    """Brier score of the best answers under each verdict; unused places of `probs` are NaN."""
    return _means(answer_scores(np.nan_to_num(probs), "brier"), best)


def _means(values: Floats, best: Flags) -> Floats:
    means: Floats = np.where(best, values, 0.0).sum(axis=1) / best.sum(axis=1)
    return means


@dataclass(frozen=True, slots=True)
class Rater:
    judge: str
    n: int
    right: Estimate
    score: Estimate
    """Mean Brier score of the truth."""
    shrunk: float
    """`score`, shrunk toward the mean of all raters by its share of noise (empirical Bayes). Raters
    are ranked by it, so that one with a single judgement does not top the table."""
    calibration: Calibration
    moved: Estimate | None
    """Change by the transcript, of verdicts with a belief before it."""


def raters(every: Judgements) -> list[Rater]:
    """Judges with a verdict, in the order of their first one."""
    parts = every.by("judge")
    by_judge = {judge: v for judge, part in parts.items() if (v := verdicts_of(part))}
    if not by_judge:
        return []
    scores = [verdicts.score for verdicts in by_judge.values()]
    n = np.array([len(score) for score in scores], np.float64)
    means = np.array([score.mean() for score in scores])
    within = sum(float(np.square(score - score.mean()).sum()) for score in scores)
    noise = within / max(n.sum() - len(n), 1.0) / n
    drawn = shrunk(means, noise, float((n * means).sum() / n.sum())).tolist()
    return [
        Rater(judge, len(v.line), v.how_right(), v.how_good(), to, v.calibration, v.moved)
        for (judge, v), to in zip(by_judge.items(), drawn, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Beside:
    """One judge and others on the same transcripts."""

    first: str
    second: str
    transcripts: int
    judgements: int
    """Judgements by the others."""
    first_score: Estimate
    """Brier score of the truth."""
    second_score: Estimate
    """The mean of the others' scores on each transcript."""
    difference: Estimate
    """The others minus the first: above zero, they are better."""
    apart: float
    """Mean distance of the probability of the truth from the others' mean, in [0, 1]."""
    same: float
    """Share of transcripts on which both find the same answer likeliest."""
    correlation: float | None
    alpha: Agreement | None
    """Krippendorff's alpha of the two, taken as two raters."""


def beside(names: tuple[str, str], every: Judgements, first: Flags, second: Flags) -> Beside | None:
    """Some judgements and others, on the transcripts that both have; None without any. Of
    several first judgements of one transcript, the earliest counts."""
    verdicts = verdicts_of(every)
    if verdicts is None:
        return None
    line, paired, theirs = verdicts.line, list[int](), list[Places]()
    for members in verdicts.by_transcript():
        mine, others = members[first[line[members]]], members[second[line[members]]]
        if len(mine) and len(others):
            paired.append(int(mine[0]))
            theirs.append(others)
    if not paired:
        return None
    ours: Places = np.array(paired)
    means = np.array([verdicts.probs[others].mean(axis=0) for others in theirs])
    scores = np.array([verdicts.score[others].mean() for others in theirs])
    truth = np.array([_means(p, every.best[line[ours]]) for p in (verdicts.probs[ours], means)])
    pairs = np.stack((means, verdicts.probs[ours]), axis=1)
    clusters = every.clusters(WAY)["problem"][line[ours]].tolist()
    spread = len(ours) > 1 and bool(truth.std(axis=1).all())
    return Beside(
        *names,
        len(ours),
        sum(map(len, theirs)),
        verdicts.mean(verdicts.score[ours], (-2.0, 0.0), among=ours),
        verdicts.mean(scores, (-2.0, 0.0), among=ours),
        verdicts.mean(scores - verdicts.score[ours], (-2.0, 2.0), among=ours),
        float(np.abs(truth[0] - truth[1]).mean()),
        float((likeliest(pairs[:, 0]) == likeliest(pairs[:, 1])).all(axis=1).mean()),
        float(np.corrcoef(truth)[0, 1]) if spread else None,
        krippendorff_alpha(np.nan_to_num(pairs).tolist(), clusters),
    )


def likeliest(probs: Floats) -> Floats:
    """Indicator of the likeliest answer of each verdict; answers that tie share the 1 equally."""
    top = np.nan_to_num(probs) >= np.nanmax(probs, axis=1, keepdims=True) - TIE
    shares: Floats = top / top.sum(axis=1, keepdims=True)
    return shares


def alphas(every: Judgements) -> dict[str, Agreement | None]:
    """Krippendorff's alpha over the transcripts with two judges or more, of the answer found
    likeliest and of the probabilities; apart for those in which one answer is argued. Probabilities
    are in the order in which the answers were shown, where it is known (`order`)."""
    verdicts = verdicts_of(every)
    if verdicts is None:
        return {}
    line, probs = verdicts.line, verdicts.probs
    if "order" in every.codes:
        orders = [[*map(int, name.split())] for name in every.names["order"]]
        probs = np.array(
            [p[orders[n]] for p, n in zip(probs, every.codes["order"][line].tolist(), strict=True)]
        )
    problem = every.clusters(WAY)["problem"][line]
    kinds = {"probabilities (interval)": probs, "likeliest answer (nominal)": likeliest(probs)}
    agreements = dict[str, Agreement | None]()
    for argued, among in (
        ("every answer argued", every.everywhere[line]),
        ("one answer argued", ~every.everywhere[line]),
    ):
        units = verdicts.by_transcript(among)
        for kind, points in kinds.items() if units else ():
            values = [np.nan_to_num(points[members]).tolist() for members in units]
            clusters = [int(problem[members[0]]) for members in units]
            agreements[f"{kind}; {argued}"] = krippendorff_alpha(values, clusters)
    return agreements


@dataclass(frozen=True, slots=True)
class Step:
    """Beliefs of a setting's judges after a number of rounds, carried forward."""

    setting: str
    rounds: int
    n: int
    open: int
    """Judges who went on after it."""
    score: Estimate
    """Brier score of the truth."""
    right: float
    """Share with the truth likeliest; a tie counts half."""
    to_right: int
    """Judgements that were wrong at first and right by now."""
    to_wrong: int


def trajectory(every: Judgements) -> Iterator[Step]:
    """Round by round, setting by setting, of the judgements that state their beliefs."""
    if not every.beliefs:
        return
    believing = every[np.array([bool(beliefs) for beliefs in every.beliefs])]
    for setting, part in believing.by("setting").items():
        first, last = verdicts_of(part.after(0)), [beliefs[-1][0] for beliefs in part.beliefs]
        for k in range(max(last) + 1):
            now = verdicts_of(part.after(k))
            assert first and now, "each belief is a verdict"
            to_right = int(((first.right == 0) & (now.right == 1)).sum())
            to_wrong = int(((first.right == 1) & (now.right == 0)).sum())
            went_on, right = sum(n > k for n in last), float(now.right.mean())
            yield Step(setting, k, len(part), went_on, now.how_good(), right, to_right, to_wrong)


def raters_part(every: Judgements, title: str) -> Part:
    columns = [
        word("judge", "judge"),
        number("n", "n"),
        share("right", "right.value", key="right"),
        figure("Brier", "score"),
        change("shrunk", "shrunk"),
        number("calibration error", "calibration.debiased_error", "z.3f"),
        change("overconfident", "calibration.overconfidence"),
        figure("moved by the transcript", "moved"),
    ]
    notes = ("shrunk: Brier score, shrunk toward the mean of all by its noise; the order.",)
    lines = sorted(raters(every), key=lambda rater: (-rater.shrunk, -rater.n))
    return Part("raters", title, columns, lines, notes)


@dataclass(frozen=True, slots=True)
class _Alpha:
    of: str
    agreement: Agreement | None


def agreement_part(agreements: Mapping[str, Agreement | None], notes: Sequence[str] = ()) -> Part:
    """agreements: Krippendorff's alpha, by the values that agree."""
    columns = [
        word("of", "of"),
        figure("alpha", "agreement.alpha", key="alpha"),
        number("units", "agreement.units", key="units"),
        number("values", "agreement.values", key="values"),
    ]
    title = "Agreement on one transcript (Krippendorff's alpha)"
    return Part("agreement", title, columns, [_Alpha(*pair) for pair in agreements.items()], notes)


def beside_part(title: str, lines: Sequence[Beside | None]) -> Part:
    columns = [
        word("judge", "first"),
        word("and", "second", key="second"),
        number("transcripts", "transcripts"),
        number("judgements", "judgements"),
        figure("Brier", "first_score"),
        figure("of the others", "second_score"),
        figure("others minus judge", "difference"),
        number("apart", "apart", ".3f"),
        share("same", "same"),
        number("correlation", "correlation", ".3f"),
        figure("alpha", "alpha.alpha", 2, key="alpha"),
    ]
    return Part("beside", title, columns, [line for line in lines if line], ())


def trajectory_part(every: Judgements) -> Part:
    columns: list[Column] = [
        word("setting", "setting"),
        number("rounds", "rounds"),
        number("n", "n"),
        number("open", "open"),
        figure("Brier of truth", "score"),
        number("right", "right", ".4f"),
        number("wrong → right", "to_right", key="to_right"),
        number("right → wrong", "to_wrong", key="to_wrong"),
    ]
    notes = ("rounds: rounds heard; the last belief of a judge who stopped is carried forward.",)
    return Part("trajectory", "beliefs round by round", columns, list(trajectory(every)), notes)


def agreement_of(every: Judgements, about: str) -> Finding:
    """Quality of the judges, and their agreement. Judgements that a study's own figures leave out
    (key `aside`) are compared with the others."""
    aside = every.codes.get("aside", np.full(len(every), -1))
    modes = every.names.get("aside", ())
    pairs = [("others", aside >= 0)]
    pairs += [(mode, aside == n) for n, mode in enumerate(modes)] if len(modes) > 1 else []
    lines = [beside(("included", name), every, aside < 0, those) for name, those in pairs]
    parts = (
        raters_part(every[aside < 0], "Judges"),
        beside_part("Judges of one transcript, side by side", lines),
        agreement_part(alphas(every)),
    )
    return Finding(parts, {"study": about})
