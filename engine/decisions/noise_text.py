"""Rendering of a run's variance components and suggested purchases as tables and JSON."""

from dataclasses import asdict
from typing import Any

from oversight.engine.decisions.noise import TARGET_RATIO, Noise, Refinement, RowNoise
from oversight.engine.display.table import Table
from oversight.engine.reports.tables import SCORE_NAMES


def noise_json(noise: Noise) -> dict[str, Any]:
    """`{"score", "unit", "rows": [{"components", "intervals", "refinements", "best", …}]}`."""
    rows = [asdict(row) | {"best": row.best and asdict(row.best)} for row in noise.rows]
    return {"score": noise.score, "unit": noise.unit, "rows": rows}


def noise_tables(noise: Noise) -> list[Table]:
    """Tables of components and refinements; [] if no row has several draws or verdicts."""
    return [_components(noise), _refinements(noise)] if noise.rows else []


def _components(noise: Noise) -> Table:
    body = []
    for row in noise.rows:
        parts = row.components
        share = parts.reliability
        body.append(
            (
                row.name,
                f"{parts.problems} × {parts.draws} × {parts.verdicts}",
                *(_part(row, n, shown) for n, shown in enumerate(_variances(row))),
                "–" if share is None else f"{share:.2f}",
            )
        )
    return Table(
        f"noise of ASD ({SCORE_NAMES[noise.score]}): variances between questions, draws, verdicts",
        ("row", "n × draws × verdicts", "questions", "draws", "verdicts", "reliability"),
        tuple(body),
        1,
        (
            "in brackets 95%, by resampled problems. Of single verdicts; –: there is one of each, "
            "and it counts as what it is nested in.",
            "reliability: share of what problems are seen to differ by that is theirs.",
        ),
        ("reliability",),
    )


def _variances(row: RowNoise) -> tuple[float | None, ...]:
    parts = row.components
    within = parts.within if parts.draws > 1 else None
    return parts.between, within, parts.verdict if parts.verdicts > 1 else None


def _part(row: RowNoise, number: int, variance: float | None) -> str:
    if variance is None:
        return "–"
    if not row.intervals:
        return f"{variance:.4f}"
    low, high = row.intervals[number]
    return f"{variance:.4f} [{low:.4f}, {high:.4f}]"


def _refinements(noise: Noise) -> Table:
    body = []
    for row in noise.rows:
        parts, by_ware = (
            row.components,
            {refinement.ware: refinement for refinement in row.refinements},
        )
        error = parts.error_with(parts.problems, parts.draws, parts.verdicts, row.design_effect)
        best = row.best
        body.append(
            (
                row.name,
                f"{error**0.5:.3f}",
                f"{error**0.5 * TARGET_RATIO:.3f}",
                _refinement(by_ware.get("questions"), noise.unit),
                _refinement(by_ware.get("debates"), noise.unit),
                _refinement(by_ware.get("verdicts"), noise.unit),
                best.ware if best else "–",
            )
        )
    return Table(
        "what to buy next for an error a fifth smaller: questions, draws or verdicts",
        ("row", "error", "then", "to n", "to draws", "to verdicts", "cheapest"),
        tuple(body),
        1,
        (
            "in brackets what it costs beyond what is paid, by what the row's cells took; –: no "
            "number of these would do, or there is one of each and nobody can tell.",
        ),
        ("then",),
    )


def _refinement(refinement: Refinement | None, unit: str) -> str:
    if refinement is None:
        return "–"
    counts = {
        "questions": refinement.questions,
        "debates": refinement.debates,
        "verdicts": refinement.verdicts,
    }
    count = f"{counts[refinement.ware]:,}"
    if refinement.price is None:
        return count
    price = f"${refinement.price:,.2f}" if unit == "$" else f"{refinement.price:,.0f} tokens"
    return f"{count} ({price})"
