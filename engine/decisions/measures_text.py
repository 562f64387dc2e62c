"""Measures of verdicts as people and programs read them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from oversight.engine.decisions.measures import COVERAGE, VerdictMeasures
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, error_text
from oversight.protocols.scoring.ratios import Ratio
from oversight.protocols.scoring.verdict_measures import Apart


def measures_json(rows: Sequence[VerdictMeasures]) -> list[dict[str, Any]]:
    """One object a row, with null for what its verdicts do not determine."""
    return [asdict(row) for row in rows]


def measures_tables(rows: Sequence[VerdictMeasures]) -> list[Table]:
    """What stands by itself, and what is said against the naive judge."""
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
            _share(found.flips.misled),
            _share(found.flips.corrected),
            signed(found.lift_where_right, 3),
            signed(found.lift_where_wrong, 3),
            _ratio(found.gap_recovered),
            signed(found.truth_moved, 3),
            signed(found.lie_moved, 3),
        )
        for row in rows
        if (found := row.naive)
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


def _apart(found: Apart | None) -> str:
    if found is None:
        return "–"
    half = (found.interval[1] - found.interval[0]) / 2
    return f"{signed(found.estimate)} ± {error_text(half)}{'!' * found.flagged}"


def _ratio(found: Ratio | None) -> str:
    if found is None or found.interval is None:
        return "not determined"
    low, high = found.interval
    return f"{found.estimate:z.2f} [{low:z.2f}, {high:z.2f}]"
