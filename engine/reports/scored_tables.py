"""The tables of verdicts from elsewhere: every measure under every score."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...protocols.scores import Compat
from ...protocols.scoring.bounds import Bounds
from ...protocols.scoring.statistics import Estimate
from ...protocols.scoring.worlds import beta_name
from ..display.columns import Column, as_table
from ..display.quantity import counted, signed
from ..display.table import Table, error_text
from .results import Results


@dataclass(frozen=True, slots=True)
class MeasureLine:
    """One measure under one score."""

    score: str
    """Empty below the first measure of a score."""
    measure: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class BoundsLine:
    """Bounds of ASD under one score."""

    score: str
    bounds: Bounds


MEASURES: tuple[Column[MeasureLine], ...] = (
    Column("score", lambda line: line.score, words=True),
    Column("measure", lambda line: line.measure, words=True),
    Column("n", lambda line: str(line.estimate.n)),
    Column("mean", lambda line: signed(line.estimate.mean, 3)),
    Column("± 95%", lambda line: _error(line.estimate.half_width)),
    Column("std", lambda line: f"{line.estimate.std:.3f}"),
)

EXTREMES: tuple[Column[BoundsLine], ...] = (
    Column("score", lambda line: line.score, words=True),
    Column("measure", lambda line: "ASD", words=True),
    Column("n", lambda line: str(line.bounds.n)),
    Column("dropped", lambda line: signed(line.bounds.drop, 3)),
    Column("worst", lambda line: signed(line.bounds.worst, 3)),
    Column("best", lambda line: signed(line.bounds.best, 3)),
)


def scored_tables(
    by_score: Mapping[str, Results], questions: int, lost: int, compat: Compat
) -> list[Table]:
    """Means with intervals and, where a world has no verdict, what that could change.

    questions: how many there are. lost: how many of them lack a verdict.
    """
    file = next(iter(by_score.values())).name
    without = f", {lost} left out because a world has no verdict" if lost else ""
    ties = ", ties as in SOlib" if compat == "solib" else ""
    title = f"{file}: {counted(questions, 'question')}{without}{ties}"
    lines = [line for results in by_score.values() for line in _lines(results)]
    tables = []
    if lines:
        most = max((line.estimate for line in lines), key=lambda each: each.n)
        worth = f" (worth {most.effective:.1f} equal ones)" if most.clusters < most.n else ""
        notes = (
            f"± half the 95% interval, {most.method or 'bootstrap'} over "
            f"{counted(most.clusters, 'question')} or groups of them{worth}.",
            "std over questions, of the population.",
        )
        tables.append(as_table(title, MEASURES, lines, notes))
    if lost:
        bounded = [
            BoundsLine(score, row.bounds)
            for score, results in by_score.items()
            for row in results.rows
            if row.bounds
        ]
        notes = (
            "dropped: without the questions that lack a verdict. worst, best: with them, every",
            "missing verdict being the worst or the best for ASD.",
        )
        bounds_title = "bounds: what missing verdicts could change of the ASD"
        tables.append(as_table(bounds_title if lines else title, EXTREMES, bounded, notes))
    return tables


def _lines(results: Results) -> Iterator[MeasureLine]:
    (row,) = results.rows
    if row.asd is None:
        return
    yield MeasureLine(results.score, "ASD", row.asd)
    for name, by_beta in (("JSE", row.jse), ("EAS", row.eas)):
        for beta, estimate in by_beta.items():
            yield MeasureLine("", f"{name} {beta_name(beta)}", estimate)


def _error(half_width: float | None) -> str:
    return "–" if half_width is None else error_text(half_width, 3)
