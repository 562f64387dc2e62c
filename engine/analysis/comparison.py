"""Comparison of rows: contrasts between the rows of one run, or of two runs.

Each `scoring.contrasts.Contrast` comes with the judge's flips, the bounds set by failed worlds, and
the questions on which the two differ most. No call is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ..display.table import NONE
from ..display.text import counted, signed
from ..errors import UsageError
from ..system.settings import flag
from .differences import (
    DifferenceBounds,
    McNemar,
    difference_bounds,
    flips_between,
    instrument_notes,
    mcnemar,
    most_apart,
    ranks_of,
    swayed,
)
from .findings.finding import (
    Column,
    Finding,
    Part,
    column,
    conservative,
    figure,
    number,
    people,
    program,
    share,
    significance,
    span,
    word,
)
from .judged import asds, by_setting, pair_of, ways_of
from .pairs import against_naive, distinct
from .reading import read_judgements
from .reports.family import fragile, rare_errors, same_verdicts
from .reports.formats import above_0
from .reports.results import SCORE_NAMES
from .rows import RunRows, pairs_between, pairs_within
from .scores import OfScores, is_scores, score_pairs
from .scoring.agreement import Flips
from .scoring.contrasts import MARGIN, Contrast, RankSet, comparable, contrasts
from .scoring.estimate import Interval
from .scoring.inference import FEW_CLUSTERS, WAY, Influences

RowPlace: TypeAlias = tuple[int, int]
"""A row: the index of its run, and its index in that run; a setting: 0, and its index."""

Places: TypeAlias = Sequence[tuple[RowPlace, RowPlace]]

MEAN_SCORE = "mean score"
"""The score of a comparison of score files."""

DETAILED = 100
"""Most contrasts for which the questions that differ most are listed."""

SEP = " · "
"""Between the parts of a row's name."""

NAMED = 5
"""Most contrasts for which the notes list the questions that differ most."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A contrast with statistics of the verdicts behind it."""

    places: tuple[RowPlace, RowPlace]
    contrast: Contrast
    flips: Flips | None = None
    """Changes of the judge from the second row to the first, world by world; None if the rows have
    no world in common, and of tables."""
    bounds: DifferenceBounds | None = None
    """Bounds of the difference over all outcomes of failed and doubtful worlds (Manski 1990); None
    of tables."""
    apart: tuple[tuple[str, float], ...] = ()
    """Questions on which the rows differ most, with the difference; () beyond `DETAILED`
    contrasts."""
    swayed: bool = False
    """Whether leaving out some one cluster moves the difference by more than its standard error."""
    mcnemar: McNemar | None = None
    """For paired scores of 0 and 1 without groups."""
    shared: float | None = None
    """Of tables, the share of the problems of both that both judged: 1 is paired, 0 are two
    samples."""

    @property
    def doubtful(self) -> bool:
        return bool(self.bounds and self.bounds.low < self.bounds.high - 1e-9)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contrasts tested together, as one family."""

    name: str
    """Name of the run, or of both runs."""
    score: str
    equivalence: float
    contrasts: tuple[Compared, ...]
    notes: tuple[str, ...] = ()
    """Other differences between two runs, and contrasts left out."""
    ranks: tuple[tuple[str, RankSet], ...] = ()
    """By row name, its simultaneous set of possible ranks; () unless all rows of a run were
    compared."""
    origins: tuple[str, ...] = ()
    """Of the replies; see `engine.run.reader.origins`."""
    family: int = 0
    """Contrasts that were tested together. Rows against their naive judges are one family,
    whichever of them are shown."""

    def __str__(self) -> str:
        """The tables that `oversight compare` prints."""
        return str(comparison_finding(self))

    def _repr_markdown_(self) -> str:
        return comparison_finding(self).text("markdown")

    @property
    def multiplicity(self) -> str:
        """Number of contrasts, and the correction of p for that number."""
        if self.family == 1:
            return "p is not corrected: 1 comparison."
        return (
            f"p (Holm): corrected for {self.family:,} comparisons: family-wise error, Holm's "
            "step-down."
        )


@dataclass(frozen=True, slots=True)
class Compare(OfScores):
    """Compare the rows of RUN: contrasts, tested together as one family."""

    baseline: str | None = flag("Compare every row with this one.", metavar="ROW")
    pairs: Literal["all"] | None = flag("Compare every row with every other.")
    contrasts: tuple[str, ...] = flag(
        "Compare row A with row B; repeatable.", name="--contrast", default=(), metavar="'A - B'"
    )
    equivalence: float = flag(
        "Rows whose ASD differs by less than this count as equivalent.",
        default=MARGIN,
        read=above_0,
        metavar="DIFFERENCE",
    )
    flips: bool = flag("Add the worlds in which the judge's verdict changes.", default=False)

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        return comparison_finding(compare_rows(run, None, self, score), flips=self.flips)

    def of_table(self, file: Path, score: str) -> Finding:
        return comparison_finding(compare_tables([file], self, score))

    def tested(
        self,
        samples: Mapping[str, Influences],
        pairs: Sequence[tuple[str, str]] | None,
        interval: Interval | None = None,
    ) -> tuple[Contrast, ...]:
        """The contrasts of these pairs. interval: where none is asked for."""
        return contrasts(
            samples,
            pairs,
            equivalence=self.equivalence,
            error=self.error,
            interval=self.interval or interval or "t",
        )


BY_DEFAULT = Compare(ways=())


def compare_rows(
    first: RunRows,
    second: RunRows | None = None,
    how: Compare = BY_DEFAULT,
    score: str = "brier",
) -> Comparison:
    """Compare the rows of one run, or the matching rows of two runs.

    A contrast is the first row minus the second; with two runs, the first run minus the second.
    Within one run: the named contrasts, all pairs, or all rows against a baseline; by default all
    rows against the naive judge, or all pairs without one. Some rows against the naive judge
    are tested with all of them, so that a row has one verdict everywhere. Of two runs, A of a
    contrast `A - B` is a row of the first and B one of the second. how.ways: `problem`, the groups
    of problems or, without any, the problems, or `question`, the problems.

    UsageError for unknown names, for baseline or pairs with two runs, if nothing can be compared,
    and for two runs that share no problem or no row.
    """
    runs = (first,) if second is None else (first, second)
    notes: tuple[str, ...] = ()
    family: Places = []
    if second is None:
        name, labels = first.sweep.name, [""]
        within = pairs_within(first, how.baseline, how.pairs, how.contrasts)
        lifts = against_naive(first.sweep.rows)
        every = distinct((*within, *lifts))
        places = [((0, one), (0, two)) for one, two in within]
        if len(every) == len(lifts):
            family = [((0, one), (0, two)) for one, two in every[len(within) :]]
    else:
        if how.baseline is not None or how.pairs is not None:
            raise UsageError("--baseline and --pairs are of one run; of two: --contrast 'A - B'")
        name = f"{first.folder.name} and {second.folder.name}"
        labels = [f" ({label})" for label in _labels(first, second)]
        matches = pairs_between(first, second, how.contrasts)
        notes = tuple(instrument_notes(first, second, matches))
        places = [((0, one), (1, two)) for one, two in matches]
    names = {
        (at, row): f"{name}{label}"
        for at, (run, label) in enumerate(zip(runs, labels, strict=True))
        for row, name in enumerate(run.names)
    }
    result = _compared(name, runs, names, places, family, score, how)
    ranks: tuple[tuple[str, RankSet], ...] = ()
    if how.pairs == "all":
        interval = how.interval or first.sweep.interval
        ranks = ranks_of(first.clustered(score, how.ways), how.error, interval)
    return replace(result, notes=(*notes, *result.notes), ranks=ranks)


def _labels(first: RunRows, second: RunRows) -> tuple[str, str]:
    names = first.folder.name, second.folder.name
    if first.folder == second.folder:
        return f"{names[0]}, first", f"{names[1]}, second"
    return names if names[0] != names[1] else (str(first.folder), str(second.folder))


def _compared(
    name: str,
    runs: Sequence[RunRows],
    names: Mapping[RowPlace, str],
    places: Places,
    family: Places,
    score: str,
    how: Compare,
) -> Comparison:
    """family: further contrasts that are tested with these, and not shown."""
    clustered = [run.clustered(score, how.ways) for run in runs]
    samples = {
        names[place]: measured
        for place in sorted({place for pair in (*places, *family) for place in pair})
        if (measured := clustered[place[0]].get(runs[place[0]].names[place[1]]))
    }
    complete, others = (
        [(a, b) for a, b in some if comparable(samples.get(names[a]), samples.get(names[b]))]
        for some in (places, family)
    )
    if not complete:
        raise UsageError(
            f"{name}: nothing to compare yet: a contrast needs two problems, or groups of them, "
            "with a verdict in every world of both rows"
        )
    pairs = [(names[one], names[two]) for one, two in (*complete, *others)]
    try:
        tested = how.tested(samples, pairs, runs[0].sweep.interval)
    except ValueError as exc:
        raise UsageError(f"{name}: {exc}") from exc
    number = {place: n for n, place in enumerate(names)}
    flips = flips_between(runs, [(number[one], number[two]) for one, two in complete])
    extremes = {}
    for run, row in {place for pair in complete for place in pair}:
        scored = runs[run].table.scored(row, score)
        extremes[run, row] = scored.extremes if scored else None
    lines = []
    for (one, two), contrast, flip in zip(complete, tested, flips, strict=False):
        line = Compared((one, two), contrast, flip, difference_bounds(extremes[one], extremes[two]))
        if len(complete) <= DETAILED:
            apart = samples[names[one]] - samples[names[two]]
            line = replace(line, apart=most_apart(apart), swayed=swayed(apart))
        lines.append(line)
    dropped = len(places) - len(complete)
    notes = [f"{dropped:,} contrasts are left out: their rows share too few problems."] * bool(
        dropped
    )
    if lost := [names[p] for p in dict.fromkeys(chain(*places)) if names[p] not in samples]:
        notes = [f"left out, since they were not measured: {', '.join(lost)}."]
    return Comparison(
        name,
        score,
        how.equivalence,
        tuple(lines),
        tuple(notes),
        origins=tuple(dict.fromkeys(line for run in runs for line in run.origins)),
        family=len(pairs),
    )


MOST_CONTRASTS = 40
"""Contrasts that are printed for people."""


def comparison_finding(
    comparison: Comparison, *, short: bool = False, flips: bool = False
) -> Finding:
    """Contrasts, flips and ranks. short: of many contrasts, text has the largest and the smallest.
    flips: whether people see the flips."""
    lines = comparison.contrasts
    several = comparison.family > 1
    clustered = any(c.contrast.estimate.clusters < c.contrast.estimate.n for c in lines)
    doubtful = any(line.doubtful for line in lines)
    undecided = any(line.contrast.verdict == "undecided" for line in lines)
    counts = {line.contrast.estimate.n for line in lines}
    common = [number("shared", "shared", ".0%")] * any(line.shared is not None for line in lines)
    names, alike = _names(lines)
    columns = [
        *names,
        column("n", "contrast.estimate.n", "{:,}".format if len(counts) > 1 else None, key="n"),
        *common,
        program("means", "contrast.means"),
        figure("difference", "contrast.estimate", 2, key="difference"),
        people("verdict", attrgetter("contrast.verdict")),
        column("p", "contrast.p", None if several else significance, key="p"),
        column("p (Holm)", "contrast.p_family", significance if several else None, key="p_family"),
        *[people("detectable", _detectable)] * undecided,
        *(program(name, f"contrast.{name}") for name in ("verdict", "undone", "agree", "mde")),
        program("effective_clusters", "contrast.estimate.effective"),
        program("equivalent", "contrast.equivalent"),
        program("errors", "contrast.estimate.errors"),
        *[people("McNemar", _mcnemar)] * any(line.mcnemar for line in lines),
        program("mcnemar", "mcnemar"),
        *[people("bounds", _bounds)] * doubtful,
        program("bounds", "bounds"),
        *[people("clusters", _clusters)] * clustered,
        program("flips", "flips", tuple(field.name for field in fields(Flips))),
        program("swayed", "swayed"),
        program(
            "apart",
            lambda line: [{"problem": id, "difference": value} for id, value in line.apart],
        ),
        program("origins", lambda line: "; ".join(comparison.origins)),
    ]
    alike += [f"n {n:,}" for n in counts] if len(counts) == 1 else []
    measure = MEAN_SCORE
    if comparison.score != MEAN_SCORE:
        measure = f"ASD ({SCORE_NAMES[comparison.score]})"
    title = f"{comparison.name}: differences of {measure}, first - second"
    notes = (*comparison.notes, *_notes(comparison, doubtful))
    every = Part("contrasts", title, columns, lines, notes, alike=alike)
    changes = Part(
        "",
        "flips: worlds that the judge gets right or wrong, second row → first row",
        [
            *names,
            share("right both", "flips.right_right"),
            share("wrong → right", "flips.wrong_right"),
            share("right → wrong", "flips.right_wrong"),
            share("wrong both", "flips.wrong_wrong"),
        ],
        [line for line in lines if line.flips],
        ("wrong → right: wrong under the second row, right under the first.",),
        shown=flips,
        alike=alike,
    )
    ranks = Part(
        "ranks",
        "ranks: the places that each row may have, all of them right at once (95%)",
        [word("row", "row"), number("best", "best"), number("worst", "worst")],
        sorted(
            (_Rank(name, rank.best, rank.worst) for name, rank in comparison.ranks),
            key=lambda rank: (rank.best, rank.worst, rank.row),
        ),
        ("1 is the highest ASD; over the problems that all rows have.",),
    )
    if short and len(lines) > MOST_CONTRASTS:
        every = replace(every, brief=_ends(every))
    about = {
        "name": comparison.name,
        "score": comparison.score,
        "equivalence": comparison.equivalence,
        "multiplicity": comparison.multiplicity,
        "notes": comparison.notes,
        "origins": comparison.origins,
    }
    return Finding((every, changes, ranks), about, comparison.origins)


def _ends(part: Part) -> Part:
    """The largest and the smallest differences."""
    half = MOST_CONTRASTS // 2
    by_size = sorted(part.lines, key=lambda line: -line.contrast.estimate.value)
    note = f"The {half} largest and {half} smallest of {len(by_size):,}"
    notes = f"{note}; all: oversight compare --all.", *part.notes
    return replace(part, lines=(*by_size[:half], *by_size[-half:]), notes=notes)


def _names(lines: Sequence[Compared]) -> tuple[list[Column], list[str]]:
    """The two rows of each contrast, and the parts of names that all contrasts share. For people,
    roles that both rows have stand once, and a second row that is always the same stands above."""
    every = [_split(line) for line in lines]
    columns, alike = list[Column](), list[str]()
    for place, head in enumerate(("first", "second", "for both")):
        texts = {parts[place] for parts in every}
        if place and len(texts) == 1:
            alike += [f"{head} {text}" for text in texts if text]
        else:
            columns.append(people(head, partial(_part, place), words=True))
    keys = [program(role, f"contrast.{role}") for role in ("first", "second")]
    return [*columns, *keys], alike


def _part(place: int, line: Compared) -> str:
    return _split(line)[place] or NONE


def _split(line: Compared) -> tuple[str, str, str]:
    """The names of two rows without the roles that both have, and these roles."""
    kind, *roles = line.contrast.first.split(SEP)
    other, *others = line.contrast.second.split(SEP)
    both = [role for role in roles if role in others]
    return (
        SEP.join([kind, *(role for role in roles if role not in both)]),
        SEP.join([other, *(role for role in others if role not in both)]),
        SEP.join(both),
    )


class _Rank(NamedTuple):
    row: str
    best: int
    worst: int


def _clusters(line: Compared) -> str:
    return f"{line.contrast.estimate.clusters} (effective {line.contrast.estimate.effective:.0f})"


def _mcnemar(line: Compared) -> str:
    test = line.mcnemar
    return f"{test.first} : {test.second}, p {significance(test.mid_p)}" if test else NONE


def _bounds(line: Compared) -> str:
    return span((line.bounds.low, line.bounds.high), 2) if line.bounds else NONE


def _detectable(line: Compared) -> str:
    contrast = line.contrast
    if contrast.verdict != "undecided":
        return NONE
    return f"{contrast.mde:.2f}" if contrast.mde else "none"


def _notes(comparison: Comparison, doubtful: bool) -> Iterator[str]:
    decided = [one.contrast for one in comparison.contrasts]
    fewest = min((one.estimate for one in decided), key=lambda one: one.effective)
    yield comparison.multiplicity
    how, ways = fewest.how or fewest.reason, " × ".join(fewest.ways)
    how += f" ({ways})" * (fewest.ways != WAY)
    how = "; ".join(filter(None, (how, conservative(one.estimate for one in decided))))
    yield f"Brackets: 95% CI, {how}. p-values and equivalence tests agree with the interval."
    yield from rare_errors(decided)
    yield from same_verdicts(decided)
    for contrast in [one for one in decided if fragile(one)][:NAMED]:
        yield f"{contrast.first} - {contrast.second}: {fragile(contrast)}."
    if any(one.verdict == "equivalent" for one in decided):
        yield f"equivalent: the 90% CI lies within ±{comparison.equivalence:g}."
    if any(one.verdict == "undecided" for one in decided):
        yield "detectable: the smallest difference found with power .8."
    if fewest.effective < FEW_CLUSTERS:
        yield (
            f"only {fewest.clusters} {'clusters' if fewest.ways != WAY else 'problems or groups'} "
            f"(effective {fewest.effective:.1f}): rough intervals."
        )
    if swayed := [one.contrast for one in comparison.contrasts if one.swayed]:
        where = ", ".join(f"{one.first} - {one.second}" for one in swayed[:NAMED])
        yield f"one problem or group changes the result by more than its standard error: {where}."
    if doubtful:
        yield "bounds: with every failed or flagged world at its worst, and at its best."
    if any(one.shared is not None for one in comparison.contrasts):
        yield "shared: of the problems or texts of both, those that both judged."
    if any(one.mcnemar for one in comparison.contrasts):
        yield "McNemar: samples that only the first, or only the second row has right; mid-p."
    elif comparison.score == MEAN_SCORE and fewest.clusters < fewest.n:
        yield "McNemar: – (grouped samples; the p of the contrast holds)."
    if len(decided) <= NAMED:
        for one in comparison.contrasts:
            if one.apart:
                apart = ", ".join(f"{id} ({signed(value)})" for id, value in one.apart)
                both = f"{one.contrast.first} and {one.contrast.second}" if decided[1:] else "they"
                yield f"problems on which {both} differ most: {apart}"


def compare_tables(files: Sequence[Path], how: Compare, score: str) -> Comparison:
    """Contrasts of settings of one table or several, each `A - B`; by default of all pairs.

    Files of scores have rows instead of settings. UsageError for unknown names, a single setting,
    or a file that cannot be read.
    """
    if how.baseline or how.pairs:
        raise UsageError("--baseline and --pairs need a run; a judgement table takes --contrast")
    of_scores = [is_scores(file, dict(how.columns)) for file in files]
    if all(of_scores):
        return compare_scores(files, how)
    if any(of_scores):
        first, other = (files[of_scores.index(kind)] for kind in (True, False))
        raise UsageError(f"{first} has scores and {other} has none: a score is not a judgement")
    if how.metric or how.filter:
        raise UsageError("--metric and --filter choose scores; a judgement table takes --score")
    every = read_judgements(*files, columns=dict(how.columns))
    rows = asds(every, score, ways_of(every, how.ways))
    if len(rows) < 2:
        raise UsageError(
            f"{', '.join(map(str, files))}: one setting, {', '.join(rows) or 'without an ASD'}: a "
            f"contrast needs two; give lines a 'setting', or compare two files"
        )
    pairs = [pair_of(words, rows) for words in how.contrasts] or None
    parts = by_setting(every)
    ids = {name: {*parts[name].clusters(WAY)["problem"].tolist()} for name in rows}
    lines = _table_lines(files, rows, pairs, ids, how)
    name = " and ".join(file.stem for file in files)
    return Comparison(name, score, how.equivalence, lines, family=len(lines))


def _table_lines(
    files: Sequence[Path],
    rows: Mapping[str, Influences],
    pairs: Sequence[tuple[str, str]] | None,
    ids: Mapping[str, set[Any]],
    how: Compare,
) -> tuple[Compared, ...]:
    """The contrasts of rows of files. ids: the problems of each row, or their groups."""
    try:
        tested = how.tested(rows, pairs)
    except ValueError as exc:
        raise UsageError(f"{', '.join(map(str, files))}: {exc}") from exc
    index = {name: n for n, name in enumerate(rows)}
    return tuple(
        Compared(
            ((0, index[one.first]), (0, index[one.second])),
            one,
            shared=len(ids[one.first] & ids[one.second]) / len(ids[one.first] | ids[one.second]),
        )
        for one in tested
    )


def compare_scores(files: Sequence[Path], how: Compare) -> Comparison:
    """Contrasts of rows of score files, paired sample by sample within a task.

    Rows of different tasks are two samples, and compared only by name. UsageError for rows that
    share fewer than two samples, and as `OfScores.scores`.
    """
    scores = how.scores(files)
    means = {name: row.influences for name, row in scores.rows.items()}
    pairs = [pair_of(words, means) for words in how.contrasts] or score_pairs(scores.rows)
    samples = {name: {*mean.questions} for name, mean in means.items()}
    across = {scores.rows[one].parts.task != scores.rows[two].parts.task for one, two in pairs}
    if len(across) > 1:
        raise UsageError("--contrast: compare rows of different tasks separately")
    paired = across == {False}
    for one, two in pairs if paired else ():
        if len(samples[one] & samples[two]) < 2:
            shared = counted(len(samples[one] & samples[two]), "scored sample")
            raise UsageError(f"{one} and {two} share {shared}: a contrast needs two")
    if not paired:
        for name, mean in means.items():
            means[name] = replace(mean, questions=(), values=mean.psi[:0])
    lines = _table_lines(files, means, pairs, samples, how)
    if paired:
        lines = tuple(_paired(line, means, len(pairs) <= DETAILED) for line in lines)
    name = " and ".join(file.resolve().stem for file in files)
    return Comparison(name, MEAN_SCORE, how.equivalence, lines, scores.notes, family=len(lines))


def _paired(line: Compared, means: Mapping[str, Influences], detailed: bool) -> Compared:
    """A contrast with the samples behind it."""
    first, second = means[line.contrast.first], means[line.contrast.second]
    apart = first - second
    return replace(
        line,
        apart=most_apart(apart) if detailed else (),
        swayed=swayed(apart),
        mcnemar=mcnemar(first, second),
    )
