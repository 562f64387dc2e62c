"""Comparison of rows: contrasts between the rows of one run, or of two runs.

Each `scoring.contrasts.Contrast` comes with the judge's flips, the bounds set by failed worlds, and
the questions on which the two differ most. No call is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..display.text import counted
from ..errors import UsageError
from ..system.settings import flag
from .compared import MEAN_SCORE, Compared, Comparison, RowPlace, comparison_finding
from .differences import (
    ChangedProblem,
    changed_problems,
    difference_bounds,
    flips_between,
    instrument_notes,
    mcnemar,
    most_apart,
    ranks_of,
    swayed,
)
from .findings.finding import Finding
from .judged import asds, by_setting, pair_of, ways_of
from .pairs import against_naive, distinct
from .reading import read_judgements
from .reports.formats import above_0
from .reports.groups import group_pairs
from .rows import RunRows, pairs_between, pairs_within
from .scores import OfScores, is_scores, score_pairs
from .scoring.contrasts import MARGIN, Contrast, RankSet, agreement, comparable, contrasts, family
from .scoring.estimate import Interval
from .scoring.inference import WAY, Influences, estimates, mean_pair

Places: TypeAlias = Sequence[tuple[RowPlace, RowPlace]]

DETAILED = 100
"""Most contrasts for which the questions that differ most are listed."""

NEEDED = (
    "a contrast needs two problems, or groups of them, with a verdict in every world of both rows"
)


@dataclass(frozen=True, slots=True)
class Compare(OfScores):
    """Compare the rows of RUN: contrasts, tested together as one family."""

    baseline: str | None = flag("Compare every row with this one.", metavar="ROW")
    pairs: Literal["all"] | None = flag("Compare every row with every other.")
    contrasts: tuple[str, ...] = flag(
        "Compare row A with row B; repeatable.", name="--contrast", default=(), metavar="'A - B'"
    )
    group: Literal["protocol", "mechanism", "agent", "judge"] | None = flag(
        "Compare groups of rows: the mean over pairs of rows that have the other names in common."
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
    first: RunRows, second: RunRows | None = None, how: Compare = BY_DEFAULT, score: str = "brier"
) -> Comparison:
    """Compare the rows of one run, or the matching rows of two runs.

    A contrast is the first row minus the second; with two runs, the first run minus the second.
    Within one run: the named contrasts, all pairs, or all rows against a baseline; by default all
    rows against the naive judge, or all pairs without one. Some rows against the naive judge
    are tested with all of them, so that a row has one verdict everywhere. Of two runs, A of a
    contrast `A - B` is a row of the first and B one of the second. how.ways: `problem`, the groups
    of problems or, without any, the problems, or `question`, the problems.

    UsageError for unknown names, for baseline or pairs with two runs, if nothing can be compared,
    and for two runs that share no problem or no row."""
    if how.group:
        return _of_groups(first, second, how, how.group, score)
    runs = (first,) if second is None else (first, second)
    notes: tuple[str, ...] = ()
    changes: Sequence[ChangedProblem] = ()
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
        changes = changed_problems(first, second, matches, score)
    names = {
        (at, row): f"{name}{label}"
        for at, (run, label) in enumerate(zip(runs, labels, strict=True))
        for row, name in enumerate(run.names)
    }
    result = _compared(name, runs, names, places, family, score, how)
    ranks: tuple[RankSet, ...] = ()
    if how.pairs == "all":
        interval = how.interval or first.sweep.interval
        ranks = ranks_of(first.clustered(score, how.ways), how.error, interval)
    return replace(result, notes=(*notes, *result.notes), ranks=ranks, changes=tuple(changes))


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
        raise UsageError(f"{name}: nothing to compare yet: {NEEDED}")
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
    unmeasured = [names[p] for p in dict.fromkeys(chain(*places)) if names[p] not in samples]
    measured_pairs = [(a, b) for a, b in places if {names[a], names[b]} <= samples.keys()]
    notes = _left_out(unmeasured, len(measured_pairs) - len(complete))
    return Comparison(
        name,
        score,
        how.equivalence,
        tuple(lines),
        notes,
        origins=tuple(dict.fromkeys(line for run in runs for line in run.origins)),
        family=len(pairs),
    )


def _of_groups(
    run: RunRows, second: RunRows | None, how: Compare, by: str, score: str
) -> Comparison:
    """One contrast for each pair of groups; its bounds set the open worlds of both at once."""
    if second or how.flips:
        raise UsageError("--group compares rows of one run, without their flips")
    asd_by_row = run.clustered(score, how.ways)
    asd = [asd_by_row.get(name) for name in run.names]
    scored = [run.table.scored(row, score) for row in range(len(asd))]
    extremes = [row.extremes if row else None for row in scored]
    ends = [[pair and pair[end] for pair in extremes] for end in (0, 1)]
    groups = group_pairs(run.sweep.rows, by, how.baseline, how.contrasts)
    means, measured = dict[tuple[str, str], tuple[Influences, Influences]](), {}
    for names, rows in groups.items():
        measured[names] = [(one, two) for one, two in rows if asd[one] and asd[two]]
        if (both := mean_pair(asd, measured[names])) and comparable(*both):
            means[names] = both
    unmeasured = [" - ".join(names) for names, pairs in measured.items() if not pairs]
    if not means:
        raise UsageError(f"{run.sweep.name}: nothing to compare yet: {NEEDED}")
    apart = [one - two for one, two in means.values()]
    figures = estimates(apart, how.error, how.interval or run.sweep.interval)
    tested = family([*means], agreement(apart), figures, how.equivalence)
    number = {name: n for n, name in enumerate(dict.fromkeys(chain(*means)))}
    lines = []
    for (names, both), difference, contrast in zip(means.items(), apart, tested, strict=True):
        low, high = (mean_pair(figures, measured[names]) for figures in ends)
        bounds = difference_bounds((low[0], high[0]), (low[1], high[1])) if low and high else None
        line = Compared(
            ((0, number[names[0]]), (0, number[names[1]])),
            replace(contrast, means=(both[0].value, both[1].value)),
            bounds=bounds,
            apart=most_apart(difference),
            swayed=swayed(difference),
            pairs=len(measured[names]),
        )
        lines.append(line)
    return Comparison(
        run.sweep.name,
        score,
        how.equivalence,
        tuple(lines),
        _left_out(unmeasured, len(groups) - len(lines) - len(unmeasured)),
        origins=run.origins,
        family=len(lines),
        group=by,
    )


def _left_out(unmeasured: Sequence[str], few: int) -> tuple[str, ...]:
    """Notes on left-out contrasts. few: the number of those whose rows share too few problems."""
    lost = f"left out, since they were not measured: {', '.join(unmeasured)}."
    short = f"{few:,} contrasts are left out: their rows share too few problems."
    return (lost,) * bool(unmeasured) + (short,) * bool(few)


def compare_tables(files: Sequence[Path], how: Compare, score: str) -> Comparison:
    """Contrasts of settings of one table or several, each `A - B`; by default of all pairs.

    Files of scores have rows instead of settings. UsageError for unknown names, a single setting,
    or a file that cannot be read."""
    if how.baseline or how.pairs or how.group:
        raise UsageError(
            "--baseline, --pairs and --group need a run; a judgement table takes --contrast"
        )
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
    share fewer than two samples, and as `OfScores.scores`."""
    rows, notes = how.scores(files)
    means = {name: row.influences for name, row in rows.items()}
    pairs = [pair_of(words, means) for words in how.contrasts] or score_pairs(rows)
    samples = {name: {*mean.questions} for name, mean in means.items()}
    across = {rows[one].parts.task != rows[two].parts.task for one, two in pairs}
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
    return Comparison(name, MEAN_SCORE, how.equivalence, lines, notes, family=len(lines))


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
