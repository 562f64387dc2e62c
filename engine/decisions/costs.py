"""Cost of each row of a run, stand-alone and marginal, and the frontier of cost against lift.

A call that several rows make is paid once. The stand-alone cost of a row covers all of its calls;
the marginal cost, in the order of the report, those that no earlier row makes. Marginal costs add
up to the cost of the run.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from ...protocols.scoring.arrays import Flags, Floats
from ...protocols.scoring.contrasts import Contrast, contrasts, shared_samples
from ...protocols.scoring.estimate import Estimate, exact
from ...protocols.scoring.inference import estimate
from ...protocols.scoring.sample import paired
from ..accounting.prices import PriceList
from ..display.finding import Finding, Part, column, figure, flag, number, program, word
from ..errors import UsageError
from ..reports.report import SCORE_NAMES
from .calls import PaidCall, RunCalls
from .rows import RunRows, against_naive

CostAxis: TypeAlias = Literal["dollars", "tokens"]

CHEAPER = 1e-12
"""Costs closer than this count as equal."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Billed usage of a set of calls."""

    calls: int = 0
    dollars: float | None = 0.0
    """None if the price of a model is unknown."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from providers' prompt caches."""
    judge_tokens: int = 0
    """Input and output tokens of the calls from which verdicts were read."""
    judge_dollars: float | None = 0.0
    """Cost of these calls; None if the price of a model is unknown."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def on(self, axis: CostAxis) -> float | None:
        return self.dollars if axis == "dollars" else float(self.tokens)


@dataclass(frozen=True, slots=True)
class RowCost:
    """Cost of one row."""

    name: str
    problems: int
    """Problems with at least one cell of the row run."""
    alone: Spent | None
    """None for the whole run."""
    marginal: Spent


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all rows of a run, in the order of its report."""

    rows: tuple[RowCost, ...]
    total: Spent
    """Cost of all distinct calls."""
    unpriced: tuple[str, ...]
    """Models without a known price."""
    missing: int
    """Cells with calls that the store does not hold."""


def row_costs(run: RunRows, found: RunCalls, prices: PriceList) -> Costs:
    """Stand-alone and marginal costs of the rows of a run."""
    prices = prices.named(run.sweep.meanings)
    rows = len(run.sweep.rows)
    alone, marginal = spent_by_row(found, rows, prices)
    ran = [_problems(run, row, found.problems) for row in range(rows)]
    models = dict.fromkeys(call.model for call in found.calls.values())
    return Costs(
        tuple(RowCost(*each) for each in zip(run.names, ran, alone, marginal, strict=True)),
        _spent((call for call in found.calls.values() if call.rows), prices),
        tuple(model for model in models if prices.find(model) is None),
        found.missing,
    )


def spent_by_row(found: RunCalls, rows: int, prices: PriceList) -> tuple[list[Spent], list[Spent]]:
    """Stand-alone and marginal usage of each row, by row number."""
    alone: list[list[PaidCall]] = [[] for _ in range(rows)]
    marginal: list[list[PaidCall]] = [[] for _ in range(rows)]
    for call in found.calls.values():
        if not call.rows:
            continue
        marginal[(call.rows & -call.rows).bit_length() - 1].append(call)
        bits = call.rows
        while bits:
            alone[(bits & -bits).bit_length() - 1].append(call)
            bits &= bits - 1
    return [_spent(each, prices) for each in alone], [_spent(each, prices) for each in marginal]


def _problems(run: RunRows, row: int, among: Collection[str] | None) -> int:
    ran = np.unique(run.table.cells.problem[run.table.completed(row)]).tolist()
    return sum(among is None or run.sweep.problems[n].id in among for n in ran)


def _spent(calls: Iterable[PaidCall], prices: PriceList) -> Spent:
    count = read = wrote = cached = judged = 0
    dollars: float | None = 0.0
    judge_dollars: float | None = 0.0
    for call in calls:
        usage = call.usage
        count += 1
        read += usage.input_tokens
        wrote += usage.output_tokens
        cached += usage.cache_read_tokens
        price = prices.find(call.model)
        dollars = None if dollars is None or price is None else dollars + price.cost(usage)
        if call.judging:
            judged += usage.input_tokens + usage.output_tokens
            if judge_dollars is not None:
                judge_dollars = None if price is None else judge_dollars + price.cost(usage)
    return Spent(count, dollars, read, wrote, cached, judged, judge_dollars)


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A row by its cost per problem and its lift or ASD."""

    name: str
    cost: float
    """Stand-alone cost per problem, on the axis of the frontier."""
    worth: Estimate
    on_frontier: bool
    """Whether no other row is as good at a lower cost, or better at the same cost."""
    beaten: bool
    """Whether some row that costs no more is better for sure, in the family of all contrasts with
    such rows: it is off the frontier, and not by chance."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Frontier of cost against lift, or against ASD if some row has no naive judge."""

    axis: CostAxis
    measure: Literal["lift", "ASD"]
    score: str
    problems: int
    """Problems that all rows share."""
    points: tuple[FrontierPoint, ...]
    """By rising cost."""


def frontier(
    run: RunRows, costs: Costs, *, score: str = "brier", axis: CostAxis | None = None
) -> Frontier:
    """Cost frontier of the rows. axis: by default dollars if all prices are known and the run cost
    anything, else tokens.

    Costs are held fixed. UsageError for dollars with an unknown price, or rows that share no
    problem.
    """
    if axis is None:
        axis = "tokens" if costs.unpriced or not costs.total.dollars else "dollars"
    if axis == "dollars" and costs.unpriced:
        raise UsageError(
            f"no price is known of {', '.join(costs.unpriced)}: give a file with --prices, or take "
            "--unit tokens"
        )
    samples = run.asd(score)
    try:
        shared = shared_samples(samples)
    except ValueError as exc:
        raise UsageError(f"{run.folder}: {exc}") from exc
    naive = {run.names[one]: run.names[two] for one, two in against_naive(run.sweep.rows)}
    for n, row in enumerate(run.sweep.rows):
        if row.naive:
            naive[run.names[n]] = run.names[n]
    lifted = all(naive.get(name) in shared for name in shared)
    if lifted:
        shared = {name: paired(sample, shared[naive[name]]) for name, sample in shared.items()}
    names = tuple(shared)
    worth = [
        exact(0.0, len(sample.values)) if lifted and naive[name] == name else estimate(sample)
        for name, sample in shared.items()
    ]
    spent = {row.name: row for row in costs.rows}
    cost = np.array([_each(spent[name], axis) for name in names])
    on = not_dominated(cost, np.array([each.value for each in worth]))
    worse = beaten(dict(zip(names, cost.tolist(), strict=True)), partial(contrasts, shared))
    points = [
        FrontierPoint(name, float(cost[n]), worth[n], bool(on[n]), name in worse)
        for n, name in enumerate(names)
    ]
    points.sort(key=lambda point: (point.cost, -point.worth.value))
    problems = len(next(iter(shared.values())).questions)
    return Frontier(axis, "lift" if lifted else "ASD", score, problems, tuple(points))


def beaten(
    cost: Mapping[str, float], decide: Callable[[list[tuple[str, str]]], tuple[Contrast, ...]]
) -> set[str]:
    """The rows that some row which costs no more surpasses for sure. decide: contrasts of pairs."""
    pairs = [
        (cheap, dear)
        for cheap in cost
        for dear in cost
        if cheap != dear and cost[cheap] <= cost[dear] + CHEAPER
    ]
    try:
        found = decide(pairs)
    except ValueError:
        return set()
    return {each.second for each in found if each.verdict == "first better"}


def _each(row: RowCost, axis: CostAxis) -> float:
    """Stand-alone cost per problem."""
    cost = row.alone.on(axis) if row.alone else None
    return (cost or 0.0) / max(row.problems, 1)


def not_dominated(cost: Floats, worth: Floats) -> Flags:
    """Whether each row is undominated: none as good at a lower cost, or better at the same cost."""
    cheaper = cost[:, None] < cost - CHEAPER
    alike = np.abs(cost[:, None] - cost) <= CHEAPER
    as_good, better = worth[:, None] >= worth, worth[:, None] > worth
    dominated = (cheaper & as_good) | (alike & better)
    found: Flags = np.logical_not(np.logical_or.reduce(dominated, axis=0))
    return found


def costs_finding(costs: Costs, frontier: Frontier, ledger: float | None) -> Finding:
    """The frontier, cheapest row first, and the cost of each row in the order of the report.

    ledger: dollars recorded in the run's ledger; None if it paid nothing.
    """
    unit, digits = ("$", 5) if frontier.axis == "dollars" else ("tokens", 0)
    points = Part(
        "frontier",
        f"frontier: {frontier.measure} ({SCORE_NAMES[frontier.score]}) against {unit} a problem",
        [
            word("row", "name"),
            number(f"{unit} a problem", "cost", f",.{digits}f"),
            figure(frontier.measure, "worth", 2),
            flag("on the frontier", "on_frontier"),
            flag("beaten for sure", "beaten"),
        ],
        frontier.points,
        (
            f"{frontier.problems} problems that all rows have. On the frontier: no row is as good "
            "for less, or better for as much; costs stand as they are.",
            "beaten for sure: a row that costs no more is better, in the family of all such pairs.",
        ),
    )
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
    # Dollars are shown unless everything was free.
    priced = costs.total.dollars is None or costs.total.dollars > 0
    rows = Part(
        "rows",
        "cost by row",
        [
            word("row", "name"),
            program("problems", "problems"),
            program("alone", "alone"),
            program("marginal", "marginal"),
            *[column("$ alone", "alone.dollars", _dollars, key="")] * priced,
            number("calls", "alone.calls", key=""),
            number("tokens in", "alone.input_tokens", key=""),
            number("cached", "alone.cached_tokens", key=""),
            number("out", "alone.output_tokens", key=""),
            number("judge's", "alone.judge_tokens", key=""),
            *[column("$ marginal", "marginal.dollars", _dollars, key="")] * priced,
            number("calls marginal", "marginal.calls", key=""),
            number("tokens marginal", "marginal.tokens", key=""),
        ],
        costs.rows,
        notes,
        total=RowCost("all rows", 0, None, costs.total),
    )
    about = {
        "axis": frontier.axis,
        "measure": frontier.measure,
        "score": frontier.score,
        "problems": frontier.problems,
        "total": costs.total,
        "ledger_dollars": ledger,
        "unpriced": list(costs.unpriced),
        "missing_cells": costs.missing,
    }
    return Finding((points, rows), about)


def _dollars(dollars: float | None) -> str:
    return "–" if dollars is None else f"{dollars:,.4f}"
