"""Rendering of costs and their frontier as tables and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from oversight.engine.decisions.costs import Costs, Frontier, FrontierPoint, RowCost, Spent
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, error_text
from oversight.engine.reports.tables import SCORE_NAMES


def costs_json(costs: Costs, frontier: Frontier, ledger: float | None) -> dict[str, Any]:
    """`{"rows": [{"name", "alone": {"calls", "dollars", …}, "marginal": {…}, "cost", …}], …}`.

    ledger: dollars recorded in the run's ledger; None if it paid nothing.
    """
    points = {point.name: point for point in frontier.points}
    return {
        "axis": frontier.axis,
        "measure": frontier.measure,
        "score": frontier.score,
        "problems": frontier.problems,
        "rows": [_row(row, points.get(row.name)) for row in costs.rows],
        "total": asdict(costs.total),
        "ledger_dollars": ledger,
        "unpriced": list(costs.unpriced),
        "missing_cells": costs.missing,
    }


def _row(row: RowCost, point: FrontierPoint | None) -> dict[str, Any]:
    low, high = (point and point.worth.interval) or (None, None)
    return {
        "name": row.name,
        "problems": row.problems,
        "alone": asdict(row.alone),
        "marginal": asdict(row.marginal),
        "cost_a_problem": point and point.cost,
        "mean": point and point.worth.mean,
        "low": low,
        "high": high,
        "on_frontier": point is not None and point.on_frontier,
        "membership": point and point.membership,
    }


def costs_tables(costs: Costs, frontier: Frontier, ledger: float | None) -> list[Table]:
    """The frontier, cheapest row first, and the cost of each row in the order of the report."""
    return [_frontier_table(frontier), _costs_table(costs, ledger)]


def _frontier_table(frontier: Frontier) -> Table:
    unit = "$" if frontier.axis == "dollars" else "tokens"
    body = [
        (
            point.name,
            _amount(point.cost, frontier.axis),
            _pm(point),
            "yes" if point.on_frontier else "",
            f"{point.membership:.0%}",
        )
        for point in frontier.points
    ]
    return Table(
        f"frontier: {frontier.measure} ({SCORE_NAMES[frontier.score]}) against {unit} a problem",
        ("row", f"{unit} a problem", frontier.measure, "on the frontier", "in resamples"),
        tuple(body),
        1,
        (
            f"{frontier.problems} problems that all rows have. On the frontier: no row is as good "
            "for less, or better for as much.",
            "in resamples: share of resampled problems in which it is; costs stand as they are.",
        ),
        ("in resamples",),
    )


def _costs_table(costs: Costs, ledger: float | None) -> Table:
    priced = costs.total.dollars is None or costs.total.dollars > 0
    body = [(row.name, *_spent(row.alone, priced), *_marginal(row, priced)) for row in costs.rows]
    left = ("", *_marginal(RowCost("", 0, costs.total, costs.total), priced))
    spare = _spent(costs.total, priced)
    body.append(("all rows", *("" for _ in spare), *left[1:]))
    head = ["row", *["$ alone"] * priced, "calls", "tokens in", "cached", "out", "judge's"]
    head += [*["$ marginal"] * priced, "calls marginal", "tokens marginal"]
    notes = [
        "Each row by itself, with all calls that it makes. marginal: only those that no row above "
        "it made; they add up to the run's.",
        "judge's: tokens in and out of the calls from which verdicts were read.",
    ]
    if ledger is not None:
        notes.append(f"the ledger has ${ledger:,.2f}, with requests that failed or were sent again")
    if costs.unpriced:
        notes.append(f"no price is known of {', '.join(costs.unpriced)}; give one with --prices")
    if costs.missing:
        notes.append(f"{costs.missing:,} cells have calls that the store does not hold: left out")
    return Table(
        "cost by row",
        tuple(head),
        tuple(body),
        1,
        tuple(notes),
        ("cached", "calls marginal", "tokens marginal"),
    )


def _spent(spent: Spent, priced: bool) -> Sequence[str]:
    counts = (spent.input_tokens, spent.cached_tokens, spent.output_tokens, spent.judge_tokens)
    return (
        *[_dollars(spent.dollars)] * priced,
        f"{spent.calls:,}",
        *(f"{count:,}" for count in counts),
    )


def _marginal(row: RowCost, priced: bool) -> Sequence[str]:
    spent = row.marginal
    return (*[_dollars(spent.dollars)] * priced, f"{spent.calls:,}", f"{spent.tokens:,}")


def _dollars(dollars: float | None) -> str:
    return "?" if dollars is None else f"{dollars:,.4f}"


def _amount(cost: float, axis: str) -> str:
    return f"{cost:,.5f}" if axis == "dollars" else f"{cost:,.0f}"


def _pm(point: FrontierPoint) -> str:
    half = point.worth.half_width
    return signed(point.worth.mean) + (f" ± {error_text(half)}" if half else "")
