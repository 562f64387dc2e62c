"""The formats and options of reports, apart from the code that writes them: that imports numpy."""

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
ERROR = flag("cr1: standard clustered errors, as in most papers.", default="cr3")
INTERVAL = flag(
    "t: cluster-robust; conservative: also allows for errors too rare to appear in the sample. "
    "Default: that of the sweep file, else t.",
    default=None,
)
