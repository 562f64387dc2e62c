"""Rendering of costs and their frontier as tables and JSON."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from ..display.columns import Column, as_table
from ..display.table import Table
from ..reports.figure_text import estimated, percent
from ..reports.tables import SCORE_NAMES
from .costs import Costs, Frontier, FrontierPoint, RowCost, Spent


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
    unit, digits = ("$", 5) if frontier.axis == "dollars" else ("tokens", 0)
    columns: list[Column[FrontierPoint]] = [
        Column("row", lambda point: point.name, words=True),
        Column(f"{unit} a problem", lambda point: f"{point.cost:,.{digits}f}"),
        Column(frontier.measure, lambda point: estimated(point.worth)),
        Column("on the frontier", lambda point: "yes" if point.on_frontier else ""),
        Column("in resamples", lambda point: percent(point.membership), spare=1),
    ]
    return as_table(
        f"frontier: {frontier.measure} ({SCORE_NAMES[frontier.score]}) against {unit} a problem",
        columns,
        frontier.points,
        (
            f"{frontier.problems} problems that all rows have. On the frontier: no row is as good "
            "for less, or better for as much.",
            "in resamples: share of resampled problems in which it is; costs stand as they are.",
        ),
    )


def _costs_table(costs: Costs, ledger: float | None) -> Table:
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
    lines = [CostLine(row.name, row.alone, row.marginal) for row in costs.rows]
    lines.append(CostLine("all rows", None, costs.total))
    return as_table("cost by row", _columns(costs.total), lines, notes)


class CostLine(NamedTuple):
    name: str
    alone: Spent | None
    """None for the whole run."""
    marginal: Spent


def _columns(total: Spent) -> list[Column[CostLine]]:
    """Dollars are shown unless everything was free."""
    priced = total.dollars is None or total.dollars > 0
    return [
        Column("row", lambda line: line.name, words=True),
        _alone("$ alone", (lambda spent: _dollars(spent.dollars)) if priced else None),
        _alone("calls", lambda spent: f"{spent.calls:,}"),
        _alone("tokens in", lambda spent: f"{spent.input_tokens:,}"),
        _alone("cached", lambda spent: f"{spent.cached_tokens:,}", spare=3),
        _alone("out", lambda spent: f"{spent.output_tokens:,}"),
        _alone("judge's", lambda spent: f"{spent.judge_tokens:,}"),
        Column("$ marginal", (lambda line: _dollars(line.marginal.dollars)) if priced else None),
        Column("calls marginal", lambda line: f"{line.marginal.calls:,}", spare=2),
        Column("tokens marginal", lambda line: f"{line.marginal.tokens:,}", spare=1),
    ]


def _alone(head: str, cell: Callable[[Spent], str] | None, spare: int = 0) -> Column[CostLine]:
    shown = (lambda line: cell(line.alone) if line.alone else "") if cell else None
    return Column(head, shown, spare=spare)


def _dollars(dollars: float | None) -> str:
    return "?" if dollars is None else f"{dollars:,.4f}"
