"""Rendering of a run's variance components and suggested purchases as tables and JSON."""

import math
from dataclasses import asdict
from typing import Any

from ..display.columns import Column, as_table
from ..display.table import Table
from ..reports.tables import SCORE_NAMES
from .noise import TARGET_RATIO, Noise, RowNoise, Ware

COMPONENTS: tuple[Column[RowNoise], ...] = (
    Column("row", lambda row: row.name, words=True),
    Column("n × draws × verdicts", lambda row: " × ".join(map(str, _design(row)))),
    Column("questions", lambda row: _variance(row, 0)),
    Column("draws", lambda row: _variance(row, 1) if row.components.draws > 1 else "–"),
    Column("verdicts", lambda row: _variance(row, 2) if row.components.verdicts > 1 else "–"),
    Column("reliability", lambda row: _reliability(row.components.reliability), spare=1),
)


def noise_json(noise: Noise) -> dict[str, Any]:
    """`{"score", "unit", "rows": [{"components", "intervals", "refinements", "best", …}]}`."""
    rows = [asdict(row) | {"best": row.best and asdict(row.best)} for row in noise.rows]
    return {"score": noise.score, "unit": noise.unit, "rows": rows}


def noise_tables(noise: Noise) -> list[Table]:
    """Tables of components and refinements; [] if no row has several draws or verdicts."""
    if not noise.rows:
        return []
    components = as_table(
        f"noise of ASD ({SCORE_NAMES[noise.score]}): variances between questions, draws, verdicts",
        COMPONENTS,
        noise.rows,
        (
            "in brackets 95%, by resampled problems. Of single verdicts; –: there is one of each, "
            "and it counts as what it is nested in.",
            "reliability: share of what problems are seen to differ by that is theirs.",
        ),
    )
    refinements = as_table(
        "what to buy next for an error a fifth smaller: questions, draws or verdicts",
        _refinements(noise.unit),
        noise.rows,
        (
            "in brackets what it costs beyond what is paid, by what the row's cells took; –: no "
            "number of these would do, or there is one of each and nobody can tell.",
        ),
    )
    return [components, refinements]


def _refinements(unit: str) -> list[Column[RowNoise]]:
    return [
        Column("row", lambda row: row.name, words=True),
        Column("error", lambda row: f"{_error(row):.3f}"),
        Column("then", lambda row: f"{_error(row) * TARGET_RATIO:.3f}", spare=1),
        Column("to n", lambda row: _refinement(row, "questions", unit)),
        Column("to draws", lambda row: _refinement(row, "debates", unit)),
        Column("to verdicts", lambda row: _refinement(row, "verdicts", unit)),
        Column("cheapest", lambda row: row.best.ware if row.best else "–"),
    ]


def _design(row: RowNoise) -> tuple[int, int, int]:
    return row.components.problems, row.components.draws, row.components.verdicts


def _error(row: RowNoise) -> float:
    """Standard error of the row's mean as it stands."""
    return math.sqrt(row.components.error_with(*_design(row), row.design_effect))


def _variance(row: RowNoise, level: int) -> str:
    """Variance of a level, 0 to 2 from questions to verdicts, with its interval."""
    parts = row.components
    variance = (parts.between, parts.within, parts.verdict)[level]
    if not row.intervals:
        return f"{variance:.4f}"
    low, high = row.intervals[level]
    return f"{variance:.4f} [{low:.4f}, {high:.4f}]"


def _reliability(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _refinement(row: RowNoise, ware: Ware, unit: str) -> str:
    for each in row.refinements:
        if each.ware == ware:
            count = f"{getattr(each, ware):,}"
            if each.price is None:
                return count
            price = f"${each.price:,.2f}" if unit == "$" else f"{each.price:,.0f} tokens"
            return f"{count} ({price})"
    return "–"
