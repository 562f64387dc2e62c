"""The formats and options of reports, and their first sentence, apart from what writes them: that
imports numpy."""

from collections.abc import Sequence
from math import isfinite

from ...system.flags import flag

ENDINGS = {"text": "txt", "markdown": "md", "json": "json", "latex": "tex", "csv": "csv"}
"""Endings of their files."""

FORMATS = tuple(ENDINGS)


def listed(text: str) -> tuple[str, ...]:
    """The names between commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def above_0(given: float | str) -> float:
    if not (number := float(given)) > 0 or not isfinite(number):
        raise ValueError(f"{given} is not a finite number above 0")
    return number


CLUSTER = flag(
    "Kinds of clusters that cross: group (the shared text, or the question), question, judge, "
    "speaker, line. Default: group, and judge where lines name one.",
    name="--cluster",
    default="",
    metavar="KEY,KEY,…",
    read=lambda text: listed(text.replace("group", "problem")),
)
ERROR = flag("cr1: plain clustered errors, as papers of the field have them.", default="cr3")
INTERVAL = flag(
    "t: cluster-robust; guarded: what errors too rare to have been seen could do, too. Default: "
    "that of the sweep file, else t.",
    default=None,
)


def headline(lifts: Sequence[tuple[float, float]]) -> str:
    """One sentence on all rows, from the intervals of their lifts; empty without any."""
    if not lifts:
        return ""
    better, worse = sum(low > 0 for low, _ in lifts), sum(high < 0 for _, high in lifts)
    rest = len(lifts) - better - worse
    return (
        f"Against the naive judge (95% CI): {better:,} of {len(lifts):,} better, {worse:,} worse, "
        f"{rest:,} inconclusive."
    )
