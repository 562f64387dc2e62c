"""Power analysis: questions, draws and dollars needed to detect a difference between two rows.

The spread of the difference comes from a pilot run with the two rows, or is the largest that the
range of the score allows. Formulas: `oversight.engine.analysis.scoring.power`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ....cache.store import Reader
from ....protocols.judges.repeated import Redrawn
from ....protocols.question import Problem
from ....protocols.scores import RANGES
from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding, Part, number, people, plain
from ...analysis.judged import table_spread
from ...analysis.reports.formats import above_0
from ...analysis.reports.results import SCORE_NAMES
from ...analysis.rows import RunRows, one_pair_meant, read_pair, row_names
from ...analysis.scoring.asd import answer_scores, asd_ends, asd_weights
from ...analysis.scoring.estimate import Ends, Interval
from ...analysis.scoring.inference import Floats, cluster, codes_of
from ...analysis.scoring.power import (
    Spread,
    components,
    design_effect,
    fewest_clusters,
    mde,
    questions_needed,
)
from ...errors import UsageError
from ...models.accounting.prices import PriceList
from ...run.loaded_sweep import LoadedSweep
from ...sweep.grid import Grid
from ...sweep.sweep import Row, row_of
from ...system.settings import flag
from .estimate import Cost, plan_sweep

SpreadSource: TypeAlias = Literal["pilot", "worst case"]

INTERVALS: tuple[Interval, ...] = ("t", "conservative")

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
    conservative: int
    """Questions with which the guard finds the difference, too."""
    calls: int | None = None
    """Of these questions and draws for the two rows; None where no sweep is planned."""
    cost: Cost | None = None
    """None if a price is unknown, too."""


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
    """Questions from which the spread was estimated; in the worst case, the sweep's questions."""
    spread: Spread
    size: float
    """Questions a cluster."""
    mde: float | None
    """Minimum detectable effect of the sweep with its own questions and draws; None if it can
    detect none."""
    purchases: tuple[Purchase, ...]

    @property
    def cheapest(self) -> Purchase:
        return min(self.purchases, key=_price)


def _price(purchase: Purchase) -> tuple[float, int]:
    drawn = purchase.questions * purchase.draws * purchase.verdicts
    return (purchase.cost.likely if purchase.cost else 0.0, purchase.calls or drawn)


def _chance(given: float | str) -> float:
    if not 0 < (number := float(given)) < 1:
        raise ValueError(f"{given} does not lie between 0 and 1")
    return number


@dataclass(frozen=True, slots=True)
class Power(Analysis):
    """Print how many problems and draws it takes to find a difference between two rows of RUN."""

    contrast: str | None = flag("The two rows to tell apart; with --mde.", metavar="'A - B'")
    difference: float | None = flag(
        "Smallest difference of their ASD to detect.",
        name="--mde",
        read=above_0,
        metavar="DIFFERENCE",
    )
    power: float = flag(
        "Chance of finding a difference of that size.", default=0.8, read=_chance, metavar="CHANCE"
    )

    def __post_init__(self) -> None:
        if (self.contrast is None) != (self.difference is None):
            raise UsageError("--contrast 'A - B' and --mde X belong together")

    @property
    def words(self) -> tuple[str, str]:
        if self.contrast is None:
            raise UsageError("the two rows to tell apart: --contrast 'A - B' --mde X")
        return read_pair(self.contrast)

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        first, second = one_pair_meant(*self.words, run.sweep.rows, run.names)
        size = questions_a_cluster(run.sweep.problems)
        pilot = Pilot("pilot", *pilot_spread(run, first, second, score), size)
        names = (run.names[first], run.names[second])
        _, verdicts = next(iter(verdict_scores(run, first, score).values())).shape
        return power_finding(self.designs(names, run.sweep, pilot, verdicts, score))

    def designs(
        self, names: tuple[str, str], sweep: Grid, pilot: "Pilot", verdicts: int, score: str
    ) -> PowerPlan:
        """The designs that detect the difference, without what they cost. verdicts: a draw, as the
        sweep has them."""
        ends = difference_ends((problem.values for problem in sweep.problems), score)
        difference, spread, power = self.difference or 0.0, pilot.spread, self.power
        if not ends[0] < difference < ends[1]:
            raise UsageError(
                f"--mde {difference:g}: no two rows can differ by more than {ends[1]:g} in this "
                "score"
            )
        purchases = []
        for draws, each in product(
            DRAWS if spread.separated else (sweep.draws,),
            VERDICTS if spread.judged else (verdicts,),
        ):
            needed, conservative = (
                questions_needed(
                    spread, difference, draws=(draws, draws), verdicts=each, power=power,
                    size=pilot.size, ends=ends, interval=interval,
                )
                for interval in INTERVALS
            )  # fmt: skip
            purchases.append(Purchase(draws, each, needed, conservative))
        n, drawn = len(sweep.problems), (sweep.draws, sweep.draws)
        least = mde(
            spread, n, draws=drawn, verdicts=verdicts, power=power, clusters=n / pilot.size,
            ends=ends,
        )  # fmt: skip
        return PowerPlan(
            *names, difference, power, score, pilot.source, pilot.questions, spread, pilot.size,
            least if least < ends[1] else None, tuple(purchases),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pilot:
    """Where the spread of a difference is from."""

    source: SpreadSource
    spread: Spread
    questions: int
    size: float
    """Questions a cluster."""


def questions_a_cluster(problems: Sequence[Problem]) -> float:
    return len(problems) / len({cluster(each.id, each.group) for each in problems})


def pilot_spread(pilot: RunRows, first: int, second: int, score: str) -> tuple[Spread, int]:
    """Spread of the difference between two rows, and the number of questions behind it.

    The variance of a level with a single unit (one draw, or one verdict per draw) cannot be
    separated from the level above, and counts there, so the value of buying more units is
    never overstated. UsageError for fewer than two questions that both rows have complete.
    """
    ours, theirs = (verdict_scores(pilot, row, score) for row in (first, second))
    shared = [id for id in ours if id in theirs]
    if len(shared) < 2:
        raise UsageError(
            f"{pilot.folder}: {len(shared)} problems have all verdicts of {pilot.names[first]} and "
            f"{pilot.names[second]}; a pilot needs two"
        )
    one, two = (np.array([scores[id] for id in shared]) for scores in (ours, theirs))
    apart = one.mean(axis=(1, 2)) - two.mean(axis=(1, 2))
    drawn = {each.id: cluster(each.id, each.group) for each in pilot.sweep.problems}
    of = codes_of([drawn[id] for id in shared])
    parts = [components(each) for each in (one, two)]
    between = max(0.0, float(apart.var(ddof=1)) - sum(each.noise for each in parts))
    return (
        Spread(
            between,
            parts[0].within,
            parts[1].within,
            design_effect(apart, of),
            parts[0].verdict,
            parts[1].verdict,
            fewest_clusters(apart, of),
        ),
        len(shared),
    )


def difference_ends(problems: Iterable[tuple[float, ...]], score: str) -> Ends:
    """The lowest and highest possible difference of two mean ASDs. problems: the answer values of
    each problem."""
    lows, highs = zip(*(asd_ends(values, RANGES[score]) for values in problems), strict=True)
    width = float(np.mean(highs) - np.mean(lows))
    return -width, width


async def power_plan(
    opened: LoadedSweep,
    how: Power,
    store: Reader | None,
    prices: PriceList,
    *,
    pilot: RunRows | Path | None = None,
    score: str = "brier",
) -> PowerPlan:
    """Plan the designs that detect the difference between two rows of a sweep, with their costs.

    pilot: a run with these rows, or a judgement table with settings of these names.

    UsageError if the words match no contrast of the sweep or of the pilot, or several.
    """
    sweep, words = opened.sweep, how.words
    names = row_names(sweep.rows)
    first, second = one_pair_meant(*words, sweep.rows, names)
    rows = (sweep.rows[first], sweep.rows[second])
    size = questions_a_cluster(sweep.problems)
    if isinstance(pilot, Path):
        known = Pilot("pilot", *table_spread(pilot, words, score))
    elif pilot is not None:
        known = Pilot("pilot", *pilot_spread(pilot, *_in_pilot(pilot, rows, words), score), size)
    else:
        _, most = difference_ends((problem.values for problem in sweep.problems), score)
        of = codes_of([cluster(each.id, each.group) for each in sweep.problems])
        alike = design_effect(
            of.astype(np.float64), of
        )  # In the worst case, all problems of a group agree.
        known = Pilot("worst case", Spread(most**2, design_effect=alike), len(of), size)
    judge = rows[0].protocol.judge
    verdicts = judge.draws if isinstance(judge, Redrawn) else 1
    plan = how.designs((names[first], names[second]), sweep, known, verdicts, score)
    purchases = []
    for each in plan.purchases:
        judged = known.spread.judged
        its = tuple(_judged_again(row, each.verdicts) if judged else row for row in rows)
        variant = replace(opened, sweep=replace(sweep, rows=its, draws=each.draws))
        asked = await plan_sweep(variant, store, prices)
        scale = each.questions / len(sweep.problems)
        cost = asked.cost and Cost(*(scale * part for part in astuple(asked.cost)))
        purchases.append(replace(each, calls=math.ceil(asked.total("calls") * scale), cost=cost))
    return replace(plan, purchases=tuple(purchases))


def _in_pilot(pilot: RunRows, rows: tuple[Row, Row], words: tuple[str, str]) -> tuple[int, int]:
    """Numbers of the two rows in the pilot: by address, else by the words."""
    places = {row.address: n for n, row in enumerate(pilot.sweep.rows)}
    if all(row.address in places for row in rows):
        return places[rows[0].address], places[rows[1].address]
    return one_pair_meant(*words, pilot.sweep.rows, pilot.names)


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
    groups = f" in groups of {plan.size:.3g} problems" * (plan.size > 1)
    least = "no difference" if plan.mde is None else f"a difference of {plan.mde:.3f} or more"
    notes = [
        f"spread {where}: {parts}; design effect {spread.design_effect:.2f}{groups}.",
        f"the sweep as it stands can decide {least} (power {plan.power:g}, by the interval that "
        "the report prints).",
        "conservative: problems needed with --interval conservative.",
    ]
    if plan.source == "worst case":
        fewest, most = PILOT_FACTORS
        notes.append(
            f"rows that differ less need fewer problems: {PILOT} of them as a pilot (oversight run "
            f"SWEEP --limit {PILOT}, then --pilot RUN) tell how many to within ×{fewest:.1f} to "
            f"×{most:.1f}."
        )
    if plan.source == "pilot" and not spread.separated:
        notes.append("a pilot with `draws: 2` or more shows what more draws are worth.")
    if plan.source == "pilot" and not spread.judged:
        notes.append("one with `redrawn` judges shows what more verdicts are worth.")
    marked = plan.cheapest if len(plan.purchases) > 1 else None
    judged = len({each.verdicts for each in plan.purchases}) > 1
    planned = any(each.calls is not None for each in plan.purchases)
    columns = [
        number("draws", "draws"),
        *[number("verdicts", "verdicts")] * judged,
        number("problems", "questions"),
        number("conservative", "conservative"),
        *[number("calls", "calls"), number("$ likely", "cost.likely", ",.2f")] * planned,
        people("", lambda each: "cheapest" if each == marked else ""),
    ]
    title = (
        f"power: {plan.first} - {plan.second}, a difference of {plan.difference:g} "
        f"({SCORE_NAMES[plan.score]}) with power {plan.power:g}"
    )
    beside = {"separated": spread.separated, "judged": spread.judged, "cheapest": plan.cheapest}
    about = {**plain(plan), **beside}
    return Finding((Part("", title, columns, plan.purchases, notes),), about)


def verdict_scores(run: RunRows, row: int, score: str) -> dict[str, Floats]:
    """By id of a row's questions with all verdicts of all draws, the ASD of each single verdict,
    draws × verdicts per draw."""
    its, redraws = run.table.scored(row, score), run.table.redraws
    if its is None:
        return {}
    places, whole = run.table.cells.places(row), its.whole & its.full
    by_question: dict[int, list[Floats]] = {}
    for n in np.flatnonzero(whole).tolist():
        k, start = int(its.every.answers[n]), int(its.every.line[n])
        verdicts = its.every.worlds[n, :k, None, :k]
        at = places[start : start + k].tolist()
        if redrawn := [redraws[place] for place in at if place in redraws]:
            verdicts = np.array(redrawn).reshape(k, -1, k)
        scores = np.diagonal(answer_scores(np.moveaxis(verdicts, 1, 0), score), axis1=1, axis2=2)
        asd = (asd_weights(its.every.values[n, :k]) * scores).sum(axis=1)
        by_question.setdefault(int(its.every.question[n]), []).append(asd)
    return {
        run.sweep.problems[n].id: np.array(draws)
        for n, draws in by_question.items()
        if len(draws) == run.sweep.draws
    }
