"""Raters of a run, and their agreement, as findings."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.findings.finding import (
    Finding,
    Part,
    change,
    figure,
    number,
    plain,
    share,
    word,
)
from ...analysis.scoring.agreement import Agreement
from .raters import RaterAgreement, RaterStanding

NO_PAIRS = (
    "no task has probabilities of two raters, or all are one: oversight human serve RUN --each 2"
)


def standings_finding(found: Sequence[RaterStanding]) -> Finding:
    """One line per rater: how far it is."""
    columns = [
        word("rater", "rater"),
        number("answered", "answered"),
        number("no answer", "abstained"),
        number("under way", "under_way"),
        number("let lie", "let_lie"),
    ]
    return Finding((Part("standings", "Progress", columns, found),))


def agreement_finding(found: RaterAgreement) -> Finding:
    """Raters, their agreement, the judge of the run beside them, and each with itself."""
    raters = [
        word("rater", "rater"),
        number("judged", "judged"),
        number("no answer", "abstained"),
        figure("Brier", "its.score"),
        change("shrunk", "its.shrunk"),
        share("right", "its.right.value"),
        number("calibration error", "its.calibration.debiased_error", "z.2f"),
        change("overconfident", "its.calibration.overconfidence", 2),
        figure("moved by what was said", "its.moved"),
        number("median s", "seconds", ".0f"),
    ]
    beside = [
        word("judge", "first"),
        number("transcripts", "transcripts"),
        figure("persons", "second_score"),
        figure("judge", "first_score"),
        figure("persons less judge", "difference"),
        number("apart", "apart", ".2f"),
        share("same", "same"),
        figure("alpha", "alpha.alpha", 2),
    ]
    again = [
        word("rater", "rater"),
        number("repeated", "repeated"),
        number("apart", "apart", ".2f"),
        share("same", "same"),
        figure("alpha", "alpha.alpha", 2),
    ]
    alphas = (
        _Alpha("the answer found likeliest (nominal)", found.nominal),
        _Alpha("probabilities (interval)", found.interval),
    )
    agreement = [
        word("of", "of"),
        figure("alpha", "agreement.alpha"),
        number("tasks", "agreement.units"),
        number("answers", "agreement.values"),
    ]
    title = f"Agreement on {found.tasks:,} tasks (Krippendorff's alpha)"
    same = "The same transcripts before persons and before the judge of the run (Brier score)"
    twice = "Self-agreement: transcripts that a rater judged twice"
    return Finding(
        (
            Part("", "Raters", raters, found.raters),
            Part("", title, agreement, alphas, () if found.interval else (NO_PAIRS,)),
            Part("", same, beside, found.beside),
            Part("", twice, again, found.again),
        ),
        plain(found),
    )


@dataclass(frozen=True, slots=True)
class _Alpha:
    of: str
    agreement: Agreement | None
