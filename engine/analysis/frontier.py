"""The Pareto frontier of rows: cost against ASD or lift.

The cost of a row counts all calls that it makes. A call that several rows make is paid once, so a
run costs less than the sum of its rows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ...cache.reply import Usage
from ..errors import UsageError
from ..models.accounting.ledger import sum_usage
from ..models.accounting.ledger_file import read_ledger
from ..models.accounting.prices import PriceList, listed, load_prices
from ..run.reader import RunReader
from ..run.record.cells import OF_VERDICT, numbers_of
from ..sweep.grid import baselines
from ..system.process import gc_relaxed
from ..system.settings import flag
from .catalogue import Analysis
from .findings.chart import Chart, Series, by_protocol, point
from .findings.finding import Finding, Part, figure, number, program, word
from .findings.finding import flag as marked
from .reports.results import SCORE_NAMES
from .rows import RunRows
from .scoring.contrasts import better_pairs, shared_samples
from .scoring.estimate import Estimate
from .scoring.inference import Flags, Floats, estimates

CostAxis: TypeAlias = Literal["dollars", "tokens"]


MOST_PROBLEMS, READ = 10, 300
"""Limits of a sample: problems, and rows times problems."""


@dataclass(slots=True)
class PaidCall:
    """A distinct call of a run."""

    model: str
    usage: Usage
    rows: int = 0
    """Bit set of the numbers of the rows that use it."""
    judging: bool = False
    """Whether a verdict was read from its reply."""


def calls_of_run(run: RunReader, problems: frozenset[str] | None = None) -> Sequence[PaidCall]:
    """Every distinct call of a run's cells with an outcome. problems: ids; None for all.
    RunFolderError."""
    sweep, tables = run.sweep, run.tables
    numbers = [n for n, p in enumerate(sweep.problems) if problems is None or p.id in problems]
    spans = [sweep.span(n) for n in numbers] if problems is not None else [range(len(sweep))]
    # By address and the endpoint's identity: the same in every run.
    calls = dict[tuple[bytes, str], PaidCall]()
    with gc_relaxed():
        rows: dict[int, int] = {}
        judging = set[int]()
        for span in spans:
            for stored in tables.ended(span, "asked", "judgements"):
                row = 1 << stored.cell.row
                for _, _, number, *_ in stored.asked:
                    rows[number] = rows.get(number, 0) | row
                for judgement in stored.judgements:
                    if judgement[2] == OF_VERDICT:
                        judging.update(numbers_of(judgement))
        for number, address, endpoint, *tail in tables.stored_calls(rows):
            model, identity, *_ = tables.endpoint(endpoint)
            # The reply of a call may have been recorded twice, in two forms.
            paid = calls.setdefault((address, identity), PaidCall(model, Usage(*tail[7:11])))
            paid.rows |= rows[number]
            paid.judging |= number in judging
    return [*calls.values()]


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


@dataclass(frozen=True, slots=True)
class RowCost:
    name: str
    problems: int
    """Problems with at least one cell of the row run."""
    alone: Spent

    def per_problem(self, axis: CostAxis) -> float:
        used = self.alone
        tokens = used.input_tokens + used.output_tokens
        return ((used.dollars or 0.0) if axis == "dollars" else tokens) / max(self.problems, 1)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all rows of a run, in the order of its report."""

    rows: tuple[RowCost, ...]
    total: Spent
    """Cost of all distinct calls."""
    unpriced: tuple[str, ...]
    """Models without a known price."""
    sampled: int = 0
    """Problems, if these are the costs of some alone."""


def row_costs(
    run: RunRows,
    every: Sequence[PaidCall],
    prices: PriceList,
    problems: frozenset[str] | None = None,
) -> Costs:
    """every: the calls of these problems, by id; None for all."""
    prices = prices.named(run.sweep.meanings)
    by_row: list[list[PaidCall]] = [[] for _ in run.names]
    for call in every:
        rows = call.rows
        while rows:
            by_row[(rows & -rows).bit_length() - 1].append(call)
            rows &= rows - 1
    return Costs(
        tuple(
            RowCost(run.names[n], _problems(run, n, problems), spent(calls, prices))
            for n, calls in enumerate(by_row)
        ),
        spent(every, prices),
        tuple(m for m in dict.fromkeys(call.model for call in every) if prices.find(m) is None),
        len(problems or ()),
    )


def sampled_costs(run: RunRows) -> Costs:
    """Costs of a run's rows over its first problems, ten at most, at listed prices: for pages."""
    count = max(1, min(MOST_PROBLEMS, READ // len(run.names)))
    sample = frozenset(problem.id for problem in run.sweep.problems[:count])
    return row_costs(run, calls_of_run(run.run, sample), run.run.prices, sample)


def _problems(run: RunRows, row: int, among: Collection[str] | None) -> int:
    ran = np.unique(run.table.cells.problem[run.table.completed(row)]).tolist()
    return sum(among is None or run.sweep.problems[n].id in among for n in ran)


def spent(calls: Iterable[PaidCall], prices: PriceList) -> Spent:
    """Usage of these calls, each counted once."""
    count = read = wrote = cached = judged = 0
    dollars: float | None = 0.0
    for call in calls:
        usage, price = call.usage, prices.find(call.model)
        count += 1
        read += usage.input_tokens
        wrote += usage.output_tokens
        cached += usage.cache_read_tokens
        dollars = None if dollars is None or price is None else dollars + price.cost(usage)
        if call.judging:
            judged += usage.input_tokens + usage.output_tokens
    return Spent(count, dollars, read, wrote, cached, judged)


def costs_part(costs: Costs, ledger: float | None) -> Part:
    """The cost of each row, in the report's order. ledger: the dollars in it; None for nothing."""
    notes = [
        "Each row counts all calls that it makes. A call that several rows share is paid for once."
    ]
    if ledger is not None:
        notes.append(f"the ledger has ${ledger:,.2f}, with requests that failed or were sent again")
    if costs.unpriced:
        notes.append(f"no price is known for {', '.join(costs.unpriced)}; give one with --prices")
    # Dollars are shown unless everything was free.
    priced = costs.total.dollars is None or costs.total.dollars > 0
    return Part(
        "rows",
        "cost by row",
        [
            word("row", "name"),
            program("problems", "problems"),
            program("alone", "alone"),
            *[number("$ alone", "alone.dollars", ",.4f", key="")] * priced,
            number("calls", "alone.calls", key=""),
            number("tokens in", "alone.input_tokens", key=""),
            *[number("cached", "alone.cached_tokens", key="")] * (costs.total.cached_tokens > 0),
            number("out", "alone.output_tokens", key=""),
        ],
        costs.rows,
        notes,
        total=RowCost("all rows", 0, costs.total),
    )


CHEAPER = 1e-12
"""Costs closer than this count as equal."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A row by its cost and its lift or ASD."""

    name: str
    judge: str
    cost: float
    """Of a problem, if the row ran alone."""
    worth: Estimate
    on_frontier: bool
    """Whether no other one of its judge is as good at a lower cost, or better at the same cost."""
    beaten: bool
    """Whether one that costs no more is better for sure, in the family of all contrasts with such
    ones: it is off the frontier, and not by chance."""


def frontier_points(
    cost: Mapping[str, float],
    worth: Mapping[str, Estimate],
    better: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
    judge_of: Mapping[str, str],
) -> tuple[FrontierPoint, ...]:
    """Points by rising cost. better: chooses the pairs of names whose first is better. Rows of
    different judges do not compare, so each judge has a separate frontier."""
    on = dict[str, bool]()
    for judge in dict.fromkeys(judge_of[name] for name in worth):
        names = [name for name in worth if judge_of[name] == judge]
        places = np.array([cost[n] for n in names]), np.array([worth[n].value for n in names])
        on |= zip(names, not_dominated(*places).tolist(), strict=True)
    pairs = [
        (cheap, dear)
        for cheap, dear in permutations(worth, 2)
        if judge_of[cheap] == judge_of[dear] and cost[cheap] <= cost[dear] + CHEAPER
    ]
    try:
        beaten = {second for _, second in better(pairs)}
    except ValueError:
        beaten = set()
    points = (
        FrontierPoint(name, judge_of[name], cost[name], value, on[name], name in beaten)
        for name, value in worth.items()
    )
    return tuple(sorted(points, key=lambda point: (cost[point.name], -point.worth.value)))


def not_dominated(cost: Floats, worth: Floats) -> Flags:
    """Whether each is undominated: none as good at a lower cost, or better at the same cost."""
    cheaper = cost[:, None] < cost - CHEAPER
    alike = np.abs(cost[:, None] - cost) <= CHEAPER
    as_good, better = worth[:, None] >= worth, worth[:, None] > worth
    dominated = (cheaper & as_good) | (alike & better)
    optimal: Flags = np.logical_not(np.logical_or.reduce(dominated, axis=0))
    return optimal


def frontier_chart(title: str, x: str, y: str, points: Sequence[FrontierPoint]) -> Chart:
    """The points, a series a protocol, and the frontier of each judge as a line."""
    hulls: dict[str, list[FrontierPoint]] = {}
    for one in points:
        if one.on_frontier:
            hulls.setdefault(one.judge, []).append(one)
    series = list[Series]()
    ends = {judge: f" · {judge}" * (len(hulls) > 1) for judge in hulls}
    for judge, end in ends.items():
        places = (point(p.name, p.cost, p.worth) for p in points if p.judge == judge)
        series += [replace(line, name=f"{line.name}{end}") for line in by_protocol(places)]
    for judge, end in ends.items():
        line = tuple(point(p.name, p.cost, p.worth.value) for p in hulls[judge])
        series.append(Series(f"frontier{end}", line, joined=True))
    costly = all(point.cost > 0 for point in points)  # A logarithmic axis cannot show a cost of 0.
    return Chart(title, x, y, tuple(series), zero=True, log_x=costly)


def frontier_finding(
    run: RunRows,
    costs: Costs,
    *,
    score: str = "brier",
    axis: CostAxis | None = None,
    ledger: float | None = None,
) -> Finding:
    """The frontier of a run's rows by lift, or by ASD if some row has no naive judge; and the cost
    of each row in the order of the report. axis: by default dollars if all prices are known and the
    run cost anything, else tokens. Costs are held fixed. ledger: dollars in the run's ledger; None
    for nothing. UsageError for dollars with an unknown price, or rows that share no problem."""
    if axis is None:
        axis = "tokens" if costs.unpriced or not costs.total.dollars else "dollars"
    if axis == "dollars" and costs.unpriced:
        raise UsageError(
            f"no price is known for {', '.join(costs.unpriced)}: name a file with --prices, or "
            "take --unit tokens"
        )
    try:
        shared = shared_samples(run.asd(score))
    except ValueError as exc:
        raise UsageError(f"{run.folder}: {exc}") from exc
    rows = run.sweep.rows
    naive = {run.names[one]: run.names[two] for one, two in baselines(rows).items()}
    lifted = all(naive.get(name) in shared for name in shared)
    worths = {
        name: sample - shared[naive[name]] if lifted else sample for name, sample in shared.items()
    }
    how = run.sweep.interval
    worth = dict(zip(worths, estimates(list(worths.values()), interval=how), strict=True))
    if lifted:
        none = {name: len(worth.values) for name, worth in worths.items() if naive[name] == name}
        worth |= {name: Estimate(0.0, n) for name, n in none.items()}
    cost = {row.name: row.per_problem(axis) for row in costs.rows if row.name in shared}
    judges = {name: row.shown_judge for name, row in zip(run.names, rows, strict=True)}
    points = frontier_points(cost, worth, partial(better_pairs, shared, interval=how), judges)
    problems = len(next(iter(shared.values())).questions)
    sample = f"; costs are of the first {costs.sampled}" if 0 < costs.sampled < problems else ""
    measure = "lift" if lifted else "ASD"
    unit, digits = ("$", 5) if axis == "dollars" else ("tokens", 0)
    title, per_problem = f"frontier: {measure} ({SCORE_NAMES[score]}) against {unit}", "per problem"
    part = Part(
        "frontier",
        f"{title} {per_problem}",
        [
            word("row", "name"),
            number(f"{unit} {per_problem}", "cost", f",.{digits}f"),
            figure(measure, "worth", 2),
            marked("on the frontier", "on_frontier"),
            marked("beaten, p < 0.05", "beaten"),
        ],
        points,
        (
            f"{problems} problems that all rows have{sample}. On the frontier: no row of the same "
            "judge is as good at a lower cost, or better at the same; costs have no interval.",
            "beaten: another that costs no more is better, with p below 0.05 in the family of all "
            "such pairs.",
        ),
        chart=frontier_chart(f"{title} {per_problem}", f"{unit} {per_problem}", measure, points),
    )
    about = {
        "axis": axis,
        "measure": measure,
        "score": score,
        "problems": problems,
        "total": costs.total,
        "ledger_dollars": ledger,
        "unpriced": list(costs.unpriced),
    }
    return Finding((part, costs_part(costs, ledger)), about)


@dataclass(frozen=True, slots=True)
class Frontier(Analysis):
    """Print the cost of each row and the Pareto frontier.

    The record in RUN says which rows use which calls. A row costs all calls that it makes; one that
    several rows use is paid for once. Nothing is sent."""

    title = "Frontier of cost"
    lead = (
        "Up: how good each row is. Right: its cost per problem. On the frontier, no row of the "
        "same judge is as good at a lower cost."
    )

    axis: CostAxis | None = flag(
        "Unit of cost. Default: dollars where all prices are known, else tokens.", name="--unit"
    )
    prices: Path | None = flag(
        "TOML file with prices that take precedence over the built-in ones.", exists=True
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        prices = load_prices(self.prices) if self.prices else listed()
        costs = row_costs(run, calls_of_run(run.run), prices)
        paid = sum_usage(read_ledger(run.folder).values()).dollars or None
        return frontier_finding(run, costs, score=score, axis=self.axis, ledger=paid)

    def at_once(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        """Of a sample of problems; the page of costs has the table that comes with it."""
        finding = frontier_finding(run, sampled_costs(run), score=score)
        return replace(finding, parts=finding.parts[:1])
