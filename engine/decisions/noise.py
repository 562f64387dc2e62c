"""Variance components of a run, and what to buy next: questions, debates or verdicts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from ...protocols.scores import applicable
from ...protocols.scoring.arrays import Floats
from ...protocols.scoring.components import Components, components, design_effect
from ...protocols.scoring.worlds import Worlds
from ..display.finding import Column, Finding, Part, number, people, program, word
from ..reports.report import SCORE_NAMES
from .costs import Costs, RowCost
from .rows import RunRows

PurchaseOption: TypeAlias = Literal["questions", "debates", "verdicts"]

TARGET_RATIO = 0.8
"""Target standard error, as a multiple of the present one."""

MAX_BOUGHT = 1_000
"""Draws, or verdicts per draw, from which on no purchase is suggested."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """One way to make the mean of a row more precise."""

    option: PurchaseOption
    questions: int
    debates: int
    """Debates per question and world."""
    verdicts: int
    """Verdicts per debate."""
    price: float | None
    """Additional cost, in the unit of `Noise`; None if unknown."""


@dataclass(frozen=True, slots=True)
class RowNoise:
    """Variance components of one row's ASD, with the refinements they suggest."""

    name: str
    components: Components
    design_effect: float
    refinements: tuple[Refinement, ...]
    """Ways to reduce the error to `TARGET_RATIO` of its value; one that cannot is left out."""

    @property
    def error(self) -> float:
        """Standard error of the mean as it stands."""
        parts = self.components
        design = parts.problems, parts.draws, parts.verdicts
        return math.sqrt(parts.error_with(*design, self.design_effect))

    @property
    def aim(self) -> float:
        """Target standard error."""
        return self.error * TARGET_RATIO

    @property
    def best(self) -> Refinement | None:
        """The cheapest refinement; None if no price is known."""
        priced = [refinement for refinement in self.refinements if refinement.price is not None]
        return min(priced, key=lambda refinement: refinement.price or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of the rows of a run that have at least two draws or two verdicts per question."""

    score: str
    unit: Literal["$", "tokens"]
    rows: tuple[RowNoise, ...]


def noise(run: RunRows, costs: Costs, *, score: str = "brier") -> Noise:
    """Variance components of each row's ASD, and what to buy next. costs: of all or part of the
    run."""
    unit: Literal["$", "tokens"] = "tokens" if costs.unpriced or not costs.total.dollars else "$"
    rows = []
    for row, name in enumerate(run.names):
        ids, scores = verdict_scores(run, row, score)
        if len(ids) < 2 or scores.shape[1] * scores.shape[2] < 2:
            continue
        clusters = run.clusters(ids)
        parts = components(scores)
        effect = design_effect(scores.mean(axis=(1, 2)), clusters).effect
        refinements = tuple(_refinements(parts, effect, *_each(costs.rows[row], unit, run)))
        rows.append(RowNoise(name, parts, effect, refinements))
    return Noise(score, unit, tuple(rows))


def verdict_scores(run: RunRows, row: int, score: str) -> tuple[tuple[str, ...], Floats]:
    """Ids of a row's questions with all verdicts of all draws, and the ASD of each single verdict,
    questions × draws × verdicts per draw."""
    places, redraws = run.table.cells.places(row), run.table.redraws
    by_question: dict[int, Floats] = {}
    for block, cells in zip(run.table.worlds(row).blocks, run.table.cells.blocks, strict=True):
        if score not in applicable(cells.values.shape[1]):
            continue
        whole = block.whole.all(axis=1)
        cell_places = places[cells.cells[whole]]
        verdicts = block.worlds.verdicts[whole][..., None, :]
        if redrawn := [
            redraws[place] for place in cell_places.ravel().tolist() if place in redraws
        ]:
            verdicts = np.array(redrawn).reshape(*cell_places.shape, -1, cell_places.shape[-1])
        worlds = Worlds(np.moveaxis(verdicts, -2, 2), cells.values[whole][:, None, None])
        by_question |= zip(cells.problems[whole].tolist(), worlds.asd(score), strict=True)
    ids = tuple(run.sweep.problems[n].id for n in sorted(by_question))
    if not ids:
        return (), np.empty((0, run.sweep.draws, 1))
    return ids, np.stack([by_question[n] for n in sorted(by_question)])


def _each(row: RowCost, unit: str, run: RunRows) -> tuple[float | None, float | None]:
    """Cost of one debate of a question, and of all verdicts on it, in all of its worlds."""
    spent = row.alone
    assert spent, "it is a row"
    whole = spent.dollars if unit == "$" else float(spent.tokens)
    judged = spent.judge_dollars if unit == "$" else float(spent.judge_tokens)
    if whole is None or judged is None or not row.problems:
        return None, None
    drawn = row.problems * run.sweep.draws
    return (whole - judged) / drawn, judged / drawn


def _refinements(
    parts: Components, effect: float, debate: float | None, verdict: float | None
) -> Iterator[Refinement]:
    """Smallest purchases that reach the target error. debate, verdict: cost of a question per draw,
    without its verdicts and for them alone."""
    n, k, j = parts.problems, parts.draws, parts.verdicts
    aim = parts.error_with(n, k, j, effect) * TARGET_RATIO**2
    if not aim:
        return

    def price(questions: int, debates: int, verdicts: int) -> float | None:
        if debate is None or verdict is None:
            return None
        a_draw = debate + verdict * verdicts / j
        return questions * debates * a_draw - n * k * (debate + verdict)

    def refinement(
        option: PurchaseOption, questions: int, debates: int, verdicts: int
    ) -> Refinement:
        return Refinement(option, questions, debates, verdicts, price(questions, debates, verdicts))

    yield refinement("questions", math.ceil(n / TARGET_RATIO**2), k, j)
    for debates in range(k + 1, MAX_BOUGHT):
        if k > 1 and parts.error_with(n, debates, j, effect) <= aim:
            yield refinement("debates", n, debates, j)
            break
    for verdicts in range(j + 1, MAX_BOUGHT):
        if j > 1 and parts.error_with(n, k, verdicts, effect) <= aim:
            yield refinement("verdicts", n, k, verdicts)
            break


def noise_finding(noise: Noise) -> Finding:
    """Components and refinements of each row."""
    variances = [
        word("row", "name"),
        people("n × draws × verdicts", _design),
        number("questions", "components.between", ".4f", key=""),
        people("draws", lambda row: _variance(row.components.within, row.components.draws)),
        people("verdicts", lambda row: _variance(row.components.verdict, row.components.verdicts)),
        number("reliability", "components.reliability", ".2f", key=""),
        program("components", "components"),
        program("design_effect", "design_effect"),
        program("refinements", "refinements"),
        program("best", "best"),
    ]
    options: tuple[tuple[str, PurchaseOption], ...] = (
        ("to n", "questions"),
        ("to draws", "debates"),
        ("to verdicts", "verdicts"),
    )
    refinements = [
        word("row", "name"),
        number("error", "error", ".3f"),
        number("then", "aim", ".3f"),
        *(people(head, partial(_refinement, option, noise.unit)) for head, option in options),
        word("cheapest", "best.option"),
    ]
    title = (
        f"noise of ASD ({SCORE_NAMES[noise.score]}): variances between questions, draws, verdicts"
    )
    notes = (
        "of single verdicts; –: there is one of each, and it counts as what it is nested in. "
        "Without intervals: those of variances do not hold where errors are rare.",
        "reliability: share of what problems are seen to differ by that is theirs.",
    )
    next_title = "what to buy next for an error a fifth smaller: questions, draws or verdicts"
    next_notes = (
        "in brackets what it costs beyond what is paid, by what the row's cells took; –: no number "
        "of these would do, or there is one of each and nobody can tell.",
    )
    return Finding(
        (
            Part("rows", title, variances, noise.rows, notes),
            Part("", next_title, _words_first(refinements), noise.rows, next_notes),
        ),
        {"score": noise.score, "unit": noise.unit},
    )


def _words_first(columns: list[Column]) -> list[Column]:
    return sorted(columns, key=lambda each: not each.words)


def _design(row: RowNoise) -> str:
    parts = row.components
    return f"{parts.problems} × {parts.draws} × {parts.verdicts}"


def _variance(variance: float, units: int) -> str:
    return f"{variance:.4f}" if units > 1 else "–"


def _refinement(option: PurchaseOption, unit: str, row: RowNoise) -> str:
    for each in row.refinements:
        if each.option == option:
            count = f"{getattr(each, option):,}"
            if each.price is None:
                return count
            price = f"${each.price:,.2f}" if unit == "$" else f"{each.price:,.0f} tokens"
            return f"{count} ({price})"
    return "–"
