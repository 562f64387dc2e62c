"""Power analysis: questions and dollars needed to detect a difference between two rows.

The spread of the difference comes from a pilot run with the two rows, or is the largest that the
range of the score allows. Formulas: `oversight.engine.analysis.scoring.power`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ....cache.store import Reader
from ....protocols.question import Problem
from ....protocols.scores import RANGES
from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding, Part, number, plain
from ...analysis.judged import table_spread
from ...analysis.pairs import one_pair_meant, read_pair, row_names
from ...analysis.reports.formats import above_0
from ...analysis.reports.results import SCORE_NAMES
from ...analysis.rows import RunRows
from ...analysis.scoring.asd import asd_ends
from ...analysis.scoring.estimate import Ends, Interval
from ...analysis.scoring.inference import cluster, codes_of
from ...analysis.scoring.power import Spread, design_effect, fewest_clusters, mde, questions_needed
from ...errors import UsageError
from ...models.accounting.prices import PriceList
from ...run.loaded_sweep import LoadedSweep
from ...sweep.grid import Grid
from ...sweep.sweep import Row
from ...system.settings import flag
from .estimate import Cost, plan_sweep

SpreadSource: TypeAlias = Literal["pilot", "worst case"]


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """Questions that detect one contrast, with the spread they assume."""

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
    """Questions per cluster."""
    mde: float | None
    """Minimum detectable effect of the sweep with its own questions; None if it detects none."""
    needed: int
    """Questions that detect the difference."""
    conservative: int
    """Questions that detect it with the conservative interval."""
    calls: int | None = None
    """Calls of the two rows on the needed questions; None without a planned sweep."""
    cost: Cost | None = None
    """None also if a price is unknown."""


def _chance(value: float | str) -> float:
    if not 0 < (number := float(value)) < 1:
        raise ValueError(f"{value} does not lie between 0 and 1")
    return number


@dataclass(frozen=True, slots=True)
class Power(Analysis):
    """Print how many problems and draws it takes to find a difference between two rows of RUN."""

    contrast: str | None = flag(
        "The two rows to tell apart; with --mde. Default: the sweep file's.", metavar="'A - B'"
    )
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
        if self.difference is None and self.contrast is not None:
            raise UsageError("--contrast 'A - B' and --mde X belong together")

    def of_sweep(self, contrast: str) -> "Power":
        """The settings with the contrast of the sweep file, where a difference has none."""
        if self.difference is None or self.contrast is not None:
            return self
        if not contrast:
            raise UsageError("--contrast 'A - B' and --mde X belong together")
        return replace(self, contrast=contrast)

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
        return power_finding(self.planned(names, run.sweep, pilot, score))

    def planned(self, names: tuple[str, str], sweep: Grid, pilot: "Pilot", score: str) -> PowerPlan:
        """The questions that detect the difference, without their cost."""
        ends = difference_ends((problem.values for problem in sweep.problems), score)
        difference, spread, power = self.difference or 0.0, pilot.spread, self.power
        if not ends[0] < difference < ends[1]:
            raise UsageError(
                f"--mde {difference:g}: no two rows can differ by more than {ends[1]:g} in this "
                "score"
            )

        def needed(interval: Interval) -> int:
            return questions_needed(
                spread, difference, power=power, size=pilot.size, ends=ends, interval=interval
            )

        n, size = len(sweep.problems), pilot.size
        least = mde(spread, n, power=power, clusters=n / size, ends=ends, interval=sweep.interval)
        return PowerPlan(
            *names, difference, power, score, pilot.source, pilot.questions, spread, pilot.size,
            least if least < ends[1] else None, needed("t"), needed("conservative"),
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
    return len(problems) / len({cluster(problem.id, problem.group) for problem in problems})


def pilot_spread(pilot: RunRows, first: int, second: int, score: str) -> tuple[Spread, int]:
    """Spread of the difference between two rows, and the number of questions behind it. It holds
    for runs with as many repeats and verdicts as the pilot. UsageError for fewer than two questions
    that both rows have complete."""
    means = pilot.asd(score)
    ours, theirs = (
        dict(zip(row.questions, row.values, strict=True)) if row else {}
        for row in (means.get(pilot.names[first]), means.get(pilot.names[second]))
    )
    common = [id for id in ours if id in theirs]
    if len(common) < 2:
        raise UsageError(
            f"{pilot.folder}: {len(common)} problems have all verdicts of {pilot.names[first]} and "
            f"{pilot.names[second]}; a pilot needs two"
        )
    apart = np.array([ours[id] - theirs[id] for id in common])
    clusters = {problem.id: cluster(problem.id, problem.group) for problem in pilot.sweep.problems}
    codes = codes_of([clusters[id] for id in common])
    spread = Spread(
        float(apart.var(ddof=1)), design_effect(apart, codes), fewest_clusters(apart, codes)
    )
    return spread, len(common)


def difference_ends(problems: Iterable[tuple[float, ...]], score: str) -> Ends:
    """Lowest and highest difference of two mean ASDs. problems: the answer values of each."""
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
    """Plan the questions that detect the difference between two rows of a sweep, with their cost.
    pilot: a run with these rows, or a judgement table with settings of these names. UsageError if
    the words match no contrast of the sweep or of the pilot, or several."""
    sweep, words = opened.sweep, how.words
    names = row_names(sweep.rows)
    first, second = one_pair_meant(*words, sweep.rows, names)
    rows = (sweep.rows[first], sweep.rows[second])
    size = questions_a_cluster(sweep.problems)
    if isinstance(pilot, Path):
        assumed = Pilot("pilot", *table_spread(pilot, words, score))
    elif pilot is not None:
        assumed = Pilot("pilot", *pilot_spread(pilot, *_in_pilot(pilot, rows, words), score), size)
    else:
        _, most = difference_ends((problem.values for problem in sweep.problems), score)
        codes = codes_of([cluster(member.id, member.group) for member in sweep.problems])
        # In the worst case, all problems of a group agree.
        alike = design_effect(codes.astype(np.float64), codes)
        assumed = Pilot("worst case", Spread(most**2, design_effect=alike), len(codes), size)
    plan = how.planned((names[first], names[second]), sweep, assumed, score)
    estimate = await plan_sweep(replace(opened, sweep=replace(sweep, rows=rows)), store, prices)
    scale = plan.needed / len(sweep.problems)
    cost = estimate.cost and Cost(*(scale * part for part in astuple(estimate.cost)))
    return replace(plan, calls=math.ceil(estimate.total("calls") * scale), cost=cost)


def _in_pilot(pilot: RunRows, rows: tuple[Row, Row], words: tuple[str, str]) -> tuple[int, int]:
    """Numbers of the two rows in the pilot: by address, else by the words."""
    places = {row.address: n for n, row in enumerate(pilot.sweep.rows)}
    if all(row.address in places for row in rows):
        return places[rows[0].address], places[rows[1].address]
    return one_pair_meant(*words, pilot.sweep.rows, pilot.names)


PILOT, PILOT_FACTORS = 30, (0.63, 1.81)
"""Problems in a recommended pilot, and the 95 % interval of the true variance of normal differences
as multiples of the pilot's estimate; the number of problems needed is proportional to it."""


def power_finding(plan: PowerPlan) -> Finding:
    """One line: problems needed, calls and likely cost; the notes state the spread."""
    variance = f"{plan.spread.between:.4f}"
    if plan.source == "pilot":
        where = f"in the pilot ({plan.questions:,} problems): {variance}"
    else:
        where = f"in the worst case, the most that the score allows: {variance}"
    groups = f" in groups of {plan.size:.3g} problems" * (plan.size > 1)
    least = (
        "is too small to detect any difference"
        if plan.mde is None
        else f"detects differences of {plan.mde:.3f} or more"
    )
    notes = [
        f"variance between problems {where}; design effect "
        f"{plan.spread.design_effect:.2f}{groups}.",
        f"this sweep {least} (power {plan.power:g}, with the report's interval).",
        "conservative: problems needed with --interval conservative.",
    ]
    if plan.source == "worst case":
        fewest, most = PILOT_FACTORS
        notes.append(
            f"rows that differ less need fewer problems: {PILOT} of them as a pilot (oversight run "
            f"SWEEP --limit {PILOT}, then --pilot RUN) tell how many to within ×{fewest:.1f} to "
            f"×{most:.1f}."
        )
    columns = [
        number("problems", "needed"),
        number("conservative", "conservative"),
        *[number("calls", "calls"), number("$ likely", "cost.likely", ",.2f")]
        * (plan.calls is not None),
    ]
    title = (
        f"power: {plan.first} - {plan.second}, a difference of {plan.difference:g} "
        f"({SCORE_NAMES[plan.score]}) with power {plan.power:g}"
    )
    return Finding((Part("", title, columns, [plan], notes),), plain(plan))
