"""Power analysis: questions, draws and dollars needed to detect a difference between two rows.

The spread of the difference comes from a pilot run with the two rows, or is the largest that the
range of the score allows. Formulas: `oversight.engine.analysis.scoring.power`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ....cache.store import Reader
from ....protocols.judges.redrawn import Redrawn
from ....protocols.scores import RANGES
from ...analysis.findings.finding import Finding, Part, number, people, plain
from ...analysis.judged import table_spread
from ...analysis.reports.results import SCORE_NAMES
from ...analysis.rows import RunRows, cluster, one_pair_meant, row_names
from ...analysis.scoring.arrays import Floats
from ...analysis.scoring.estimate import Ends
from ...analysis.scoring.power import (
    Components,
    Spread,
    components,
    design_effect,
    mde,
    questions_needed,
)
from ...analysis.scoring.worlds import Worlds, asd_ends
from ...errors import UsageError
from ...models.accounting.prices import PriceList
from ...run.loaded_sweep import LoadedSweep
from ...sweep.rows import Row, row_of
from .estimate import Cost, plan_sweep

SpreadSource: TypeAlias = Literal["pilot", "worst case"]

DRAWS = (1, 2, 4, 8)
"""Numbers of draws considered as an alternative to more questions."""

VERDICTS = (1, 3, 9)
"""Numbers of verdicts per draw considered."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """One design that detects the difference."""

    draws: int
    verdicts: int
    """Verdicts per draw."""
    questions: int
    guarded: int
    """Questions with which the guard finds the difference, too."""
    calls: int
    cost: Cost | None
    """Cost of these questions and draws for the two rows; None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """Designs that detect one contrast, with the spread they assume."""

    first: str
    second: str
    difference: float
    power: float
    score: str
    source: SpreadSource
    questions: int
    """Questions from which the spread was estimated; in the worst case, those of the sweep."""
    spread: Spread
    mde: float
    """Minimum detectable effect of the sweep with its own questions and draws."""
    purchases: tuple[Purchase, ...]

    @property
    def cheapest(self) -> Purchase:
        return min(self.purchases, key=_price)


def _price(purchase: Purchase) -> tuple[float, int]:
    return (purchase.cost.likely if purchase.cost else 0.0, purchase.calls)


def pilot_spread(pilot: RunRows, first: int, second: int, score: str) -> tuple[Spread, int]:
    """Spread of the difference between two rows, and the number of questions behind it.

    The variance of a level with a single unit (one draw, or one verdict per draw) cannot be
    separated from that of the level above, and counts there, so the value of buying more units is
    never overstated. UsageError for fewer than two questions that both rows have complete.
    """
    ours, theirs = (_by_question(pilot, row, score) for row in (first, second))
    shared = [id for id in ours if id in theirs]
    if len(shared) < 2:
        raise UsageError(
            f"{pilot.folder}: {len(shared)} problems have all verdicts of {pilot.names[first]} and "
            f"{pilot.names[second]}; a pilot needs two"
        )
    one, two = (np.array([scores[id] for id in shared]) for scores in (ours, theirs))
    apart = one.mean(axis=(1, 2)) - two.mean(axis=(1, 2))
    effect = design_effect(apart, pilot.clusters(shared))
    parts = [_parts(each) for each in (one, two)]
    noise = sum(each.rerun * each.problems for each in parts)
    between = max(0.0, float(apart.var(ddof=1)) - noise)
    return (
        Spread(
            between,
            parts[0].within,
            parts[1].within,
            effect,
            parts[0].verdict,
            parts[1].verdict,
        ),
        len(shared),
    )


def _by_question(run: RunRows, row: int, score: str) -> dict[str, Floats]:
    return dict(zip(*verdict_scores(run, row, score), strict=True))


def _parts(scores: Floats) -> Components:
    """Components; with a single draw and verdict, all noise counts as between questions."""
    n, k, j = scores.shape
    return components(scores) if k * j > 1 else Components(n, 1, 1, 0.0, 0.0)


def difference_ends(problems: Iterable[tuple[float, ...]], score: str) -> Ends:
    """The lowest and highest possible difference of two mean ASDs. problems: the answer values of
    each problem."""
    lows, highs = zip(*(asd_ends(values, RANGES[score]) for values in problems), strict=True)
    width = float(np.mean(highs) - np.mean(lows))
    return -width, width


async def power_plan(
    opened: LoadedSweep,
    words: tuple[str, str],
    difference: float,
    store: Reader | None,
    prices: PriceList,
    *,
    pilot: RunRows | Path | None = None,
    score: str = "brier",
    power: float = 0.8,
) -> PowerPlan:
    """Plan the designs that detect `difference` between two rows of a sweep.

    pilot: a run with these rows, or a judgement table with settings of these names.

    UsageError if the words match no contrast of the sweep or of the pilot, or several.
    """
    sweep = opened.sweep
    names = row_names(sweep.rows)
    first, second = one_pair_meant(*words, sweep.rows, names)
    rows = (sweep.rows[first], sweep.rows[second])
    source: SpreadSource = "worst case"
    size = len(sweep.problems) / len(set(map(cluster, sweep.problems)))
    ends = difference_ends((problem.values for problem in sweep.problems), score)
    if isinstance(pilot, Path):
        source = "pilot"
        spread, questions, size = table_spread(pilot, words, score)
    elif pilot is not None:
        source = "pilot"
        pilot_rows = _in_pilot(pilot, rows, words)
        spread, questions = pilot_spread(pilot, *pilot_rows, score)
    else:
        spread = Spread(ends[1] ** 2)
        questions = len(sweep.problems)
    if not ends[0] < difference < ends[1]:
        raise UsageError(
            f"--mde {difference:g}: no two rows can differ by more than {ends[1]:g} in this score"
        )
    present_verdicts = _verdicts(rows[0])
    purchases = []
    for draws, verdicts in product(
        DRAWS if spread.separated else (sweep.draws,),
        VERDICTS if spread.judged else (present_verdicts,),
    ):
        needed, guarded = (
            questions_needed(
                spread,
                difference,
                draws=(draws, draws),
                verdicts=verdicts,
                power=power,
                size=size,
                ends=its,
            )
            for its in (None, ends)
        )
        variant_rows = tuple(_judged_again(row, verdicts) if spread.judged else row for row in rows)
        variant = replace(opened, sweep=replace(sweep, rows=variant_rows, draws=draws))
        plan = await plan_sweep(variant, store, prices)
        scale = needed / len(sweep.problems)
        cost = plan.cost
        purchases.append(
            Purchase(
                draws,
                verdicts,
                needed,
                guarded,
                math.ceil(plan.total("calls") * scale),
                cost and Cost(cost.low * scale, cost.likely * scale, cost.high * scale),
            )
        )
    n = len(sweep.problems)
    detectable = mde(
        spread,
        n,
        draws=(sweep.draws, sweep.draws),
        verdicts=present_verdicts,
        power=power,
        clusters=n / size,
    )
    return PowerPlan(
        names[first],
        names[second],
        difference,
        power,
        score,
        source,
        questions,
        spread,
        detectable,
        tuple(purchases),
    )


def _in_pilot(pilot: RunRows, rows: tuple[Row, Row], words: tuple[str, str]) -> tuple[int, int]:
    """Numbers of the two rows in the pilot: by address, else by the words."""
    places = {row.address: n for n, row in enumerate(pilot.sweep.rows)}
    if all(row.address in places for row in rows):
        return places[rows[0].address], places[rows[1].address]
    return one_pair_meant(*words, pilot.sweep.rows, pilot.names)


def _verdicts(row: Row) -> int:
    """Verdicts per draw of a row's judge."""
    judge = row.protocol.judge
    return judge.draws if isinstance(judge, Redrawn) else 1


def _judged_again(row: Row, verdicts: int) -> Row:
    """The row with `verdicts` verdicts per draw."""
    judge = row.protocol.judge
    member = judge.member if isinstance(judge, Redrawn) else judge
    again = replace(row.protocol, judge=Redrawn(member, verdicts))
    return row_of(again, (row.kind, row.agent, row.judge))


PILOT, PILOT_FACTORS = 30, (0.63, 1.81)
"""Problems in a recommended pilot, and the 95 % interval of the true variance of normal differences
as multiples of the pilot's estimate; the number of problems needed is proportional to it."""


def power_finding(plan: PowerPlan) -> Finding:
    """One line per design: draws, verdicts, problems, calls and likely cost."""
    spread = plan.spread
    if plan.source == "pilot":
        where = f"of the pilot, {plan.questions:,} problems"
    else:
        where = "assumed, the worst case: the range of the score allows no more"
    parts = f"w² {spread.between:.4f} between problems"
    if spread.separated:
        parts += f", s² {spread.within_first:.4f} and {spread.within_second:.4f} between draws"
    if spread.judged:
        parts += f", {spread.verdict_first:.4f} and {spread.verdict_second:.4f} between verdicts"
    notes = [
        f"spread {where}: {parts}; design effect {spread.design_effect:.2f}.",
        f"the sweep as it stands can decide a difference of {plan.mde:.3f} or more (power "
        f"{plan.power:g}, by the interval that the report prints).",
        "guarded: problems with which --interval guarded finds it, too.",
    ]
    if plan.source == "worst case":
        fewest, most = PILOT_FACTORS
        notes.append(
            f"rows that differ less need fewer problems: {PILOT} of them as a pilot (oversight run "
            f"SWEEP --limit {PILOT}, then --pilot RUN) tell how many to within ×{fewest:.1f} to "
            f"×{most:.1f}."
        )
    if plan.source == "pilot" and not spread.separated:
        notes.append("with draws: 2 or more, a pilot tells what more draws are worth.")
    if plan.source == "pilot" and not spread.judged:
        notes.append("with judges of the kind redrawn, it tells what more verdicts are worth.")
    marked = plan.cheapest if len(plan.purchases) > 1 else None
    judged = len({each.verdicts for each in plan.purchases}) > 1
    columns = [
        number("draws", "draws"),
        *[number("verdicts", "verdicts")] * judged,
        number("problems", "questions"),
        number("guarded", "guarded"),
        number("calls", "calls"),
        number("$ likely", "cost.likely", ",.2f"),
        people("", lambda each: "cheapest" if each == marked else ""),
    ]
    title = (
        f"power: {plan.first} - {plan.second}, a difference of {plan.difference:g} "
        f"({SCORE_NAMES[plan.score]}) with power {plan.power:g}"
    )
    beside = {"separated": spread.separated, "judged": spread.judged, "cheapest": plan.cheapest}
    about = {**plain(plan), **beside}
    return Finding((Part("", title, columns, plan.purchases, notes),), about)


def verdict_scores(run: RunRows, row: int, score: str) -> tuple[tuple[str, ...], Floats]:
    """Ids of a row's questions with all verdicts of all draws, and the ASD of each single verdict,
    questions × draws × verdicts per draw."""
    its, redraws = run.table.scored(row, score), run.table.redraws
    if its is None:
        return (), np.empty((0, run.sweep.draws, 1))
    places, whole = run.table.cells.places(row), its.whole & its.full
    by_question: dict[int, list[Floats]] = {}
    for n in np.flatnonzero(whole).tolist():
        k, start = int(its.every.answers[n]), int(its.every.line[n])
        verdicts = its.every.worlds[n, :k, None, :k]
        at = places[start : start + k].tolist()
        if redrawn := [redraws[place] for place in at if place in redraws]:
            verdicts = np.array(redrawn).reshape(k, -1, k)
        worlds = Worlds(np.moveaxis(verdicts, 1, 0), its.every.values[n, :k])
        by_question.setdefault(int(its.every.question[n]), []).append(worlds.asd(score))
    every = {n: draws for n, draws in by_question.items() if len(draws) == run.sweep.draws}
    ids = tuple(run.sweep.problems[n].id for n in every)
    if not ids:
        return (), np.empty((0, run.sweep.draws, 1))
    return ids, np.array(list(every.values()))
