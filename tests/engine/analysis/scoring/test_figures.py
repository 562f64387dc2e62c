"""Figures of scoring once more from their formulas, row by row: `figures.md`."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from oversight.engine.analysis.findings import finding
from oversight.engine.analysis.scoring import (
    agreement,
    asd,
    contrasts,
    estimate,
    inference,
    power,
    roc,
)
from oversight.engine.analysis.scoring.agreement import RatedPoint, krippendorff_alpha
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.protocols import scores
from tests.engine.analysis.scoring import (
    test_asd,
    test_contrasts,
    test_inference,
    test_roc,
    test_trend,
    test_worlds,
)
from tests.engine.analysis.scoring.one_question import Worlds
from tests.sessions import sessions
from tests.tables import expressions

MODULES = (scores, finding, agreement, asd, contrasts, estimate, inference, power, roc, math)
TESTS = (test_asd, test_contrasts, test_inference, test_roc, test_trend, test_worlds)

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C: four observers, twelve
# units, values 1 to 5, some missing. Nominal 0.743; with interval metric 0.849.
FOUR_OBSERVERS = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
# The same, sections A and B: two observers, two values, and two observers, five values.
TWO_VALUES = ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
FIVE_VALUES = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")
# Wikipedia, Krippendorff's alpha, "An example": three coders, fifteen units. Nominal 0.691,
# interval 0.811.
THREE_CODERS = (
    ". . . . . 3 4 1 2 1 1 3 3 . 3",
    "1 . 2 1 3 3 4 3 . . . . . . .",
    ". . 2 1 3 4 4 . 2 1 1 3 3 . 4",
)


def units(rows: tuple[str, ...], nominal: bool) -> list[list[RatedPoint]]:
    """One a column; each value as a point."""
    values = sorted({value for row in rows for value in row.split()} - {"."})
    return [
        [
            [float(value == kind) for kind in values] if nominal else [float(value)]
            for value in column
            if value != "."
        ]
        for column in zip(*(row.split() for row in rows), strict=True)
    ]


def alpha(rows: tuple[str, ...], nominal: bool) -> tuple[float, int, int] | None:
    """Krippendorff's alpha, the number of units with two values, and of their values."""
    agreement = krippendorff_alpha(units(rows, nominal))
    return agreement and (round(agreement.alpha.value, 3), agreement.units, agreement.values)


def argued(worlds: Worlds, beta: float) -> tuple[object, ...]:
    """How likely the agent argues for each answer, and its JSE and EAS in Brier scores."""
    chance = tuple(worlds.propensity(beta).tolist())
    return chance, worlds.jse("brier", beta), worlds.eas("brier", beta)


UNPAIRED = replace(
    inference.mean_of([3.0, 5.0], {"problem": np.array(["q0", "q1"])}),
    judged=frozenset(("q0", "q1")),
)
MIXED = Judgements.of(
    Judgement(id, values, worlds, {"problem": id} | keys)
    for id, values, worlds, keys in (
        ("a", (1, -1), ((0.8, 0.2), (0.6, 0.4)), {}),
        ("b", (1, -1, 0), ((0.5, 0.3, 0.2), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8)), {}),
        ("c", (-1, 1), ((0.8, 0.2), (0.6, 0.4)), {"judge": "k"}),
    )
)


def clusters(groups: str) -> list[int]:
    """The cluster of each question of these groups; "-" stands for none."""
    every = Judgements.of(
        Judgement(n, (1, -1), ((0.5, 0.5),) * 2, {} if group == "-" else {"group": group})
        for n, group in enumerate(groups)
    )
    return [every.clusters(("problem",))["problem"].tolist()]


def judged(
    values: tuple[float, ...], *worlds: tuple[float, ...] | None, score: str
) -> asd.Scored | None:
    """One question that is judged in these worlds."""
    return asd.scored(Judgements.of([Judgement("q", values, worlds, {"problem": "q"})]), score)


def close(one: object, *other: float) -> bool:
    """Whether numbers are equal but for rounding."""
    return bool(np.allclose(np.ravel(one), other, rtol=1e-9, atol=1e-12))


@sessions(Path(__file__).with_name("figures.md"))
def test_figures_are_as_their_formulas_say(session, request):
    names = {name: value for module in (*MODULES, *TESTS) for name, value in vars(module).items()}
    session.check(request, expressions(globals() | names))
