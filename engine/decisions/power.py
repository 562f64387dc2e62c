"""What a contrast takes to be found: questions, draws and dollars, before a run is paid for.

The spread of the difference comes from a pilot run with the two rows, or is the worst that the
range of the score allows. Formulas: `oversight.protocols.scoring.power`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from oversight.cache.store import Reader
from oversight.engine.accounting.prices import PriceList
from oversight.engine.decisions.rows import RunRows, pairs_meant, row_names
from oversight.engine.errors import UsageError
from oversight.engine.planning.estimate import Cost, plan_sweep
from oversight.engine.runs.loaded_sweep import LoadedSweep
from oversight.engine.sweeps.rows import Row
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.scores import RANGES, applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import codes, design_effect
from oversight.protocols.scoring.components import one_way
from oversight.protocols.scoring.power import Spread, mde, questions_needed
from oversight.protocols.scoring.worlds import Worlds, asd_ends

Source: TypeAlias = Literal["pilot", "worst case"]

DRAWS = (1, 2, 4, 8)
"""Numbers of draws that are weighed against more questions."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """One way to find the difference."""

    draws: int
    questions: int
    calls: int
    cost: Cost | None
    """Of these questions and draws for the two rows; None if a price is not known."""


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """What one contrast needs."""

    first: str
    second: str
    difference: float
    power: float
    score: str
    source: Source
    questions: int
    """That the spread was taken from; those of the sweep in the worst case."""
    spread: Spread
    separated: bool
    """Whether noise between draws could be told from differences between questions."""
    mde: float
    """That the sweep as it stands finds: its questions and its draws."""
    purchases: tuple[Purchase, ...]

    @property
    def cheapest(self) -> Purchase:
        return min(self.purchases, key=_price)


def _price(purchase: Purchase) -> tuple[float, int]:
    return (purchase.cost.likely if purchase.cost else 0.0, purchase.calls)


def pilot_spread(pilot: RunRows, first: int, second: int, score: str) -> tuple[Spread, int]:
    """Spread of the difference of two rows, and over how many questions.

    With a single draw its noise cannot be told from what questions differ by, and counts as that:
    then more draws are not worth less than they are said to be. UsageError for fewer than two
    questions that both rows have whole.
    """
    ours, theirs = (draw_scores(pilot, row, score) for row in (first, second))
    shared = [id for id in ours if id in theirs]
    if len(shared) < 2:
        raise UsageError(
            f"{pilot.folder}: {len(shared)} problems have all verdicts of {pilot.names[first]} and "
            f"{pilot.names[second]}; a pilot needs two"
        )
    one, two = (np.array([scores[id] for id in shared]) for scores in (ours, theirs))
    apart = one.mean(axis=1) - two.mean(axis=1)
    groups = {problem.id: problem.group for problem in pilot.sweep.problems}
    of = codes([(groups[id], "") if groups[id] else ("", id) for id in shared])
    effect = design_effect(apart, of).effect
    total = float(apart.var(ddof=1))
    if one.shape[1] < 2:
        return Spread(total, design_effect=effect), len(shared)
    ours_within, theirs_within = (one_way(each).within for each in (one, two))
    between = max(0.0, total - (ours_within + theirs_within) / one.shape[1])
    return Spread(between, ours_within, theirs_within, effect), len(shared)


def worst_spread(problems: Iterable[tuple[float, ...]], score: str) -> Spread:
    """The largest variance that a difference of ASD can have under a score. problems: the values of
    each one's answers."""
    widths = [high - low for low, high in (asd_ends(v, RANGES[score]) for v in set(problems))]
    return Spread(max(widths) ** 2)


def draw_scores(run: RunRows, row: int, score: str) -> dict[str, list[float]]:
    """ASD of each draw of each problem that has all of its verdicts in all draws."""
    index, sweep = run.table.beside.cells, run.sweep
    verdicts: Floats = run.table.probs[index.places(row)]
    found = {}
    for n, problem in enumerate(sweep.problems):
        answers = len(problem.values)
        if score not in applicable(answers):
            continue
        block = verdicts[index.starts[n] : index.starts[n] + answers * sweep.draws, :answers]
        if not np.isnan(block).any():
            draws = block.reshape(sweep.draws, answers, answers).tolist()
            found[problem.id] = [
                (worlds := Worlds(tuple(map(tuple, draw)), problem.values)).asd(
                    worlds.scores[score]
                )
                for draw in draws
            ]
    return found


async def power_plan(
    opened: LoadedSweep,
    words: tuple[str, str],
    difference: float,
    store: Reader | None,
    prices: PriceList,
    *,
    pilot: RunRows | None = None,
    score: str = "brier",
    power: float = 0.8,
) -> PowerPlan:
    """What finding `difference` between two rows of a sweep takes.

    UsageError where the words mean no contrast of the sweep, or none of the pilot.
    """
    sweep = opened.sweep
    first, second = pairs_meant(*words, sweep.rows, row_names(sweep.rows))[0]
    rows = (sweep.rows[first], sweep.rows[second])
    source: Source = "worst case"
    if pilot is None:
        spread = worst_spread((problem.values for problem in sweep.problems), score)
        questions, separated = len(sweep.problems), False
    else:
        source = "pilot"
        place = _in_pilot(pilot, rows, words)
        spread, questions = pilot_spread(pilot, *place, score)
        separated = pilot.sweep.draws > 1
    size = _cluster_size(sweep)
    tried = DRAWS if separated else (sweep.draws,)
    purchases = []
    for draws in dict.fromkeys(tried):
        needed = questions_needed(spread, difference, draws=(draws, draws), power=power, size=size)
        alone = replace(opened, sweep=replace(sweep, rows=rows, draws=draws))
        plan = await plan_sweep(alone, store, prices)
        times = needed / len(sweep.problems)
        cost = plan.cost
        purchases.append(
            Purchase(
                draws,
                needed,
                math.ceil(plan.total("calls") * times),
                cost and Cost(cost.low * times, cost.likely * times, cost.high * times),
            )
        )
    names = row_names(sweep.rows)
    n = len(sweep.problems)
    found = mde(spread, n, draws=(sweep.draws, sweep.draws), power=power, clusters=n / size)
    return PowerPlan(
        names[first],
        names[second],
        difference,
        power,
        score,
        source,
        questions,
        spread,
        separated,
        found,
        tuple(purchases),
    )


def _in_pilot(pilot: RunRows, rows: tuple[Row, Row], words: tuple[str, str]) -> tuple[int, int]:
    """The two rows in the pilot: the very same ones, else what the words mean there."""
    places = {row.address: n for n, row in enumerate(pilot.sweep.rows)}
    if all(row.address in places for row in rows):
        return places[rows[0].address], places[rows[1].address]
    return pairs_meant(*words, pilot.sweep.rows, pilot.names)[0]


def _cluster_size(sweep: Sweep) -> float:
    clusters = {(p.group, "") if p.group else ("", p.id) for p in sweep.problems}
    return len(sweep.problems) / len(clusters)
