"""The frontier of what rows cost against what they are worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..models.accounting.ledger import sum_usage
from ..models.accounting.ledger_file import read_ledger
from ..models.accounting.prices import listed, load_prices
from ..sweep.grid import baselines
from ..system.flags import flag
from .catalogue import Analysis
from .costs import CostAxis, Costs, calls_of_run, costs_part, row_costs, sampled_costs
from .findings.chart import Chart, Series, by_protocol, point
from .findings.finding import Finding, Part, figure, number, word
from .findings.finding import flag as marked
from .reports.results import SCORE_NAMES
from .rows import RunRows
from .scoring.arrays import Flags, Floats
from .scoring.contrasts import Contrast, contrasts, shared_samples
from .scoring.estimate import Estimate, exact
from .scoring.inference import estimates

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
    decide: Callable[[list[tuple[str, str]]], tuple[Contrast, ...]],
    of: Mapping[str, str],
) -> tuple[FrontierPoint, ...]:
    """Points by rising cost. decide: contrasts of pairs of names. of: judges by name; what another
    judge makes of a row says nothing of it, so each has a frontier of its own."""
    on = dict[str, bool]()
    for judge in dict.fromkeys(of[name] for name in worth):
        its = [name for name in worth if of[name] == judge]
        places = np.array([cost[n] for n in its]), np.array([worth[n].value for n in its])
        on |= zip(its, not_dominated(*places).tolist(), strict=True)
    pairs = [
        (cheap, dear)
        for cheap, dear in permutations(worth, 2)
        if of[cheap] == of[dear] and cost[cheap] <= cost[dear] + CHEAPER
    ]
    try:
        better = [each for each in decide(pairs) if each.verdict == "better"]
    except ValueError:
        better = []
    beaten = {each.second for each in better}
    points = (
        FrontierPoint(name, of[name], cost[name], its, on[name], name in beaten)
        for name, its in worth.items()
    )
    return tuple(sorted(points, key=lambda each: (cost[each.name], -each.worth.value)))


def not_dominated(cost: Floats, worth: Floats) -> Flags:
    """Whether each is undominated: none as good at a lower cost, or better at the same cost."""
    cheaper = cost[:, None] < cost - CHEAPER
    alike = np.abs(cost[:, None] - cost) <= CHEAPER
    as_good, better = worth[:, None] >= worth, worth[:, None] > worth
    dominated = (cheaper & as_good) | (alike & better)
    found: Flags = np.logical_not(np.logical_or.reduce(dominated, axis=0))
    return found


def frontier_chart(title: str, x: str, y: str, points: Sequence[FrontierPoint]) -> Chart:
    """The points, a series a protocol, and the frontier of each judge as a line."""
    hulls: dict[str, list[FrontierPoint]] = {}
    for each in points:
        if each.on_frontier:
            hulls.setdefault(each.judge, []).append(each)
    series = list[Series]()
    named = {judge: f" · {judge}" * (len(hulls) > 1) for judge in hulls}
    for judge, end in named.items():
        its = (point(p.name, p.cost, p.worth) for p in points if p.judge == judge)
        series += [replace(each, name=f"{each.name}{end}") for each in by_protocol(its)]
    for judge, end in named.items():
        line = tuple(point(p.name, p.cost, p.worth.value) for p in hulls[judge])
        series.append(Series(f"frontier{end}", line, joined=True))
    costly = all(each.cost > 0 for each in points)  # A logarithm has no place for what is free.
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
    of each row in the order of the report.

    axis: by default dollars if all prices are known and the run cost anything, else tokens. Costs
    are held fixed. ledger: dollars recorded in the run's ledger; None if it paid nothing.
    UsageError for dollars with an unknown price, or rows that share no problem.
    """
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
        none = {name: len(its.values) for name, its in worths.items() if naive[name] == name}
        worth |= {name: exact(0.0, n) for name, n in none.items()}
    cost = {row.name: row.each(axis) for row in costs.rows if row.name in shared}
    judges = {name: row.shown_judge for name, row in zip(run.names, rows, strict=True)}
    points = frontier_points(cost, worth, partial(contrasts, shared, interval=how), judges)
    problems = len(next(iter(shared.values())).questions)
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
            f"{problems} problems that all rows have. On the frontier: no row is as good at a "
            "lower cost, or better at the same; costs have no interval.",
            "beaten: one that costs no more is better, with p below 0.05 in the family of all "
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
    several rows use is paid for once. Nothing is sent.
    """

    title = "Frontier of cost"
    lead = (
        "What each row is worth over what a problem costs under it. On the frontier no other row "
        "is as good at a lower cost."
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
        found = frontier_finding(run, sampled_costs(run), score=score)
        return replace(found, parts=found.parts[:1])
