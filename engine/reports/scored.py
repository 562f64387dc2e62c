"""Judgements from elsewhere, scored: every measure under every score, by setting."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...protocols.scores import RANGES, SCORES, Compat, applicable
from ...protocols.scoring.arrays import Floats
from ...protocols.scoring.calibration import Calibration, calibration
from ...protocols.scoring.inference import ErrorKind, Estimate, Influences, mean_of
from ...protocols.scoring.judgements import Judgement, Scored, scored
from ...protocols.scoring.mixed import mixed_model
from ...protocols.scoring.worlds import Worlds, beta_name, chosen_ends
from ..display.finding import (
    Column,
    Finding,
    Part,
    change,
    column,
    figure,
    number,
    program,
    span,
    word,
)
from ..display.quantity import counted
from ..errors import UsageError
from .report import SCORE_NAMES
from .verdicts import TOLD_APART, Verdicts

WAYS = ("problem", "question", "judge", "speaker", "line")
"""Kinds of clusters: the shared text of a question, or the question; the question by itself; its
judge; its speaker; the line."""


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """One setting under one score."""

    setting: str
    score: str
    n: int
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
    worst: float | None
    best: float | None
    bounds: tuple[float, float] | None
    lost: int


@dataclass(frozen=True, slots=True)
class RaterLine:
    """Calibration of the largest probability, by setting."""

    setting: str
    right: Estimate
    """Share of judgements with the best answer likeliest; a tie counts half."""
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class MixedLine:
    """A term of the mixed model: a mean, or a standard deviation between clusters."""

    term: str
    value: float
    error: float | None


def mixed_part(lines: Sequence[Verdicts], by: str = "setting") -> Part:
    """The probability of the truth by setting, with judges and texts as random effects: a check.

    UsageError without judges, or where settings do not determine the means.
    """
    every = by_setting(lines, by)
    rows = [
        (n, each, probs, line)
        for n, its in enumerate(every.values())
        for line in its
        for each in judgements_of([line], ("problem", "judge"))[0]
        for probs in (each.worlds[:1] if each.everywhere else each.worlds)
        if probs
    ]
    y = np.array([probs[int(np.argmax(each.values))] for _, each, probs, _ in rows])
    design = np.zeros((len(rows), len(every)))
    design[:, 0] = 1
    design[np.arange(len(rows)), [n for n, *_ in rows]] = 1
    ways = {
        way: np.array([each.clusters[way] for _, each, _, _ in rows])
        for way in ("judge", "problem")
    }
    try:
        fit = mixed_model(y, design, ways)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
    names = [f"{name} less {next(iter(every))}" if n else name for n, name in enumerate(every)]
    found = [MixedLine(*each) for each in zip(names, fit.coefficients, fit.errors, strict=True)]
    found += [MixedLine(f"variance, {way}", v, None) for way, v in fit.variances.items()]
    found.append(MixedLine("variance, residual", fit.residual, None))
    return Part(
        "mixed",
        "mixed model: P(truth) by setting, judges and texts as random effects (REML)",
        [word("term", "term"), change("value", "value", 4), number("s.e.", "error", ".4f")],
        found,
        ("a check beside the clustered errors, not a headline: it takes effects for normal.",),
    )


def judgements_of(
    lines: Sequence[Verdicts], ways: Sequence[str] = ()
) -> tuple[tuple[Judgement, ...], tuple[str, ...]]:
    """The lines as judgements, with the kinds of clusters that they have: by default the problem
    and, where any line names a judge, the judge. UsageError for a line without one of them."""
    if not ways:
        ways = ("problem", *(["judge"] if any("judge" in line.keys for line in lines) else []))
    if unknown := [way for way in ways if way not in WAYS]:
        raise UsageError(f"--cluster {unknown[0]}: there are {', '.join(WAYS)}")
    found = []
    for line in lines:
        every = {"problem": line.group or f"\0{line.id}", "question": str(line.id), **line.keys}
        every["line"] = str(line.line)
        if lacking := [way for way in ways if way not in every]:
            raise UsageError(
                f"line {line.line} names no {lacking[0]}: add it to every line, or choose other "
                f"clusters with --cluster {','.join(way for way in ways if way not in lacking)}"
            )
        clusters = {way: every[way] for way in ways}
        found.append(
            Judgement(str(line.id), line.values, line.worlds, clusters, line.first, line.everywhere)
        )
    return tuple(found), tuple(ways)


def by_setting(lines: Sequence[Verdicts], key: str = "setting") -> dict[str, list[Verdicts]]:
    """The lines by one of their keys; "" for all if no line has it."""
    if key not in TOLD_APART:
        raise UsageError(f"--by {key}: there are {', '.join(TOLD_APART)}")
    found: dict[str, list[Verdicts]] = {}
    for line in lines:
        found.setdefault(line.keys.get(key, ""), []).append(line)
    return found


def where(lines: Sequence[Verdicts], conditions: Iterable[str]) -> list[Verdicts]:
    """The lines that meet conditions such as `mode=live`. UsageError for another form, for a key
    that no line has, and if none is left."""
    kept = list(lines)
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals or key not in TOLD_APART:
            raise UsageError(f"--where {condition!r}: write KEY=VALUE, of {', '.join(TOLD_APART)}")
        there = sorted({line.keys[key] for line in kept if key in line.keys})
        kept = [line for line in kept if line.keys.get(key) == value]
        if not kept:
            raise UsageError(f"--where {condition}: no line has it; there are {', '.join(there)}")
    return kept


def score_finding(
    name: str,
    lines: Sequence[Verdicts],
    *,
    betas: Sequence[float],
    compat: Compat = "none",
    by: str = "setting",
    ways: Sequence[str] = (),
    scores: Sequence[str] = tuple(SCORES),
    error: ErrorKind = "cr3",
    mixed: bool = False,
) -> Finding:
    """Every measure under each score, setting by setting."""
    every = by_setting(lines, by)
    _, named = judgements_of(lines, ways)
    found, raters = [], []
    for setting, its in every.items():
        judged, _ = judgements_of(its, named)
        found += [
            line
            for score in scores
            if (line := _line(setting, score, its, judged, betas, compat, error))
        ]
        raters += _rated(setting, judged, error)
    chosen = list(dict.fromkeys(name for line in found for name in line.chosen))
    several = len(every) > 1
    head: list[Column] = [word(by, "setting")] if several else [program("setting", "setting")]
    columns = [
        *head,
        column("score", "score", lambda score: SCORE_NAMES[score], words=True),
        number("n", "n"),
        figure("ASD", "asd"),
        *_if_any(found, figure("first belief", "before"), "before"),
        *_if_any(found, figure("gained", "gain"), "gain"),
        *_if_any(found, figure("ASD of pairs", "paired"), "paired"),
        *_if_any(found, figure("score of truth", "truth"), "truth"),
        *(
            Column(each, _chosen(each, shown=True), ("chosen", each), _chosen(each))
            for each in chosen
        ),
        program("lost", "lost"),
    ]
    lost = sum(world is None for line in lines for world in line.worlds)
    bounds = Part(
        "bounds",
        "bounds: what missing verdicts could change of the ASD",
        [
            *head,
            column("score", "score", lambda score: SCORE_NAMES[score], words=True),
            number("n", "n"),
            change("worst", "worst"),
            change("best", "best"),
            column("95%", "bounds", lambda ends: span(ends) if ends else "–"),
        ],
        [line for line in found if line.worst is not None],
        ("every missing verdict being the worst or the best for ASD.",),
    )
    right = Part(
        "raters",
        "how often right, and how well calibrated",
        [
            *([word(by, "setting")] if several else [program("setting", "setting")]),
            figure("right", "right", sign=False),
            number("n", "right.n", key=""),
            number("calibration error", "calibration.error", ".4f"),
            number("debiased", "calibration.debiased_error", ".4f"),
            change("overconfident", "calibration.overconfidence", 4),
        ],
        raters,
        ("calibration error: mean distance of stated from true shares, ten bins of max p.",),
    )
    rows = Part("rows", _title(name, lines, lost, compat), columns, found, _notes(lines, found))
    about = {"clusters": list(named), "questions": _questions(lines, betas, compat)}
    more = (mixed_part(lines, by),) if mixed else ()
    return Finding((rows, bounds, right, *more), about)


def _title(name: str, lines: Sequence[Verdicts], lost: int, compat: Compat) -> str:
    questions = len({str(line.id) for line in lines})
    judged = "" if questions == len(lines) else f", {counted(len(lines), 'judgement')}"
    without = f", {counted(lost, 'world')} without a verdict" if lost else ""
    ties = ", ties as in SOlib" if compat == "solib" else ""
    return f"{name}: {counted(questions, 'question')}{judged}{without}{ties}"


def _notes(lines: Sequence[Verdicts], found: Sequence[ScoredLine]) -> Iterable[str]:
    figures = [line.asd for line in found if line.asd]
    if first := next((each for each in figures if each.method), None):
        yield f"[ ] 95%, {first.method} ({' × '.join(first.ways)}; {first.clusters} of the fewest)."
        if len(first.ways) > 1:
            alone = "; ".join(f"{way} {value:.4f}" for way, value in first.errors.items())
            yield f"standard error of the first ASD: {first.error:.4f}; by one way alone: {alone}."
    elif reason := next((each.reason for each in figures if each.reason), ""):
        yield f"no interval: {reason}."
    if any(world == () for line in lines for world in line.worlds):
        yield (
            "some worlds were not run: unpaired ASD (Hajek), which holds if worlds were assigned "
            "at random. ASD of pairs: the questions judged in every world."
        )
        yield "JSE and EAS need all worlds of a question in one line, and are left out."
    if any(line.gain for line in found):
        yield "gained: ASD less that of the first belief, within judgements."


def _if_any(found: Sequence[ScoredLine], shown: Column, name: str) -> list[Column]:
    return [shown] if any(getattr(line, name) for line in found) else [program(name, name)]


def _chosen(name: str, shown: bool = False) -> Any:
    if shown:
        return lambda line: "–" if name not in line.chosen else f"{line.chosen[name].value:+.3f}"
    return lambda line: line.chosen.get(name)


def _line(
    setting: str,
    score: str,
    lines: Sequence[Verdicts],
    judged: Sequence[Judgement],
    betas: Sequence[float],
    compat: Compat,
    error: ErrorKind,
) -> ScoredLine | None:
    found = scored(judged, score, compat)
    if found is None:
        return None

    def estimate(each: Influences | None) -> Estimate | None:
        return each.estimate(error) if each else None

    whole = all(() not in line.worlds for line in lines)
    low, high, interval = found.bounds or (None, None, None)
    return ScoredLine(
        setting,
        score,
        found.n,
        estimate(found.asd),
        estimate(found.truth),
        estimate(found.before),
        estimate(found.gain),
        None if whole else estimate(found.paired),
        {
            name: mean.estimate(error)
            for name, mean in _chosen_means(judged, score, betas, compat).items()
        },
        low,
        high,
        interval,
        sum(world is None for line in lines for world in line.worlds),
    )


def _chosen_means(
    judged: Sequence[Judgement], score: str, betas: Sequence[float], compat: Compat
) -> dict[str, Influences]:
    """JSE and EAS of the judgements with a verdict in every world, by name."""
    columns: dict[str, list[float]] = {}
    kept: list[Judgement] = []
    ends = []
    for each in judged:
        if score in applicable(len(each.values)) and all(each.worlds) and not each.everywhere:
            kept.append(each)
            ends.append(chosen_ends(len(each.values), RANGES[score], compat))
            for name, value in _of_line(each, score, betas, compat).items():
                columns.setdefault(name, []).append(value)
    if len(kept) < len(judged) and any(() in each.worlds for each in judged):
        return {}
    keys = {way: np.array([each.clusters[way] for each in kept]) for way in judged[0].clusters}
    low, high = np.mean(ends, axis=0).tolist() if ends else (0.0, 0.0)
    return {name: mean_of(values, keys, (low, high)) for name, values in columns.items()}


def _of_line(
    each: Judgement, score: str, betas: Sequence[float], compat: Compat
) -> dict[str, float]:
    worlds = Worlds(each.worlds, each.values, compat)  # type: ignore[arg-type]
    found: dict[str, float] = {}
    for measure, of in (("JSE", worlds.jse), ("EAS", worlds.eas)):
        found |= {f"{measure} {beta_name(beta)}": float(of(score, beta)) for beta in betas}
    return found


def _questions(
    lines: Sequence[Verdicts], betas: Sequence[float], compat: Compat
) -> list[dict[str, Any]]:
    """The measures of each line with a verdict in every world, by score."""
    judged, _ = judgements_of(lines, ("line",))
    found = []
    for line, each in zip(lines, judged, strict=True):
        measures: dict[str, Any] = {"id": line.id, **dict.fromkeys(SCORES)}
        if all(each.worlds):
            worlds = Worlds(each.worlds, each.values, compat)  # type: ignore[arg-type]
            for score in applicable(len(each.values)):
                if score in SCORES:
                    named = _of_line(each, score, betas, compat)
                    measures[score] = {"asd": float(worlds.asd(score)), **_nested(named)}
        found.append(measures)
    return found


def _nested(named: Mapping[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, value in named.items():
        measure, beta = name.split(" ")
        found.setdefault(measure.lower(), {})[beta] = value
    return found


def _rated(setting: str, judged: Sequence[Judgement], error: ErrorKind) -> list[RaterLine]:
    """Calibration of all verdicts of a setting; a verdict on all worlds counts once."""
    largest, right, keys = [], [], []
    for each in judged:
        worlds = each.worlds[:1] if each.everywhere else each.worlds
        for probs in worlds:
            if probs:
                best = [value == max(each.values) for value in each.values]
                top = [p >= max(probs) - 1e-9 for p in probs]
                largest.append(max(probs))
                right.append(sum(b and t for b, t in zip(best, top, strict=True)) / sum(top))
                keys.append(each.clusters)
    if not right:
        return []
    ways = {way: np.array([each[way] for each in keys]) for way in keys[0]}
    shares: Floats = np.array(right, np.float64)
    figure = mean_of(shares, ways, (0.0, 1.0)).estimate(error)
    return [RaterLine(setting, figure, calibration(np.array(largest), shares))]


def settings(
    lines: Sequence[Verdicts], score: str, by: str = "setting", ways: Sequence[str] = ()
) -> dict[str, Scored]:
    """The judgements of each setting under one score."""
    _, named = judgements_of(lines, ways)
    found = {}
    for setting, its in by_setting(lines, by).items():
        each = scored(judgements_of(its, named)[0], score)
        if each and each.asd:
            found[setting] = each
    return found
