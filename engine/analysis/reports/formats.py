"""The formats and options of reports, apart from the code that writes them: that imports numpy."""

from collections.abc import Sequence
from math import isfinite

from ...system.settings import flag

ENDINGS = {"text": "txt", "markdown": "md", "json": "json", "latex": "tex", "csv": "csv"}
"""Endings of their files."""

FORMATS = tuple(ENDINGS)


def listed(text: str) -> tuple[str, ...]:
    """The names between commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def above_0(text: float | str) -> float:
    if not (number := float(text)) > 0 or not isfinite(number):
        raise ValueError(f"{text} is not a finite number above 0")
    return number


def named_columns(texts: Sequence[str]) -> dict[str, str]:
    """`KEY=COLUMN`, several times, as a mapping. ValueError for another form."""
    if wrong := [text for text in texts if not all(text.partition("="))]:
        raise ValueError(f"{wrong[0]!r}: write KEY=COLUMN, such as p_right=confidence")
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}


COLUMNS = flag(
    "Column of a table that has a key; repeatable.",
    name="--column",
    default=(),
    metavar="KEY=COLUMN",
    read=named_columns,
)
CLUSTER = flag(
    "Kinds of clusters that cross: group (the shared text, or the question), question, judge, "
    "speaker, line; of scores, a field such as metadata.subject. Default: group, and judge where "
    "lines name one.",
    name="--cluster",
    default="",
    metavar="KEY,KEY,…",
    read=lambda text: tuple("problem" if way == "group" else way for way in listed(text)),
)
ERROR = flag("cr1: standard clustered errors, as in most papers.", default="cr3")
INTERVAL = flag(
    "t: cluster-robust; conservative: also allows for errors too rare to appear in the sample. "
    "Default: the sweep file's, else t.",
    default=None,
)
