"""Contrasts that were tested together, and their tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from typing import TypeAlias

from ..display.table import NONE
from ..display.text import counted, signed
from .differences import ChangedProblem, DifferenceBounds, McNemar
from .findings.finding import (
    Column,
    Finding,
    Part,
    change,
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
from .reports.family import fragile, rare_errors, same_verdicts
from .reports.results import SCORE_NAMES
from .scoring.agreement import Flips
from .scoring.contrasts import Contrast, RankSet
from .scoring.inference import FEW_CLUSTERS, WAY

RowPlace: TypeAlias = tuple[int, int]
"""A row: the index of its run, and its index in that run; a setting: 0, and its index."""

MEAN_SCORE = "mean score"
"""The score of a comparison of score files."""

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
    """The judge's changes from the second row to the first by world; None without common worlds."""
    bounds: DifferenceBounds | None = None
    """Bounds over all outcomes of failed and flagged worlds (Manski 1990); None of tables."""
    apart: tuple[tuple[str, float], ...] = ()
    """Questions on which the rows differ most; () beyond `DETAILED` contrasts."""
    swayed: bool = False
    """Whether leaving out some one cluster moves the difference by more than its standard error."""
    mcnemar: McNemar | None = None
    """For paired scores of 0 and 1 without groups."""
    shared: float | None = None
    """Of tables, the share of the problems of both that both judged: 1 is paired, 0 are two
    samples."""
    pairs: int = 0
    """Of groups of rows, the number of pairs of rows that it is a mean of."""

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
    ranks: tuple[RankSet, ...] = ()
    """Simultaneous sets of the ranks of all rows; () unless all rows of a run were compared."""
    changes: tuple[ChangedProblem, ...] = ()
    """Of two runs, the problems on which they differ."""
    origins: tuple[str, ...] = ()
    """Of the replies; see `engine.run.reader.origins`."""
    family: int = 0
    """Contrasts tested together. All rows against their naive judges are one family."""
    group: str = ""
    """Name that the rows of a group share, such as `mechanism`; empty for single rows."""

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


MOST_CHANGES = 20
"""Problems of two runs that are listed."""

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
    pairs = {line.pairs for line in lines}
    columns = [
        *names,
        column("n", "contrast.estimate.n", "{:,}".format if len(counts) > 1 else None, key="n"),
        *[column("pairs of rows", "pairs", "{:,}".format if len(pairs) > 1 else None)]
        * bool(comparison.group),
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
            "apart", lambda line: [{"problem": id, "difference": value} for id, value in line.apart]
        ),
        program("origins", lambda line: "; ".join(comparison.origins)),
    ]
    alike += [f"n {n:,}" for n in counts] if len(counts) == 1 else []
    alike += [f"{counted(n, 'pair')} of rows" for n in pairs if n and len(pairs) == 1]
    measure = MEAN_SCORE
    if comparison.score != MEAN_SCORE:
        measure = f"ASD ({SCORE_NAMES[comparison.score]})"
    title = f"{comparison.name}: differences of {measure}, first - second"
    title += f", by {comparison.group}" * bool(comparison.group)
    notes = (*comparison.notes, *_notes(comparison, doubtful))
    every = Part("contrasts", title, columns, lines, notes, alike=alike)
    flips_part = Part(
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
        sorted(comparison.ranks, key=attrgetter("best", "worst", "row")),
        ("1 is the highest ASD; over the problems that all rows have.",),
    )
    changes = comparison.changes
    changed = sum(bool(one.sides) for one in changes)
    apart = Part(
        "changes",
        f"problems on which the judge changed sides ({changed:,}), then others that differ "
        f"({len(changes) - changed:,})",
        [
            word("problem", "id"),
            *[word("row", "row")] * (len(lines) > 1),
            word("verdict, second → first", "sides"),
            change("difference", "difference", 2),
            change("first", "first", 2),
            change("second", "second", 2),
        ],
        changes[:MOST_CHANGES],
        [f"The first {MOST_CHANGES} of {len(changes):,}."] * (len(changes) > MOST_CHANGES),
    )
    if short and len(lines) > MOST_CONTRASTS:
        every = replace(every, brief=_ends(every))
    about = {
        "name": comparison.name,
        "score": comparison.score,
        **({"group": comparison.group} if comparison.group else {}),
        "equivalence": comparison.equivalence,
        "multiplicity": comparison.multiplicity,
        "notes": comparison.notes,
        "origins": comparison.origins,
    }
    return Finding((every, apart, flips_part, ranks), about, comparison.origins)


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
    columns, alike = list[Column](), list[str]()
    for place, head in enumerate(("first", "second", "for both")):
        texts = {_part(place, line) for line in lines}
        if place and len(texts) == 1:
            alike += [f"{head} {text}" for text in texts if text != NONE]
        else:
            columns.append(people(head, partial(_part, place), words=True))
    keys = [program(role, f"contrast.{role}") for role in ("first", "second")]
    return [*columns, *keys], alike


def _part(place: int, line: Compared) -> str:
    """The name of a row without the roles that both rows have, or these roles. A naive judge has no
    agent, so roles are paired from the last one, the judge."""
    kind, *roles = line.contrast.first.split(SEP)
    other, *others = line.contrast.second.split(SEP)
    pairs = [*zip_longest(reversed(roles), reversed(others), fillvalue="")][::-1]
    first = [kind, *(one for one, two in pairs if one and one != two)]
    second = [other, *(two for one, two in pairs if two and one != two)]
    return SEP.join((first, second, [one for one, two in pairs if one == two])[place]) or NONE


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
