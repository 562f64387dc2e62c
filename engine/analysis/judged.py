"""Every measure of each setting of a judgement table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...protocols.scores import SCORES, Compat
from ...protocols.settings import unknown
from ..display.text import counted
from ..errors import UsageError
from .findings.finding import (
    Column,
    Finding,
    Part,
    change,
    column,
    conservative,
    figure,
    number,
    program,
    shared,
    span,
    word,
)
from .pairs import read_pair
from .raters import verdicts_of
from .reading import TOLD_APART, read_judgements
from .reports.results import SCORE_NAMES
from .scoring.agreement import Calibration
from .scoring.asd import Bounds, beta_name, scored
from .scoring.estimate import PARTS, Estimate, Interval
from .scoring.inference import ErrorKind, Influences
from .scoring.judgements import Judgements
from .scoring.power import Spread


def asds(every: Judgements, score: str, ways: Sequence[str]) -> dict[str, Influences]:
    """The ASD of each setting that has one."""
    scores = {name: scored(part, score, ways=ways) for name, part in by_setting(every).items()}
    return {name: one.asd for name, one in scores.items() if one and one.asd}


def table_spread(file: Path, words: tuple[str, str], score: str) -> tuple[Spread, int, float]:
    """Spread of the difference per question between two settings of a table, its questions, and
    their number per cluster of the kind with the fewest clusters. Questions of one text, and
    judgements of one judge, depend on each other as far as they do in the table: the design effect
    is the variance by all kinds of clusters over that by questions."""
    every = read_judgements(file)
    clusters = (*ways_of(every), "question")
    rows = asds(every, score, clusters)
    one, two = pair_of(" - ".join(words), rows)
    apart = rows[one] - rows[two]
    alone = apart.by("question").estimate()
    deviation = apart.by(*clusters[:-1]).estimate()
    questions = len(np.unique(apart.ways["question"]))
    error = alone.error or 0.0
    effect = ((deviation.error or 0.0) / error) ** 2 if error else 1.0
    spread = Spread(error**2 * questions, design_effect=max(1.0, effect))
    return spread, questions, questions / max(deviation.clusters, 1)


def pair_of(words: str, rows: Mapping[str, Influences]) -> tuple[str, str]:
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
        problem = "several settings fit" if fits else "unknown setting"
        raise UsageError(f"{problem} {word!r}: choose from\n  " + "\n  ".join(rows))
    return fits[0]


WAYS = ("problem", "question", "judge", "speaker", "line")
"""Kinds of clusters: a question's text, or the question; the question; judge; speaker; line."""


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """One setting under one score."""

    setting: str
    score: str
    n: int
    """Judgements with a verdict in all worlds that were run."""
    asd: Estimate | None
    truth: Estimate | None
    """Mean score of the best answer."""
    before: Estimate | None
    """ASD of the first beliefs."""
    gain: Estimate | None
    paired: Estimate | None
    """ASD of the questions judged in every world; None if these are all."""
    chosen: Mapping[str, Estimate]
    """JSE and EAS by beta, of lines with every world; by name."""
    bounds: Bounds | None
    """None where every world that was run has a verdict."""
    lost: int


class _Rated(NamedTuple):
    setting: str
    right: Estimate
    """Share of judgements with the best answer likeliest; a tie counts half."""
    calibration: Calibration
    """Of the largest probability."""


def ways_of(every: Judgements, ways: Sequence[str] = ()) -> tuple[str, ...]:
    """The kinds of clusters that are random: by default the problem and, where any line names a
    judge, the judge. UsageError for an unknown kind, or one that a line lacks."""
    ways = tuple(ways) or ("problem", *["judge"] * ("judge" in every.codes))
    if wrong := [way for way in ways if way not in WAYS]:
        raise UsageError(f"--cluster: {unknown('dimension', wrong[0], WAYS)}")
    for way in ways:
        try:
            every.clusters((way,))
        except ValueError as exc:
            others = ",".join(name for name in ways if name != way)
            raise UsageError(
                f"{exc}: add it to every line, or choose other clusters with --cluster {others}"
            ) from exc
    return ways


def by_setting(every: Judgements, key: str = "setting") -> Mapping[str, Judgements]:
    """The lines by one of their keys, and by file if several are given; "" if no line has it."""
    if key not in TOLD_APART:
        raise UsageError(f"--by: {unknown('key', key, TOLD_APART)}")
    return every.by("file", key)


def where(every: Judgements, conditions: Iterable[str]) -> Judgements:
    """Lines that meet conditions such as `mode=live`. UsageError for a wrong one, or none left."""
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals or key not in TOLD_APART:
            raise UsageError(f"--where {condition!r}: write KEY=VALUE, of {', '.join(TOLD_APART)}")
        parts = every.by(key) if key in every.codes else {}
        if value not in parts:
            raise UsageError(f"--where {condition}: {unknown(key, value, sorted(parts))}")
        every = parts[value]
    return every


def score_finding(
    name: str,
    every: Judgements,
    *,
    betas: Sequence[float],
    compat: Compat = "none",
    by: str = "setting",
    ways: Sequence[str] = (),
    scores: Sequence[str] = tuple(SCORES),
    error: ErrorKind = "cr3",
    interval: Interval = "t",
) -> Finding:
    settings, ways = by_setting(every, by), ways_of(every, ways)
    lines, raters = list[ScoredLine](), list[_Rated]()

    for setting, part in settings.items():
        how = part, betas, compat, error, interval, ways
        lines += [line for score in scores if (line := _line(setting, score, *how))]
        if verdicts := verdicts_of(part):
            right_share = verdicts.mean(verdicts.right, (0.0, 1.0), ways, error, interval)
            raters.append(_Rated(setting, right_share, verdicts.calibration))
    names = list(dict.fromkeys(name for line in lines for name in line.chosen))
    several = len(settings) > 1
    head: list[Column] = [word(by, "setting")] if several else [program("setting", "setting")]
    columns = [
        *head,
        column("score", "score", lambda score: SCORE_NAMES[score], words=True),
        number("n", "n"),
        figure("ASD", "asd"),
        _if_any(lines, figure("first belief", "before")),
        _if_any(lines, figure("gained", "gain")),
        _if_any(lines, figure("ASD of pairs", "paired")),
        _if_any(lines, figure("score of truth", "truth")),
        *(Column(name, partial(_chosen, name), ("chosen", name), _of(name)) for name in names),
        program("lost", "lost"),
        _if_any(lines, change("worst", "bounds.worst", key="worst")),
        _if_any(lines, change("best", "bounds.best", key="best")),
        _if_any(lines, column("bounds", "bounds.interval", span, key="bounds")),
    ]
    right = Part(
        "raters",
        "accuracy and calibration",
        [
            *head,
            column("right", "right", shared, parts=PARTS),
            number("n", "right.n", key=""),
            number("calibration error", "calibration.error", ".4f"),
            number("debiased", "calibration.debiased_error", ".4f"),
            change("overconfident", "calibration.overconfidence", 4),
        ],
        raters,
        ("calibration error: mean distance of stated from true shares, ten bins of max p.",),
    )
    measured = cache(partial(_by_question, every, betas, compat))
    questions = Part(
        "questions",
        "",
        [
            program("id", lambda n: every.questions[every.question[n]]),
            *(program(score, partial(_question, measured, score)) for score in SCORES),
        ],
        range(len(every)),
        shown=False,
    )
    lost = int(every.lost.sum())
    rows = Part("rows", _title(name, every, lost, compat), columns, lines, _notes(every, lines))
    return Finding((rows, right, questions), {"clusters": list(ways)})


def _title(name: str, every: Judgements, lost: int, compat: Compat) -> str:
    questions = len(np.unique(every.question))
    judged = "" if questions == len(every) else f", {counted(len(every), 'judgement')}"
    without = f", {counted(lost, 'world')} without a verdict" if lost else ""
    ties = ", ties as in SOlib" if compat == "solib" else ""
    return f"{name}: {counted(questions, 'question')}{judged}{without}{ties}"


def _notes(every: Judgements, lines: Sequence[ScoredLine]) -> Iterable[str]:
    figures = [line.asd for line in lines if line.asd]
    if first := next((one for one in figures if one.method), None):
        ways = " × ".join(first.ways)
        how = "; ".join(filter(None, (first.how, conservative(figures))))
        yield f"Brackets: 95% CI, {how}; clusters: {first.clusters} ({ways})."
        if len(first.ways) > 1:
            alone = "; ".join(f"{way} {value:.4f}" for way, value in first.errors.items())
            yield f"standard error of the first ASD: {first.error:.4f}; by one way alone: {alone}."
    elif reason := next((one.reason for one in figures if one.reason), ""):
        yield f"no interval: {reason}."
    if (every.ran.sum(axis=1) < every.answers).any():
        yield (
            "some worlds were not run: unpaired ASD (Hajek), which holds if worlds were assigned "
            "at random. ASD of pairs: the questions judged in every world."
        )
        yield "JSE and EAS need all worlds of a question in one line, and are left out."
    if any(line.bounds for line in lines):
        yield (
            "worst, best: ASD with every missing verdict at its worst, or its best. bounds: 95% "
            "CI of all worlds (Stoye 2009)."
        )
    if any(line.gain for line in lines):
        yield "gained: ASD of the last belief minus the first one's, within judgements."


def _if_any(lines: Sequence[ScoredLine], column: Column) -> Column:
    """The column, for programs alone where no line has a value in it."""
    present = any(column.value(line) is not None for line in lines)
    return column if present else replace(column, cell=None, parts=())


def _of(name: str) -> Any:
    return lambda line: line.chosen.get(name)


def _chosen(name: str, line: ScoredLine) -> str:
    return f"{line.chosen[name].value:+.3f}" if name in line.chosen else "–"


def _line(
    setting: str,
    score: str,
    part: Judgements,
    betas: Sequence[float],
    compat: Compat,
    error: ErrorKind,
    interval: Interval,
    ways: Sequence[str],
) -> ScoredLine | None:
    measured = scored(part, score, compat, ways)
    if measured is None:
        return None

    def estimate(influences: Influences | None) -> Estimate | None:
        return influences.estimate(error, interval) if influences else None

    return ScoredLine(
        setting,
        score,
        int(measured.whole.sum()),
        estimate(measured.asd),
        estimate(measured.truth),
        estimate(measured.before),
        estimate(measured.gain),
        None if measured.complete else estimate(measured.paired),
        {
            f"{measure.upper()} {beta_name(beta)}": mean.estimate(error, interval)
            for (measure, beta), mean in measured.chosen(betas).items()
        },
        measured.bounds(interval) if measured.every.lost.any() else None,
        int(part.lost.sum()),
    )


def _question(measured: Callable[[str], Mapping[int, Any]], score: str, line: int) -> Any:
    return measured(score).get(line)


def _by_question(
    every: Judgements, betas: Sequence[float], compat: Compat, score: str
) -> dict[int, dict[str, Any]]:
    """The measures of each line under a score, by its place, where they are known."""
    measured = scored(every, score, compat)
    if measured is None:
        return {}
    places = np.flatnonzero(np.isin(every.answers, np.unique(measured.every.answers))).tolist()
    asd, chosen = measured.by_judgement.tolist(), measured.chosen_by_judgement(betas)
    return {
        place: {
            "asd": asd[n],
            **{
                name: {beta_name(beta): float(chosen[name, beta][n]) for beta in betas}
                for name in ("jse", "eas")
            },
        }
        for n, place in enumerate(places)
        if not math.isnan(asd[n])
    }
