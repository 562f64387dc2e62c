"""Cost of each row of a run, stand-alone and marginal, and the frontier of cost against lift.

A call that several rows make is paid once. The stand-alone cost of a row covers all of its calls;
the marginal cost, in the order of the report, those that no earlier row makes. Marginal costs add
up to the cost of the run.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...protocols.scoring.arrays import Flags, Floats
from ...protocols.scoring.resamples import Rows, resampled_means, together
from ...protocols.scoring.sample import Sample
from ...protocols.scoring.statistics import Estimate, estimates
from ..accounting.prices import PriceList
from ..errors import UsageError
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
    alone: Spent
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
    ran = np.unique(run.table.cells.problem[run.table.landed(row)]).tolist()
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
    membership: float
    """Share of resamples of the problems in which it is on the frontier."""


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
    run: RunRows,
    costs: Costs,
    *,
    score: str = "brier",
    axis: CostAxis | None = None,
    seed: int = 0,
    resamples: int = 2_000,
) -> Frontier:
    """Cost frontier of the rows. axis: by default dollars if all prices are known and the run cost
    anything, else tokens.

    Costs are held fixed; problems are resampled in clusters, for all rows at once. UsageError for
    dollars with an unknown price, or rows that share no problem.
    """
    if axis is None:
        axis = "tokens" if costs.unpriced or not costs.total.dollars else "dollars"
    if axis == "dollars" and costs.unpriced:
        raise UsageError(
            f"no price is known of {', '.join(costs.unpriced)}: give a file with --prices, or take "
            "--by tokens"
        )
    samples = run.asd(score)
    try:
        rows = together(samples)
    except ValueError as exc:
        raise UsageError(f"{run.folder}: {exc}") from exc
    column = {name: n for n, name in enumerate(rows.names)}
    naive = {run.names[one]: run.names[two] for one, two in against_naive(run.sweep.rows)}
    for n, row in enumerate(run.sweep.rows):
        if row.naive:
            naive[run.names[n]] = run.names[n]
    lifted = all(naive.get(name) in column for name in rows.names)
    drawn = resampled_means(rows, seed=seed, resamples=resamples)
    means = rows.means
    if lifted:
        base = [column[naive[name]] for name in rows.names]
        drawn, means = drawn - drawn[:, base], means - means[base]
    worth = estimates(
        [
            _worth(rows, samples[name], n, column[naive[name]] if lifted else None)
            for n, name in enumerate(rows.names)
        ],
        seed=seed,
        resamples=resamples,
    )
    spent = {row.name: row for row in costs.rows}
    cost = np.array([_each(spent[name], axis) for name in rows.names])
    on = not_dominated(cost, means[None, :])[0]
    share = not_dominated(cost, drawn).mean(axis=0)
    points = [
        FrontierPoint(name, float(cost[n]), worth[n], bool(on[n]), float(share[n]))
        for n, name in enumerate(rows.names)
    ]
    points.sort(key=lambda point: (point.cost, -point.worth.mean))
    return Frontier(axis, "lift" if lifted else "ASD", score, len(rows.questions), tuple(points))


def _worth(rows: Rows, sample: Sample, row: int, base: int | None) -> Sample:
    """A row's ASD on the problems that all rows share, minus the base row's if there is one."""
    groups = dict(zip(sample.questions, sample.groups, strict=True))
    values = rows.values[:, row]
    ends: tuple[float, float] | None = (float(rows.ends[row, 0]), float(rows.ends[row, 1]))
    if base is not None:
        values = values - rows.values[:, base]
        low, high = rows.ends[row] - rows.ends[base][::-1]
        # The lift of the naive judge over itself is exactly 0: no ends, so no interval.
        ends = None if base == row else (float(low), float(high))
    return Sample(
        rows.questions, tuple(values.tolist()), tuple(groups[id] for id in rows.questions), ends
    )


def _each(row: RowCost, axis: CostAxis) -> float:
    """Stand-alone cost per problem."""
    cost = row.alone.on(axis)
    return (cost or 0.0) / max(row.problems, 1)


def not_dominated(cost: Floats, worth: Floats) -> Flags:
    """Whether each row is undominated: none as good at a lower cost, or better at the same cost.

    cost: rows. worth: resamples × rows.
    """
    order = np.argsort(cost, kind="stable")
    undominated: Flags = np.zeros(worth.shape, dtype=np.bool_)
    best = np.full(len(worth), -np.inf)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and cost[order[stop]] - cost[order[start]] <= CHEAPER:
            stop += 1
        level = order[start:stop]
        level_best = worth[:, level].max(axis=1)
        undominated[:, level] = (worth[:, level] >= level_best[:, None]) & (
            worth[:, level] > best[:, None]
        )
        np.maximum(best, level_best, out=best)
        start = stop
    return undominated
