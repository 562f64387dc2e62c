"""Rendering of a power plan as a table and JSON."""

from dataclasses import asdict
from typing import Any

from ..display.columns import Column, as_table
from ..display.table import Table
from ..reports.tables import SCORE_NAMES
from .power import PowerPlan, Purchase

PILOT, PILOT_FACTORS = 30, (0.63, 1.81)
"""Problems in a recommended pilot, and the 95 % interval of the true variance of normal differences
as multiples of the pilot's estimate; the number of problems needed is proportional to it."""


def power_json(plan: PowerPlan) -> dict[str, Any]:
    """All fields of the plan, and its cheapest purchase."""
    return asdict(plan) | {"cheapest": asdict(plan.cheapest)}


def power_table(plan: PowerPlan) -> Table:
    """One line per design: draws, verdicts, problems, calls and likely cost."""
    spread = plan.spread
    if plan.source == "pilot":
        where = f"of the pilot, {plan.questions:,} problems"
    else:
        where = "assumed, the worst case: the range of the score allows no more"
    parts = f"w² {spread.between:.4f} between problems"
    if plan.separated:
        parts += f", s² {spread.within_first:.4f} and {spread.within_second:.4f} between draws"
    if plan.judged:
        parts += f", {spread.verdict_first:.4f} and {spread.verdict_second:.4f} between verdicts"
    notes = [
        f"spread {where}: {parts}; design effect {spread.design_effect:.2f}.",
        f"the sweep as it stands finds {plan.mde:.3f} with power {plan.power:g} (its MDE).",
    ]
    if plan.source == "worst case":
        fewest, most = PILOT_FACTORS
        notes.append(
            f"rows that differ less need fewer problems: {PILOT} of them as a pilot (oversight run "
            f"SWEEP --limit {PILOT}, then --pilot RUN) tell how many to within ×{fewest:.1f} to "
            f"×{most:.1f}."
        )
    if plan.fitting > 1:
        notes.append(
            f"the first of {plan.fitting} contrasts that the names fit; for another one name its "
            "agent and judge, too."
        )
    if plan.source == "pilot" and not plan.separated:
        notes.append("with draws: 2 or more, a pilot tells what more draws are worth.")
    if plan.source == "pilot" and not plan.judged:
        notes.append("with judges of the kind redrawn, it tells what more verdicts are worth.")
    return as_table(
        f"power: {plan.first} - {plan.second}, a difference of {plan.difference:g} "
        f"({SCORE_NAMES[plan.score]}) with power {plan.power:g}",
        _columns(plan),
        plan.purchases,
        notes,
    )


def _columns(plan: PowerPlan) -> list[Column[Purchase]]:
    judged = len({each.verdicts for each in plan.purchases}) > 1
    marked = plan.cheapest if len(plan.purchases) > 1 else None
    return [
        Column("draws", lambda each: str(each.draws)),
        Column("verdicts", (lambda each: str(each.verdicts)) if judged else None),
        Column("problems", lambda each: f"{each.questions:,}"),
        Column("calls", lambda each: f"{each.calls:,}"),
        Column("$ likely", lambda each: f"{each.cost.likely:,.2f}" if each.cost else "?"),
        Column("", lambda each: "cheapest" if each == marked else ""),
    ]
