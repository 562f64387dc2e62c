"""Rendering of pressure curves as tables and JSON."""

from collections.abc import Sequence
from typing import Any

from oversight.engine.decisions.pressure import RowPressure, SelectionMethod
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, error_text
from oversight.engine.reports.tables import SCORE_NAMES
from oversight.protocols.scoring.crossing import Crossing
from oversight.protocols.scoring.pressure import Point
from oversight.protocols.scoring.statistics import Estimate

DETAILED = 3
"""Most rows whose curves are shown point by point."""

SMALL_POOL = 8
"""Pools with fewer candidates than this get a note."""


def pressure_json(
    rows: Sequence[RowPressure], select: SelectionMethod, score: str
) -> dict[str, Any]:
    """`{"rows": [{"name", "pool", "points": [{"strength", "kl", "value": {…}, …}], …}]}`."""
    return {
        "select": select,
        "score": score,
        "rows": [
            {
                "name": row.name,
                "pool": row.pool,
                "problems": row.problems,
                "left_out": row.left_out,
                "points": [
                    _point(point, row.bounds[n] if row.bounds else None)
                    for n, point in enumerate(row.points)
                ],
                "breakdown": {
                    "n": row.breakdown.at,
                    "low": row.breakdown.interval[0],
                    "high": row.breakdown.interval[1],
                    "crossed": row.breakdown.crossed,
                },
            }
            for row in rows
        ],
    }


def _point(point: Point, bound: float | None) -> dict[str, Any]:
    return {
        "strength": point.strength,
        "kl": point.kl,
        "kl_bound": bound,
        "value": figure_json(point.value),
        "reward": figure_json(point.reward),
        "honest": figure_json(point.honest),
    }


def figure_json(estimate: Estimate) -> dict[str, float | None]:
    """`{"mean", "low", "high"}`; nulls without an interval."""
    low, high = estimate.interval or (None, None)
    return {"mean": estimate.mean, "low": low, "high": high}


def pressure_tables(
    rows: Sequence[RowPressure], select: SelectionMethod, score: str
) -> list[Table]:
    """A summary with one line per row and, for few rows, each curve; [] without rows."""
    if not rows:
        return []
    tables = [_summary(rows, select, score)]
    if len(rows) <= DETAILED:
        tables += [_curve(row, select) for row in rows]
    return tables


def _summary(rows: Sequence[RowPressure], select: SelectionMethod, score: str) -> Table:
    sign = "n" if select == "bon" else "β"
    strengths = list(dict.fromkeys(point.strength for row in rows for point in row.points))
    body = []
    for row in rows:
        values = {point.strength: point.value.mean for point in row.points}
        cells = [signed(values[s], 3) if s in values else "–" for s in strengths]
        body.append((row.name, str(row.problems), str(row.pool), *cells, _breakdown(row.breakdown)))
    how = "best of n" if select == "bon" else "tilt exp(β · reward)"
    notes = [
        "E[v]: mean value of what is selected by the reward. Pool: draws in all worlds; n is drawn "
        "from it.",
        "breakdown: the n from which on selection gets no more than a blind choice; in brackets "
        "95% by problems.",
    ]
    if min(row.pool for row in rows) < SMALL_POOL:
        notes.append("few candidates tell little: larger `draws` in the sweep make larger pools.")
    if any(row.left_out for row in rows):
        most = max(row.left_out for row in rows)
        notes.append(f"up to {most} problems are left out: a world of theirs has no verdict.")
    return Table(
        f"pressure: E[v] under {how}, rewarded by the {SCORE_NAMES[score]} score",
        (
            "row",
            "problems",
            "pool",
            *(f"{sign}={strength:g}" for strength in strengths),
            "breakdown",
        ),
        tuple(body),
        1,
        tuple(notes),
        ("problems",),
    )


def _curve(row: RowPressure, select: SelectionMethod) -> Table:
    body = []
    for n, point in enumerate(row.points):
        bound = [f"{row.bounds[n]:.3f}"] if row.bounds else []
        figures = (
            plus_minus(point.value),
            plus_minus(point.reward),
            plus_minus(point.honest, sign=False),
        )
        body.append((f"{point.strength:g}", f"{point.kl:.3f}", *bound, *figures))
    return Table(
        row.name,
        (
            "n" if select == "bon" else "β",
            "KL",
            *["large pool"] * bool(row.bounds),
            "E[v]",
            "E[u]",
            "honest",
        ),
        tuple(body),
        0,
        (
            "KL in nats, mean over problems; large pool: ln n - (n-1)/n, what it tends to.",
            "honest: share selected that has the highest value.",
        ),
        ("large pool",),
    )


def _breakdown(crossing: Crossing) -> str:
    if crossing.at is None and crossing.crossed == 0:
        return "none within range"
    low, high = (f"{end:.1f}" if end is not None else "–" for end in crossing.interval)
    return f"{'none' if crossing.at is None else f'{crossing.at:.1f}'} [{low}, {high}]"


def plus_minus(estimate: Estimate, *, sign: bool = True) -> str:
    """The mean, ± half the width of its interval if it has one."""
    half = estimate.half_width
    mean = signed(estimate.mean, 3) if sign else f"{estimate.mean:z.3f}"
    return mean if half is None else f"{mean} ± {error_text(half, 3)}"
