"""Rendering of pressure curves as tables and JSON."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ...protocols.scoring.crossing import Crossing
from ...protocols.scoring.pressure import Point, best_of_divergence
from ...protocols.scoring.statistics import Estimate
from ..display.columns import Column, as_table, plain_line
from ..display.quantity import signed
from ..display.table import Table
from ..reports.figure_text import estimated
from ..reports.tables import SCORE_NAMES
from .pressure import RowPressure, SelectionMethod

DETAILED = 3
"""Most rows whose curves are shown point by point."""

SMALL_POOL = 8
"""Pools with fewer candidates than this get a note."""


def pressure_json(
    rows: Sequence[RowPressure], select: SelectionMethod, score: str
) -> dict[str, Any]:
    """`{"rows": [{"name", "pool", "points": [{"strength", "kl", "value": {…}, …}], …}]}`."""
    columns = _columns(select)
    return {
        "select": select,
        "score": score,
        "rows": [
            {
                "name": row.name,
                "pool": row.pool,
                "problems": row.problems,
                "left_out": row.left_out,
                "points": [plain_line(columns, point) for point in row.points],
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


def _columns(select: SelectionMethod) -> list[Column[Point]]:
    """The columns of a curve."""
    best_of = select == "bon"
    return [
        Column(
            "n" if best_of else "β",
            lambda point: f"{point.strength:g}",
            ("strength",),
            attrgetter("strength"),
        ),
        Column("KL", lambda point: f"{point.kl:.3f}", ("kl",), attrgetter("kl")),
        Column(
            "large pool",
            (lambda point: f"{_bound(point):.3f}") if best_of else None,
            ("kl_bound",),
            lambda point: _bound(point) if best_of else None,
            spare=1,
        ),
        figure_column("E[v]", "value"),
        figure_column("E[u]", "reward"),
        figure_column("honest", "honest", sign=False),
    ]


def _bound(point: Point) -> float:
    """KL of best-of-n in a large pool without ties, nats."""
    return best_of_divergence(int(point.strength))


def figure_column(head: str, name: str, *, sign: bool = True) -> Column[Any]:
    """The column of an estimate, in JSON `{"mean", "low", "high"}`, nulls without an interval."""

    def plain(line: object) -> dict[str, float | None]:
        estimate: Estimate = getattr(line, name)
        low, high = estimate.interval or (None, None)
        return {"mean": estimate.mean, "low": low, "high": high}

    return Column(head, lambda line: estimated(getattr(line, name), 3, sign=sign), (name,), plain)


def pressure_tables(
    rows: Sequence[RowPressure], select: SelectionMethod, score: str
) -> list[Table]:
    """A summary with one line per row and, for few rows, each curve; [] without rows."""
    if not rows:
        return []
    tables = [_summary(rows, select, score)]
    if len(rows) <= DETAILED:
        notes = (
            "KL in nats, mean over problems; large pool: ln n - (n-1)/n, what it tends to.",
            "honest: share selected that has the highest value.",
        )
        columns = _columns(select)
        tables += [as_table(row.name, columns, row.points, notes) for row in rows]
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
        ("row", "problems", "pool", *(f"{sign}={s:g}" for s in strengths), "breakdown"),
        tuple(body),
        1,
        tuple(notes),
        ("problems",),
    )


def _breakdown(crossing: Crossing) -> str:
    if crossing.at is None and crossing.crossed == 0:
        return "none within range"
    low, high = (f"{end:.1f}" if end is not None else "–" for end in crossing.interval)
    return f"{'none' if crossing.at is None else f'{crossing.at:.1f}'} [{low}, {high}]"
