"""What each row of a run costs by itself and beside the others, and which rows are worth it.

A call that several rows ask is paid once. Stand-alone, a row costs all of its calls; marginally, in
the order of the report, those that no row before it asked. Marginal costs add up to the run's.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from oversight.engine.accounting.prices import PriceList
from oversight.engine.decisions.calls import PaidCall, RunCalls
from oversight.engine.decisions.rows import RunRows, against_naive
from oversight.engine.errors import UsageError
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.scoring.arrays import Flags, Floats
from oversight.protocols.scoring.resamples import Rows, resampled_means, together
from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import Estimate, estimates

CostAxis: TypeAlias = Literal["dollars", "tokens"]

CHEAPER = 1e-12
"""Costs closer than this are the same."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a number of calls took, as billed."""

    calls: int = 0
    dollars: float | None = 0.0
    """None if the price of a model is not known."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input that providers took from their prompt caches."""
    judge_tokens: int = 0
    """Input and output of the calls from which verdicts were read."""
    judge_dollars: float | None = 0.0
    """Of these calls; None if the price of a model is not known."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def on(self, axis: CostAxis) -> float | None:
        return self.dollars if axis == "dollars" else float(self.tokens)


@dataclass(frozen=True, slots=True)
class RowCost:
    """One row's."""

    name: str
    problems: int
    """Of which some cell of the row was run."""
    alone: Spent
    marginal: Spent


@dataclass(frozen=True, slots=True)
class Costs:
    """All rows of a run, in the order of its report."""

    rows: tuple[RowCost, ...]
    total: Spent
    """Of all distinct calls."""
    unpriced: tuple[str, ...]
    """Models without a known price."""
    missing: int
    """Cells with calls that the store does not hold."""


def row_costs(run: RunRows, found: RunCalls, prices: PriceList) -> Costs:
    """What every row took, by itself and beside those above it."""
    prices = run.opened.models.priced(prices)
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
    """What each row took by itself, and beside those above it."""
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
    """A row by what it costs a problem and what it is good for."""

    name: str
    cost: float
    """A problem, stand-alone, on the axis of the frontier."""
    worth: Estimate
    on_frontier: bool
    """Whether no row is as good for less, or better for as much."""
    membership: float
    """Share of resampled problems in which it is."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Cost against lift, or against ASD where the sweep has no naive judge to lift from."""

    axis: CostAxis
    measure: Literal["lift", "ASD"]
    score: str
    problems: int
    """That all of the rows have in common."""
    points: tuple[FrontierPoint, ...]
    """From the cheapest to the dearest."""


def frontier(
    run: RunRows,
    costs: Costs,
    *,
    score: str = "brier",
    axis: CostAxis | None = None,
    seed: int = 0,
    resamples: int = 2_000,
) -> Frontier:
    """The rows that pay. axis: dollars if all prices are known and something costs, else tokens.

    Costs are taken as they are; problems are resampled in clusters, for all rows at once.
    UsageError where dollars are asked for and a price is not known, or the rows share no problem.
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
        if isinstance(row.protocol, NaiveJudge):
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
    """A row's ASD on the problems that all have; with a base, less that of the base."""
    groups = dict(zip(sample.questions, sample.groups, strict=True))
    values = rows.values[:, row]
    ends: tuple[float, float] | None = (float(rows.ends[row, 0]), float(rows.ends[row, 1]))
    if base is not None:
        values = values - rows.values[:, base]
        low, high = rows.ends[row] - rows.ends[base][::-1]
        # The naive judge lifts itself by nothing: there is nothing to be uncertain of.
        ends = None if base == row else (float(low), float(high))
    return Sample(
        rows.questions, tuple(values.tolist()), tuple(groups[id] for id in rows.questions), ends
    )


def _each(row: RowCost, axis: CostAxis) -> float:
    """The stand-alone cost of a problem."""
    cost = row.alone.on(axis)
    return (cost or 0.0) / max(row.problems, 1)


def not_dominated(cost: Floats, worth: Floats) -> Flags:
    """Which rows no other is as good as for less, or better than for as much.

    cost: rows. worth: resamples × rows.
    """
    order = np.argsort(cost, kind="stable")
    found: Flags = np.zeros(worth.shape, dtype=np.bool_)
    best = np.full(len(worth), -np.inf)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and cost[order[stop]] - cost[order[start]] <= CHEAPER:
            stop += 1
        level = order[start:stop]
        most = worth[:, level].max(axis=1)
        found[:, level] = (worth[:, level] >= most[:, None]) & (worth[:, level] > best[:, None])
        np.maximum(best, most, out=best)
        start = stop
    return found
