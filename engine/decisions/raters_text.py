"""Rendering of raters' progress and agreement as tables and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from oversight.engine.decisions.raters import RaterAgreement, RaterStanding
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, as_text
from oversight.protocols.scoring.agreement import Agreement
from oversight.protocols.scoring.statistics import Estimate

NO_PAIRS = (
    "no task has probabilities of two raters, or all are one: oversight human serve RUN --each 2"
)


def standings_text(found: Sequence[RaterStanding]) -> str:
    body = tuple(
        (
            each.rater,
            f"{each.answered:,}",
            f"{each.abstained:,}",
            f"{each.under_way:,}",
            f"{each.let_lie:,}",
            f"{each.passed}/{each.checks}" if each.checks else "–",
        )
        for each in found
    )
    head = ("rater", "answered", "no answer", "under way", "let lie", "attention")
    return as_text(Table("Raters", head, body, 1))


def agreement_json(found: RaterAgreement) -> dict[str, Any]:
    """All fields by name; an estimate is an object with its mean, interval and method."""
    return asdict(found)


def agreement_text(found: RaterAgreement) -> str:
    raters = Table(
        "Raters",
        ("rater", "judged", "no answer", "Brier", "right", "calibration error", "overconfident",
         "moved by what was said", "median s", "attention"),
        tuple(
            (
                each.rater,
                f"{each.judged:,}",
                f"{each.abstained:,}",
                _figure(each.brier),
                "–" if each.accuracy is None else f"{each.accuracy:.0%}",
                "–" if each.calibration is None else f"{each.calibration.debiased_error:z.2f}",
                "–" if each.calibration is None else signed(each.calibration.overconfidence),
                _figure(each.moved),
                "–" if each.seconds is None else f"{each.seconds:.0f}",
                f"{each.passed}/{each.checks}" if each.checks else "–",
            )
            for each in found.raters
        ),
        1,
        spare=("median s", "overconfident", "calibration error"),
    )  # fmt: skip
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
    tables = [raters, agreement]
    if found.beside:
        head = (
            "judge",
            "transcripts",
            "persons",
            "judge",
            "persons less judge",
            "apart",
            "same",
            "alpha",
        )
        body = tuple(
            (
                each.judge,
                f"{each.transcripts:,}",
                _figure(each.persons),
                _figure(each.model),
                _figure(each.difference),
                f"{each.apart:.2f}",
                f"{each.same:.0%}",
                "–" if each.alpha is None else signed(each.alpha.alpha),
            )
            for each in found.beside
        )  # fmt: skip
        title = "The same transcripts before persons and before the judge of the run (Brier score)"
        tables.append(Table(title, head, body, 1))
    if found.again:
        tables.append(
            Table(
                "Self-agreement: transcripts that a rater judged twice",
                ("rater", "repeated", "apart", "same", "alpha"),
                tuple(
                    (
                        each.rater,
                        f"{each.repeated:,}",
                        f"{each.apart:.2f}",
                        f"{each.same:.0%}",
                        "–" if each.alpha is None else f"{each.alpha.alpha:+.2f}",
                    )
                    for each in found.again
                ),
                1,
            )
        )
    return "\n\n".join(map(as_text, tables))


def _alpha(agreement: Agreement | None) -> tuple[str, str, str, str]:
    if agreement is None:
        return "–", "–", "0", "0"
    low, high = agreement.interval or (None, None)
    between = "–" if low is None else f"{signed(low)} to {signed(high)}"
    return signed(agreement.alpha, 3), between, f"{agreement.units:,}", f"{agreement.values:,}"


def _figure(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    half = estimate.half_width
    return signed(estimate.mean, 3) + ("" if half is None else f" ± {half:.3f}")
