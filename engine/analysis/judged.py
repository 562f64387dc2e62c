"""Settings of judgement tables from anywhere: contrasts, paired as far as they share clusters, and
the frontier of what a judgement costs against what it is worth."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..system.entry_points import JUDGEMENTS_GROUP, load_one, registered
from .comparison import contrast_columns
from .findings.finding import Finding, Part, figure, footnotes, number, program
from .frontier import frontier_part, frontier_points
from .reports.results import SCORE_NAMES
from .reports.scored import by_setting, ways_of
from .reports.verdicts import parsed, told_apart
from .scoring.asd import scored
from .scoring.contrasts import Contrast, Family, contrasts
from .scoring.estimate import Interval
from .scoring.inference import ErrorKind, Influences, mean_of
from .scoring.judgements import Judgement, Judgements
from .scoring.power import Spread
from .statement import read_pair

TABLE = ".jsonl"
"""Ending of a judgement table."""


@dataclass(frozen=True, slots=True)
class JudgedContrast:
    """A contrast of two settings, with how far they share what they judged."""

    contrast: Contrast
    shared: float
    """Share of the problems of both that both judged: 1 is paired, 0 are two samples."""


def is_table(path: Path) -> bool:
    """Whether judgements can be read from it, that are no run."""
    if path.suffix == TABLE and not path.is_dir():
        return True
    return any(each.holds(path) for each in _sources())


class JudgementSource(ABC):
    """What has judgements and is no run, registered under `oversight.judgements`."""

    @abstractmethod
    def holds(self, path: Path) -> bool:
        """Whether the path is one of its own; cheap."""

    @abstractmethod
    def judgements(self, path: Path) -> Iterator[Judgement]:
        """All judgements there. UsageError if there are none, or if they cannot be read."""


def _sources() -> Iterator[JudgementSource]:
    names = registered(JUDGEMENTS_GROUP)
    return (load_one(JUDGEMENTS_GROUP, name, JudgementSource) for name in names)


def lines_of(*files: Path) -> Judgements:
    """The judgements of tables, or of studies' folders; of several, with the name of the file as a
    key of each. UsageError, with file and line, for one that cannot be read."""

    def every() -> Iterator[Judgement]:
        for file in files:
            none = True
            for each in _judgements(file):
                none = False
                named = {"file": file.stem} if len(files) > 1 else {}
                yield replace(each, keys={**each.keys, **named}) if named else each
            if none and len(files) > 1:
                raise UsageError(f"{file}: there is no judgement in it")

    return told_apart(every(), " and ".join(map(str, files)))


def _judgements(file: Path) -> Iterator[Judgement]:
    for source in _sources():
        if source.holds(file):
            yield from source.judgements(file)
            return
    try:
        with file.open("rb") as lines:
            yield from parsed(lines, str(file))
    except OSError as exc:
        raise UsageError(f"{file}: cannot be read: {exc.strerror}") from exc


def _asds(
    settings: Mapping[str, Judgements], score: str, ways: Sequence[str]
) -> dict[str, Influences]:
    """The ASD of each setting that has one."""
    found = {name: scored(its, score, ways=ways) for name, its in settings.items()}
    return {name: each.asd for name, each in found.items() if each and each.asd}


def _read(files: Sequence[Path], score: str, by: str, ways: Sequence[str]) -> dict[str, Influences]:
    every = lines_of(*files)
    return _asds(by_setting(every, by), score, ways_of(every, ways))


def compare_tables(
    files: Sequence[Path],
    named: Sequence[str] = (),
    *,
    score: str = "brier",
    family: Family = "holm",
    equivalence: float = 0.05,
    by: str = "setting",
    ways: Sequence[str] = (),
    error: ErrorKind = "cr3",
    interval: Interval = "t",
) -> Finding:
    """Contrasts of settings of one table or several, each `A - B`; by default of all pairs.

    UsageError for unknown names, a single setting, or a file that cannot be read.
    """
    rows = _read(files, score, by, ways)
    if len(rows) < 2:
        raise UsageError(
            f"{', '.join(map(str, files))}: one setting, {', '.join(rows) or 'without an ASD'}: a "
            f"contrast needs two; give lines a {by!r}, or compare two files"
        )
    pairs = [_pair(words, rows) for words in named] or list(combinations(rows, 2))
    try:
        lines = [
            JudgedContrast(each, _shared(rows[each.first], rows[each.second]))
            for each in contrasts(
                rows, pairs, family=family, equivalence=equivalence, error=error, interval=interval
            )
        ]
    except ValueError as exc:
        raise UsageError(f"{', '.join(map(str, files))}: {exc}") from exc
    return _finding(lines, " and ".join(file.stem for file in files), score, family)


def table_spread(file: Path, words: tuple[str, str], score: str) -> tuple[Spread, int, float]:
    """Spread of the difference per question between two settings of a table, its questions, and
    how many of them there are for each cluster of the kind that has the fewest.

    Questions of one text, and judgements of one judge, depend on each other as far as they do in
    the table: the design effect is the variance by all kinds of clusters over that by questions.
    """
    every = lines_of(file)
    clusters = (*ways_of(every), "question")
    rows = _asds(by_setting(every), score, clusters)
    one, two = _pair(" - ".join(words), rows)
    apart = rows[one] - rows[two]
    alone = apart.by("question").estimate()
    found = apart.by(*clusters[:-1]).estimate()
    questions = len(np.unique(apart.ways["question"]))
    error = alone.error or 0.0
    effect = ((found.error or 0.0) / error) ** 2 if error else 1.0
    spread = Spread(error**2 * questions, design_effect=max(1.0, effect))
    return spread, questions, questions / max(found.clusters, 1)


def table_frontier(
    files: Sequence[Path], *, score: str = "brier", by: str = "setting", ways: Sequence[str] = ()
) -> Finding:
    """The settings by the mean cost of a judgement and their ASD, cheapest first.

    UsageError if a line has no cost, or no setting an ASD.
    """
    every = lines_of(*files)
    if np.isnan(every.cost).any():
        line = every.line[int(np.isnan(every.cost).argmax())]
        raise UsageError(f"line {line} has no cost: a frontier needs the 'cost' of every line")
    ways, settings = ways_of(every, ways), by_setting(every, by)
    rows = _asds(settings, score, ways)
    if not rows:
        raise UsageError(f"{', '.join(map(str, files))}: no setting has an ASD")
    costs = {
        name: mean_of(settings[name].cost, settings[name].clusters(ways)).estimate()
        for name in rows
    }
    points = frontier_points(
        costs,
        {name: its.estimate() for name, its in rows.items()},
        partial(contrasts, rows),
    )
    part = frontier_part(
        f"frontier: ASD ({SCORE_NAMES[score]}) against the cost of a judgement",
        by,
        figure("cost", "cost", sign=False),
        figure("ASD", "worth"),
        points,
        "on the frontier: no setting is as good for less, or better for as much.",
    )
    return Finding((part,), {"score": score, "clusters": list(ways)})


def _pair(words: str, rows: Mapping[str, Influences]) -> tuple[str, str]:
    first, second = (_named(word, rows) for word in read_pair(words))
    if first == second:
        raise UsageError(f"{words!r} means one setting twice, {first}")
    return first, second


def _named(word: str, rows: Mapping[str, Influences]) -> str:
    """The setting of this name, else the only one that has all of its words."""
    if word in rows:
        return word
    fits = [name for name in rows if all(part in name for part in word.split())]
    if len(fits) != 1:
        problem = "no setting is called" if not fits else "several settings fit"
        raise UsageError(f"{problem} {word!r}; there are:\n  " + "\n  ".join(rows))
    return fits[0]


def _shared(one: Influences, two: Influences) -> float:
    ours, theirs = (set(each.ways[next(iter(each.ways))].tolist()) for each in (one, two))
    return len(ours & theirs) / len(ours | theirs)


def _finding(lines: Sequence[JudgedContrast], name: str, score: str, family: Family) -> Finding:
    columns = [
        *contrast_columns(True, [number("shared", "shared", ".0%")]),
        program("errors", "contrast.estimate.errors"),
    ]
    first = lines[0].contrast.estimate
    how = "Holm" if family == "holm" else "Benjamini and Hochberg"
    notes = [
        f"[ ] 95%, {first.how or first.reason} ({' × '.join(first.ways)}); p inverts the same "
        f"interval, p_family by {how}.",
        *footnotes(line.contrast.estimate for line in lines),
        "shared: of the problems or texts of both, those that both judged; what is shared pairs "
        "the difference, the rest counts as two samples.",
    ]
    title = f"{name}: differences of ASD ({SCORE_NAMES[score]}), first - second"
    about = {"name": name, "score": score, "family": family}
    return Finding((Part("contrasts", title, columns, lines, notes),), about)
