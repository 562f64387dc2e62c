"""The verdicts on the rows of a run: one family of contrasts with the naive judge."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from ...display.text import counted
from ..findings.finding import estimated, span
from ..scoring.contrasts import Contrast
from ..scoring.estimate import LEVEL, Estimate
from .aggregate import DOUBTS
from .results import Results

FEW_PROBLEMS = 50
"""Problems from which on a verdict that a rare error could undo is named by itself."""

COARSE = 0.25
"""Median detectable difference above which a report says that it has few problems."""

SAID = {
    "better": ("beats the naive judge", "beat the naive judge"),
    "worse": ("does worse", "do worse"),
    "identical": ("is identical", "are identical"),
    "equivalent": ("is equivalent", "are equivalent"),
    "undecided": ("is undecided", "are undecided"),
}
"""Each verdict in words, about one row and about several."""

MARK = "○"
"""Stands after an interval that excludes 0, but does not hold after the correction."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A family of contrasts with the naive judge, corrected together."""

    contrasts: tuple[Contrast, ...]
    noun: str = "row"
    lines: int = 0
    """Rows or groups that could have a contrast."""
    unmeasured: int = 0
    """Rows of `lines` without a measurement, which are not counted."""
    reversible: int = 0
    """Decided rows whose sign failed or flagged worlds could reverse."""
    doubt: str = ""
    """The kinds of these worlds: failed, flagged, or both."""

    @property
    def counts(self) -> dict[str, int]:
        """How many contrasts have each verdict."""
        count = Counter(one.verdict for one in self.contrasts)
        return {verdict: count[verdict] for verdict in SAID}  # type: ignore[index]

    @property
    def one_by_one(self) -> tuple[int, int]:
        """Intervals above and below 0, without a correction."""
        spans = [span for one in self.contrasts if (span := one.estimate.interval)]
        return sum(low > 0 for low, _ in spans), sum(high < 0 for _, high in spans)

    @property
    def headline(self) -> str:
        """One sentence on all rows, and one on those without a measurement; empty without any."""
        text = ""
        if self.contrasts:
            first, *others = (
                f"{count:,}{f' of {counted(len(self.contrasts), self.noun)}' * (not n)} "
                f"{SAID[verdict][count != 1]}"
                for n, (verdict, count) in enumerate(self.counts.items())
                if count or verdict not in ("identical", "equivalent")
            )
            text = f"{', '.join((first, *others))} ({LEVEL:.0%}, Holm)"
            if self.reversible:
                text += f"; {self.doubt} worlds could reverse {self.reversible:,} of these"
            text += "."
        if self.unmeasured:
            were = "was" if self.unmeasured == 1 else "were"
            text += f" {self.unmeasured:,} of {counted(self.lines, self.noun)} {were} not measured."
        return text.strip()

    @property
    def alone(self) -> str:
        """Decisions of single intervals, and the number expected by chance."""
        better, worse = self.one_by_one
        chance = (1 - LEVEL) * len(self.contrasts)
        expected = f"{chance:.0f}" if chance >= 0.5 else "fewer than 1"
        return f"Uncorrected: {better:,} better, {worse:,} worse; {expected} expected by chance."

    @property
    def coarse(self) -> str:
        """The differences that too few problems cannot show; empty for enough problems."""
        mdes = [one.mde or float("inf") for one in self.contrasts if one.p is not None]
        if not mdes or median(mdes) <= COARSE:
            return ""
        finite = sorted(mde for mde in mdes if mde < float("inf"))
        ends = dict.fromkeys(f"{mde:.2f}" for mde in (finite[:1] + finite[-1:]))
        below = f"lifts below {' to '.join(ends)} may go un" if finite else "no lift can be "
        return (
            f"{_problems(self.contrasts)}: {below}detected; see oversight plan SWEEP "
            "--contrast 'A - B' --mde 0.3."
        )


def verdicts(results: Results) -> Verdicts:
    """The verdicts on all rows of a run, whichever of them are shown."""
    rows = [row for row in results.every if not row.row.naive or row.unmeasured]
    open_rows = [r for r in rows if r.contrast and r.contrast.decided and r.compliance.open]
    failed = any(row.failed for row in open_rows)
    flagged = any(row.counts.get(doubt) for row in open_rows for doubt in DOUBTS) or not failed
    return Verdicts(
        tuple(row.contrast for row in results.every if row.contrast),
        "row",
        len(rows),
        sum(bool(row.unmeasured) for row in rows),
        len(open_rows),
        " or ".join(["failed"] * failed + ["flagged"] * flagged),
    )


def mark(contrast: Contrast | None) -> str:
    """The mark of an interval that excludes 0 by itself alone; empty for any other."""
    ends = contrast.estimate.interval if contrast and not contrast.decided else None
    return MARK if ends and not ends[0] <= 0 <= ends[1] else ""


def lifted(lift: Estimate | None, contrast: Contrast | None) -> str:
    """A lift with its mark."""
    if contrast and contrast.verdict == "identical":
        return "identical"
    return estimated(lift, 2) + mark(contrast)


def fragile(contrast: Contrast | None) -> str:
    """How a rare error could undo a verdict on many problems; empty if it cannot."""
    if not (contrast and contrast.decided and contrast.undone):
        return ""
    n, rare = contrast.estimate.n, span(contrast.estimate.by("conservative").interval, 2)
    text = f"one rare error in {n} problems could undo it: conservative {rare}"
    return text if n >= FEW_PROBLEMS else ""


def rare_errors(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """One sentence on verdicts over few problems that a rare error could undo."""
    decided = [one for one in contrasts if one.decided and one.estimate.n < FEW_PROBLEMS]
    undone = [one for one in decided if one.undone]
    if undone:
        some = "any" if len(undone) == len(decided) else f"{len(undone):,}"
        signs = f"{some} of these signs" if len(contrasts) > 1 else "this sign"
        yield f"With {_problems(undone)}, one rare error could reverse {signs}."


def same_verdicts(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """One sentence on rows that are identical to the row that they are compared with."""
    if same := [one for one in contrasts if one.verdict == "identical"]:
        most = f"up to {3 / min(one.estimate.clusters for one in same):.0%} could still differ"
        yield f"identical: same verdict on all {_problems(same)} ({most})."


def _problems(contrasts: Sequence[Contrast]) -> str:
    """How many problems these are of: `8 problems`, `8 to 12 problems`."""
    least, most = (end(one.estimate.n for one in contrasts) for end in (min, max))
    return f"{least:,} to {most:,} problems" if least < most else counted(most, "problem")
