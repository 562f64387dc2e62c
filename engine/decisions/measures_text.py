"""Rendering of verdict measures as tables and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from oversight.engine.decisions.measures import COVERAGE, VerdictMeasures
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, error_text
from oversight.protocols.scoring.ratios import Ratio
from oversight.protocols.scoring.verdict_measures import Apart


def measures_json(rows: Sequence[VerdictMeasures]) -> list[dict[str, Any]]:
    """One object per row, with null for measures that its verdicts do not determine."""
    return [asdict(row) for row in rows]


def measures_tables(rows: Sequence[VerdictMeasures]) -> list[Table]:
    """Tables of each row's own measures, and of those relative to the naive judge."""
    return [table for table in (_alone(rows), _against(rows)) if table]


def _alone(rows: Sequence[VerdictMeasures]) -> Table:
    body = [
        (
            row.name,
            str(row.verdicts),
            signed(row.slope, 3),
            _share(row.concordance.by_questions if row.concordance else None),
            _plain(row.label_efficiency, "×"),
            _plain(row.calibration.reliability if row.calibration else None),
            _plain(row.calibration.resolution if row.calibration else None),
            _plain(row.calibration.debiased_error if row.calibration else None),
            signed(row.calibration.overconfidence if row.calibration else None, 3),
            _plain(row.auroc.area if row.auroc else None),
            _share(row.accuracy_when_sure),
            _apart(row.first_label),
        )
        for row in rows
    ]
    return Table(
        "verdicts: order, calibration and bias",
        (
            "row",
            "verdicts",
            "slope",
            "concordance",
            "label eff.",
            "reliability",
            "resolution",
            "cal. error",
            "overconf.",
            "AUROC",
            f"right at {COVERAGE:.0%}",
            "first answer",
        ),
        tuple(body),
        1,
        (
            "slope: ASD for each unit of value. concordance: pairs of answers that rewards order "
            "as values do; 50% is chance.",
            "label eff.: gold labels alone over labels with the reward as control variate. cal. "
            "error: debiased. overconf.: largest probability - accuracy.",
            f"AUROC: of the judge's doubt, for its errors. right at {COVERAGE:.0%}: accuracy over "
            "the surest verdicts. first answer: reward for arguing it - for the second; ! above "
            "0.2 standard deviations.",
        ),
        ("label eff.", "resolution", "reliability", "overconf.", "first answer", "verdicts"),
    )


def _against(rows: Sequence[VerdictMeasures]) -> Table | None:
    body = [
        (
            row.name,
            _share(naive.flips.misled),
            _share(naive.flips.corrected),
            signed(naive.lift_where_right, 3),
            signed(naive.lift_where_wrong, 3),
            _ratio(naive.gap_recovered),
            signed(naive.truth_moved, 3),
            signed(naive.lie_moved, 3),
        )
        for row in rows
        if (naive := row.naive)
    ]
    if not body:
        return None
    return Table(
        "against the naive judge, world by world",
        (
            "row",
            "right → wrong",
            "wrong → right",
            "lift if right",
            "if wrong",
            "gap recovered",
            "truth: nats",
            "lie: nats",
        ),
        tuple(body),
        1,
        (
            "right → wrong: share of what the naive judge had right. lift: of accuracy, by whether "
            "the naive judge was right.",
            "gap recovered: (ASD - naive) / (most - naive), 95% by Fieller. nats: move of the "
            "truth's log odds in worlds that argue for it, and against it.",
        ),
        ("if wrong", "lift if right"),
    )


def _plain(value: float | None, after: str = "") -> str:
    return "–" if value is None else f"{value:z.3f}{after}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


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
