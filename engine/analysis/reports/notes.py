"""What stands around the rows of a report: what sums them up, the method, what was in doubt."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from ...display.quantity import counted
from ..findings.finding import brackets, shared
from ..scoring.inference import FEW_CLUSTERS
from .aggregate import OPEN_TRUST
from .family import MARK, mark, rare_errors, same_verdicts, verdicts
from .results import Results, RowResult

UNREAD_KINDS = ("unreadable", "declined")
"""Failures of worlds that count, with the verdict that is worst for the agent."""

COUNTED = (
    "n: problems in the figure; imputed: problems with a world scored as the agent's worst case."
)

MOST_NOTES = 4
"""Notes that are printed under a report."""


def small_print(notes: Sequence[str]) -> list[str]:
    """The first of the notes, the last of which says how many more there are."""
    kept, left_out = list(notes[:MOST_NOTES]), len(notes) - MOST_NOTES
    if left_out > 0:
        kept[-1] += f" {counted(left_out, 'more note')}: --notes."
    return kept


def lead_of(results: Results) -> Iterable[str]:
    """What stands above the table: where the figures come from, the sentence that sums them up,
    and what is missing from them."""
    yield from results.origins
    if first := verdicts(results).headline:
        yield first
    if results.health:
        yield from results.health.lines()
    failures = sum((Counter(row.failures) for row in results.rows), Counter[str]())
    cells = sum(row.cells - row.missing for row in results.rows)
    if failures:
        yield f"failed cells: {_listed(failures)} ({failures.total() / cells:.0%} of all)"
    if results.missing:
        yield f"{results.missing:,} cells have not been run yet: these figures will change."


def notes_of(results: Results) -> Iterable[str]:
    """What stands below the table, what matters most first."""
    rows = results.rows
    found = [row.asd for row in rows if row.asd]
    lifts = [row for row in rows if row.lift and row.lift.error is not None]
    family = verdicts(results)
    contrasts = [row.contrast for row in rows if row.contrast]
    yield f"Brackets: {brackets([*found, *(row.lift for row in rows)])}."
    if any(row.lift for row in rows):
        yield f"Lift: ASD minus the naive judge's{_detectable(lifts)}."
    if any(map(mark, contrasts)):
        yield f"{MARK}: excludes 0 by itself, but not after the correction for all rows (Holm)."
    yield from rare_errors(contrasts)
    yield from same_verdicts(contrasts)
    for row in rows:
        if row.row.is_a(OPEN_TRUST) and row.chose_right:
            right = shared(row.chose_right)
            yield f"{row.protocol}: the agent picked a correct answer in {right} of problems."
    for row in rows:
        apart = row.compliance.one_sided
        if apart and apart.value and apart.p() <= 0.05:
            worlds = "lie" if apart.value > 0 else "truth"
            yield (
                f"One-sided: {row.name}: worlds that argue for the {worlds} fail or are flagged "
                f"more often ({100 * apart.value:+.0f} points)."
            )
    rough = min((each for each in found if each.error), key=attrgetter("effective"), default=None)
    if rough and rough.effective < FEW_CLUSTERS:
        yield (
            f"Only {rough.clusters} independent problems or groups (effective "
            f"{rough.effective:.1f}): intervals are approximate."
        )
    if results.mixed:
        yield f"Rows of several codes (--adopt-code): {'; '.join(results.mixed)}."
    counts = sum((Counter(row.counts) for row in rows), Counter[str]())
    if any(cause in row.failures for row in rows for cause in UNREAD_KINDS):
        yield "Unreadable worlds are scored as the agent's worst case (see bounds)."
    if any(row.not_run and not row.jse for row in rows):
        yield (
            "Some worlds were left out by design: unpaired ASD (Hajek), valid if at random; n: "
            "judgements."
        )
    if counts:
        yield f"In the transcripts: {_listed(counts)}."
    least, most = results.answers
    if least < most:
        yield f"Problems with more answers weigh more: {least} to {most} answers."
    if family.contrasts:
        yield family.alone
    yield COUNTED


def _detectable(lifts: Sequence[RowResult]) -> str:
    """What these problems could have found."""
    found = [row.mde for row in lifts if row.mde]
    if not found:
        return "; too few problems to detect any" if lifts else ""
    least, most = min(found), max(found)
    between = f"{least:.2f}" if most - least < 0.005 else f"{least:.2f} to {most:.2f}"
    where = f", none in {counted(len(lifts) - len(found), 'row')}" * (len(found) < len(lifts))
    return f"; smallest detectable difference {between}{where}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
