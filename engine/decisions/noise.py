"""Where the noise of a run comes from, and what to buy next: questions, debates or verdicts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from oversight.engine.decisions.costs import Costs, RowCost
from oversight.engine.decisions.rows import RunRows
from oversight.protocols.scores import applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import Codes, codes, design_effect
from oversight.protocols.scoring.components import (
    Components,
    component_intervals,
    components,
)
from oversight.protocols.scoring.worlds import Worlds

Ware: TypeAlias = Literal["questions", "debates", "verdicts"]

TARGET_RATIO = 0.8
"""Standard error aimed at, as a multiple of the present one."""

MAX_BOUGHT = 1_000
"""Draws, or verdicts on each, above which no purchase is suggested."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """One way to a sharper mean of a row."""

    ware: Ware
    questions: int
    debates: int
    """Of each question and world."""
    verdicts: int
    """On each debate."""
    price: float | None
    """Beyond what is paid already; dollars, or tokens where a price is not known."""


@dataclass(frozen=True, slots=True)
class RowNoise:
    """One row's."""

    name: str
    components: Components
    intervals: tuple[tuple[float, float], ...]
    """95 %, of between, within and verdict; () for a single cluster of questions."""
    design_effect: float
    refinements: tuple[Refinement, ...]
    """What makes the error `TARGET_RATIO` of what it is; a ware that cannot is left out."""

    @property
    def best(self) -> Refinement | None:
        """The cheapest; None where nothing is known to cost anything."""
        priced = [refinement for refinement in self.refinements if refinement.price is not None]
        return min(priced, key=lambda refinement: refinement.price or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Noise:
    """Of all rows of a run that have two draws or two verdicts of each question."""

    score: str
    unit: Literal["$", "tokens"]
    rows: tuple[RowNoise, ...]


def noise(run: RunRows, costs: Costs, *, score: str = "brier", seed: int = 0) -> Noise:
    """Components of every row's ASD, and what to buy next. costs: of the run, or of a part."""
    unit: Literal["$", "tokens"] = "tokens" if costs.unpriced or not costs.total.dollars else "$"
    found = []
    for row, name in enumerate(run.names):
        ids, scores = verdict_scores(run, row, score)
        if len(ids) < 2 or scores.shape[1] * scores.shape[2] < 2:
            continue
        of = cluster_codes(run, ids)
        parts = components(scores)
        effect = design_effect(scores.mean(axis=(1, 2)), of).effect
        told = component_intervals(scores, of, seed=seed) if of.max() else ()
        refinements = tuple(_refinements(parts, effect, *_each(costs.rows[row], unit, run)))
        found.append(RowNoise(name, parts, told, effect, refinements))
    return Noise(score, unit, tuple(found))


def verdict_scores(run: RunRows, row: int, score: str) -> tuple[tuple[str, ...], Floats]:
    """Questions of a row that have all verdicts of all draws, and the ASD of each single verdict:
    questions × draws × verdicts on the draw."""
    places, redraws = run.table.cells.places(row), run.table.redraws
    found: dict[int, Floats] = {}
    for block, cells in zip(run.table.worlds(row).blocks, run.table.cells.blocks, strict=True):
        if score not in applicable(cells.values.shape[1]):
            continue
        whole = block.whole.all(axis=1)
        at = places[cells.cells[whole]]
        verdicts = block.worlds.verdicts[whole][..., None, :]
        if again := [redraws[place] for place in at.ravel().tolist() if place in redraws]:
            verdicts = np.array(again).reshape(*at.shape, -1, at.shape[-1])
        worlds = Worlds(np.moveaxis(verdicts, -2, 2), cells.values[whole][:, None, None])
        found |= zip(cells.problems[whole].tolist(), worlds.asd(score), strict=True)
    ids = tuple(run.sweep.problems[n].id for n in sorted(found))
    scores = [found[n] for n in sorted(found)]
    return ids, np.array(scores).reshape(len(ids), run.sweep.draws, -1)


def cluster_codes(run: RunRows, ids: tuple[str, ...]) -> Codes:
    """The cluster of each of some problems."""
    groups = {problem.id: problem.group for problem in run.sweep.problems}
    return codes([(groups[id], "") if groups[id] else ("", id) for id in ids])


def _each(row: RowCost, unit: str, run: RunRows) -> tuple[float | None, float | None]:
    """What one debate of a question costs, and all verdicts on it, in all of its worlds."""
    spent = row.alone
    whole = spent.dollars if unit == "$" else float(spent.tokens)
    judged = spent.judge_dollars if unit == "$" else float(spent.judge_tokens)
    if whole is None or judged is None or not row.problems:
        return None, None
    drawn = row.problems * run.sweep.draws
    return (whole - judged) / drawn, judged / drawn


def _refinements(
    parts: Components, effect: float, debate: float | None, verdict: float | None
) -> Iterator[Refinement]:
    """debate, verdict: what a question costs a draw, without and for its verdicts."""
    n, k, j = parts.problems, parts.draws, parts.verdicts
    aim = parts.error_with(n, k, j, effect) * TARGET_RATIO**2
    if not aim:
        return

    def price(questions: int, debates: int, verdicts: int) -> float | None:
        if debate is None or verdict is None:
            return None
        a_draw = debate + verdict * verdicts / j
        return questions * debates * a_draw - n * k * (debate + verdict)

    def refinement(ware: Ware, questions: int, debates: int, verdicts: int) -> Refinement:
        return Refinement(ware, questions, debates, verdicts, price(questions, debates, verdicts))

    yield refinement("questions", math.ceil(n / TARGET_RATIO**2), k, j)
    for debates in range(k + 1, MAX_BOUGHT):
        if k > 1 and parts.error_with(n, debates, j, effect) <= aim:
            yield refinement("debates", n, debates, j)
            break
    for verdicts in range(j + 1, MAX_BOUGHT):
        if j > 1 and parts.error_with(n, k, verdicts, effect) <= aim:
            yield refinement("verdicts", n, k, verdicts)
            break
