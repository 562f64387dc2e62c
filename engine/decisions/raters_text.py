"""Rendering of raters' progress and agreement as tables and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...protocols.scoring.agreement import Agreement
from ..display.columns import Column, as_table
from ..display.quantity import signed
from ..display.table import Table, as_text
from ..reports.figure_text import estimated, percent
from .raters import (
    JudgeBeside,
    RaterAgreement,
    RaterQuality,
    RaterStanding,
    SelfAgreement,
)

NO_PAIRS = (
    "no task has probabilities of two raters, or all are one: oversight human serve RUN --each 2"
)


STANDINGS: tuple[Column[RaterStanding], ...] = (
    Column("rater", lambda each: each.rater, words=True),
    Column("answered", lambda each: f"{each.answered:,}"),
    Column("no answer", lambda each: f"{each.abstained:,}"),
    Column("under way", lambda each: f"{each.under_way:,}"),
    Column("let lie", lambda each: f"{each.let_lie:,}"),
    Column("attention", lambda each: _attention(each)),
)

RATERS: tuple[Column[RaterQuality], ...] = (
    Column("rater", lambda each: each.rater, words=True),
    Column("judged", lambda each: f"{each.judged:,}"),
    Column("no answer", lambda each: f"{each.abstained:,}"),
    Column("Brier", lambda each: estimated(each.brier, 3)),
    Column("right", lambda each: percent(each.accuracy)),
    Column(
        "calibration error",
        lambda each: f"{each.calibration.debiased_error:z.2f}" if each.calibration else "–",
        spare=1,
    ),
    Column(
        "overconfident",
        lambda each: signed(each.calibration.overconfidence if each.calibration else None),
        spare=2,
    ),
    Column("moved by what was said", lambda each: estimated(each.moved, 3)),
    Column(
        "median s", lambda each: "–" if each.seconds is None else f"{each.seconds:.0f}", spare=3
    ),
    Column("attention", lambda each: _attention(each)),
)

BESIDE: tuple[Column[JudgeBeside], ...] = (
    Column("judge", lambda each: each.judge, words=True),
    Column("transcripts", lambda each: f"{each.transcripts:,}"),
    Column("persons", lambda each: estimated(each.persons, 3)),
    Column("judge", lambda each: estimated(each.model, 3)),
    Column("persons less judge", lambda each: estimated(each.difference, 3)),
    Column("apart", lambda each: f"{each.apart:.2f}"),
    Column("same", lambda each: percent(each.same)),
    Column("alpha", lambda each: signed(each.alpha.alpha if each.alpha else None)),
)

AGAIN: tuple[Column[SelfAgreement], ...] = (
    Column("rater", lambda each: each.rater, words=True),
    Column("repeated", lambda each: f"{each.repeated:,}"),
    Column("apart", lambda each: f"{each.apart:.2f}"),
    Column("same", lambda each: percent(each.same)),
    Column("alpha", lambda each: f"{each.alpha.alpha:+.2f}" if each.alpha else "–"),
)


def standings_text(found: Sequence[RaterStanding]) -> str:
    return as_text(as_table("Raters", STANDINGS, found))


def agreement_json(found: RaterAgreement) -> dict[str, Any]:
    """All fields by name; an estimate is an object with its mean, interval and method."""
    return asdict(found)


def agreement_text(found: RaterAgreement) -> str:
    agreement = Table(
        f"Agreement on {found.tasks:,} tasks (Krippendorff's alpha)",
        ("of", "alpha", "95%", "tasks", "answers"),
        (
            ("the answer found likeliest (nominal)", *_alpha(found.nominal)),
            ("probabilities (interval)", *_alpha(found.interval)),
        ),
        1,
        () if found.interval else (NO_PAIRS,),
    )
    tables = [as_table("Raters", RATERS, found.raters), agreement]
    if found.beside:
        title = "The same transcripts before persons and before the judge of the run (Brier score)"
        tables.append(as_table(title, BESIDE, found.beside))
    if found.again:
        title = "Self-agreement: transcripts that a rater judged twice"
        tables.append(as_table(title, AGAIN, found.again))
    return "\n\n".join(map(as_text, tables))


def _alpha(agreement: Agreement | None) -> tuple[str, str, str, str]:
    if agreement is None:
        return "–", "–", "0", "0"
    low, high = agreement.interval or (None, None)
    between = "–" if low is None else f"{signed(low)} to {signed(high)}"
    return signed(agreement.alpha, 3), between, f"{agreement.units:,}", f"{agreement.values:,}"


def _attention(rater: RaterStanding | RaterQuality) -> str:
    """Attention items passed, of those answered."""
    return f"{rater.passed}/{rater.checks}" if rater.checks else "–"
