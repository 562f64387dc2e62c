"""Rendering of verdict measures as tables and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ...protocols.scoring.ratios import Ratio
from ...protocols.scoring.verdict_measures import Apart
from ..display.columns import Column, as_table
from ..display.quantity import signed
from ..display.table import Table, error_text
from ..reports.figure_text import percent
from .measures import COVERAGE, AgainstNaive, VerdictMeasures


class Versus(NamedTuple):
    """A row and what it did to the verdicts of its naive judge."""

    name: str
    naive: AgainstNaive


OWN_COLUMNS: tuple[Column[VerdictMeasures], ...] = (
    Column("row", lambda row: row.name, words=True),
    Column("verdicts", lambda row: str(row.verdicts), spare=1),
    Column("slope", lambda row: signed(row.slope, 3)),
    Column(
        "concordance",
        lambda row: percent(row.concordance.by_questions if row.concordance else None),
    ),
    Column("label eff.", lambda row: _plain(row.label_efficiency, "×"), spare=6),
    Column("reliability", lambda row: _plain(_calibrated("reliability", row)), spare=4),
    Column("resolution", lambda row: _plain(_calibrated("resolution", row)), spare=5),
    Column("cal. error", lambda row: _plain(_calibrated("debiased_error", row))),
    Column("overconf.", lambda row: signed(_calibrated("overconfidence", row), 3), spare=3),
    Column("AUROC", lambda row: _plain(row.auroc.area if row.auroc else None)),
    Column(f"right at {COVERAGE:.0%}", lambda row: percent(row.accuracy_when_sure)),
    Column("first answer", lambda row: _apart(row.first_label), spare=2),
)

AGAINST: tuple[Column[Versus], ...] = (
    Column("row", lambda row: row.name, words=True),
    Column("right → wrong", lambda row: percent(row.naive.flips.misled)),
    Column("wrong → right", lambda row: percent(row.naive.flips.corrected)),
    Column("lift if right", lambda row: signed(row.naive.lift_where_right, 3), spare=1),
    Column("if wrong", lambda row: signed(row.naive.lift_where_wrong, 3), spare=2),
    Column("gap recovered", lambda row: _ratio(row.naive.gap_recovered)),
    Column("truth: nats", lambda row: signed(row.naive.truth_moved, 3)),
    Column("lie: nats", lambda row: signed(row.naive.lie_moved, 3)),
)


def measures_json(rows: Sequence[VerdictMeasures]) -> list[dict[str, Any]]:
    """One object per row, with null for measures that its verdicts do not determine."""
    return [asdict(row) for row in rows]


def measures_tables(rows: Sequence[VerdictMeasures]) -> list[Table]:
    """Tables of each row's own measures, and of those relative to the naive judge."""
    alone = as_table(
        "verdicts: order, calibration and bias",
        OWN_COLUMNS,
        rows,
        (
            "slope: ASD for each unit of value. concordance: pairs of answers that rewards order "
            "as values do; 50% is chance.",
            "label eff.: gold labels alone over labels with the reward as control variate. cal. "
            "error: debiased. overconf.: largest probability - accuracy.",
            f"AUROC: of the judge's doubt, for its errors. right at {COVERAGE:.0%}: accuracy over "
            "the surest verdicts. first answer: reward for arguing it - for the second; ! above "
            "0.2 standard deviations.",
        ),
    )
    compared = [Versus(row.name, row.naive) for row in rows if row.naive]
    if not compared:
        return [alone]
    against = as_table(
        "against the naive judge, world by world",
        AGAINST,
        compared,
        (
            "right → wrong: share of what the naive judge had right. lift: of accuracy, by whether "
            "the naive judge was right.",
            "gap recovered: (ASD - naive) / (most - naive), 95% by Fieller. nats: move of the "
            "truth's log odds in worlds that argue for it, and against it.",
        ),
    )
    return [alone, against]


def _plain(value: float | None, after: str = "") -> str:
    return "–" if value is None else f"{value:z.3f}{after}"


def _calibrated(name: str, row: VerdictMeasures) -> float | None:
    return getattr(row.calibration, name) if row.calibration else None


def _apart(difference: Apart | None) -> str:
    if difference is None:
        return "–"
    half = (difference.interval[1] - difference.interval[0]) / 2
    return f"{signed(difference.estimate)} ± {error_text(half)}{'!' * difference.flagged}"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None or ratio.interval is None:
        return "not determined"
    low, high = ratio.interval
    return f"{ratio.estimate:z.2f} [{low:z.2f}, {high:z.2f}]"
