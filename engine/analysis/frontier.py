"""The frontier of what rows, or settings of a judgement table, cost against what they are worth."""

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
from .findings.finding import Column, Finding, Part, figure, number, word
from .findings.finding import flag as marked
from .judged import asds, lines_of
from .reports.formats import CLUSTER
from .reports.results import SCORE_NAMES
from .reports.scored import by_setting, ways_of
from .rows import RunRows
from .scoring.arrays import Flags, Floats
from .scoring.contrasts import Contrast, contrasts, shared_samples
from .scoring.estimate import Estimate, exact
from .scoring.inference import estimates, mean_of

CHEAPER = 1e-12
"""Costs closer than this count as equal."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A row, or a setting, by its cost and its lift or ASD."""

    name: str
    judge: str
    """"" where settings of a table are compared."""
    cost: float | Estimate
    """Cost of a problem if the row ran alone; for experiments made elsewhere, of a judgement."""
    worth: Estimate
    on_frontier: bool
    """Whether no other one of its judge is as good at a lower cost, or better at the same cost."""
    beaten: bool
    """Whether one that costs no more is better for sure, in the family of all contrasts with such
    ones: it is off the frontier, and not by chance."""


def frontier_points(
    costs: Mapping[str, float | Estimate],
    worth: Mapping[str, Estimate],
    decide: Callable[[list[tuple[str, str]]], tuple[Contrast, ...]],
    judges: Mapping[str, str] | None = None,
) -> tuple[FrontierPoint, ...]:
    """Points by rising cost. decide: contrasts of pairs of names. judges: by name; what another
    judge makes of a row says nothing of it, so each has a frontier of its own."""
    cost = {name: c.value if isinstance(c, Estimate) else c for name, c in costs.items()}
    of = judges or dict.fromkeys(worth, "")
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
        better = [each for each in decide(pairs) if each.verdict == "first better"]
    except ValueError:
        better = []
    beaten = {each.second for each in better}
    points = (
        FrontierPoint(name, of[name], costs[name], its, on[name], name in beaten)
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


def frontier_part(
    title: str, of: str, cost: Column, worth: Column, points: tuple[FrontierPoint, ...], note: str
) -> Part:
    """of: what a point is, as the head of its column."""
    hulls: dict[str, list[FrontierPoint]] = {}
    for each in points:
        if each.on_frontier:
            hulls.setdefault(each.judge, []).append(each)
    named = {judge: f" · {judge}" * (len(hulls) > 1) for judge in hulls}
    drawn = [
        replace(series, name=f"{series.name}{end}")
        for judge, end in named.items()
        for series in by_protocol(
            point(each.name, each.cost, each.worth) for each in points if each.judge == judge
        )
    ]
    return Part(
        "frontier",
        title,
        [
            word(of, "name", key="setting" if of != "row" else None),
            cost,
            worth,
            marked("on the frontier", "on_frontier"),
            marked("beaten, p < 0.05", "beaten"),
        ],
        points,
        (
            note,
            "beaten: one that costs no more is better, with p below 0.05 in the family of all "
            "such pairs.",
        ),
        chart=Chart(
            title,
            cost.head,
            worth.head,
            (
                *drawn,
                *(
                    Series(
                        f"frontier{named[judge]}",
                        tuple(point(each.name, each.cost, each.worth.value) for each in hull),
                        joined=True,
                    )
                    for judge, hull in hulls.items()
                ),
            ),
            zero=True,
            log_x=True,
        ),
    )


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
    worth = dict(zip(worths, estimates(list(worths.values())), strict=True))
    if lifted:
        none = {name: len(its.values) for name, its in worths.items() if naive[name] == name}
        worth |= {name: exact(0.0, n) for name, n in none.items()}
    cost = {row.name: row.each(axis) for row in costs.rows if row.name in shared}
    judges = {name: row.shown_judge for name, row in zip(run.names, rows, strict=True)}
    points = frontier_points(cost, worth, partial(contrasts, shared), judges)
    problems = len(next(iter(shared.values())).questions)
    measure = "lift" if lifted else "ASD"
    unit, digits = ("$", 5) if axis == "dollars" else ("tokens", 0)
    part = frontier_part(
        f"frontier: {measure} ({SCORE_NAMES[score]}) against {unit} a problem",
        "row",
        number(f"{unit} a problem", "cost", f",.{digits}f"),
        figure(measure, "worth", 2),
        points,
        f"{problems} problems that all rows have. On the frontier: no row is as good at a lower "
        "cost, or better at the same; costs have no interval.",
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
    """Print what each row of RUN costs, and which rows no other beats at the same cost or less.

    The record in RUN says which rows use which calls. A call that several rows use is paid
    for once. "Alone" is what a row would cost by itself: all of its calls.
    "Marginal" is what it adds to the rows above it in the report: the calls that none of them
    uses. Nothing is sent.

    RUN may be a judgement table (.jsonl), as `oversight measure judgements` reads it, with a "cost"
    in every line: then its settings are compared by the cost of a judgement.
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
    ways: tuple[str, ...] = CLUSTER

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        prices = load_prices(self.prices) if self.prices else listed()
        costs = row_costs(run, calls_of_run(run.run), prices)
        paid = sum_usage(read_ledger(run.folder).values()).dollars or None
        return frontier_finding(run, costs, score=score, axis=self.axis, ledger=paid)

    def at_once(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        """Of a sample of problems; the page of costs has the table that comes with it."""
        found = frontier_finding(run, sampled_costs(run), score=score)
        return replace(found, parts=found.parts[:1])

    def of_table(self, file: Path, score: str) -> Finding:
        """The settings by the mean cost of a judgement and their ASD, cheapest first. UsageError if
        a line has no cost, or no setting an ASD."""
        if self.axis or self.prices:
            raise UsageError("of judgement tables: --score, --cluster alone")
        every = lines_of(file)
        if np.isnan(every.cost).any():
            line = every.line[int(np.isnan(every.cost).argmax())]
            raise UsageError(f"line {line} has no cost: a frontier needs the 'cost' of every line")
        ways, settings = ways_of(every, self.ways), by_setting(every)
        rows = asds(settings, score, ways)
        if not rows:
            raise UsageError(f"{file}: no setting has an ASD")
        costs = {
            name: mean_of(settings[name].cost, settings[name].clusters(ways)).estimate()
            for name in rows
        }
        points = frontier_points(
            costs,
            {name: its.estimate() for name, its in rows.items()},
            partial(contrasts, rows),
        )
        part = frontier_part(
            f"frontier: ASD ({SCORE_NAMES[score]}) against the cost of a judgement",
            "setting",
            figure("cost", "cost", sign=False),
            figure("ASD", "worth"),
            points,
            "on the frontier: no setting is as good at a lower cost, or better at the same cost.",
        )
        return Finding((part,), {"score": score, "clusters": list(ways)})
