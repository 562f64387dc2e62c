"""The analyses by name: one declaration is a command, a page, a figure and a Python call."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from ...protocols.settings import unknown
from ..errors import UsageError
from ..run.reader import RunReader
from ..sweep.code import classes_in, module_at
from ..sweep.document import is_elsewhere
from ..system.process import ANALYSES_GROUP, load_registered, registered
from .findings.finding import Finding
from .rows import RunRows


class Analysis(ABC):
    """A question to a run, a frozen dataclass whose fields are its settings.

    A field that is declared with `flag` is an option of `oversight measure NAME RUN` and a keyword
    of `oversight.measure`; the docstring is the command's help. One's own is named
    `my_file.py:MyAnalysis`, or registered under `oversight.analyses`."""

    title: ClassVar[str] = ""
    """Of its page; "" for none."""
    lead: ClassVar[str] = ""
    """Content of the page, in a sentence or two."""

    reads_scores: ClassVar[bool] = False
    """Whether `of_table` takes files of scores, such as logs of Inspect."""

    @abstractmethod
    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        """rows: numbers of those that are shown. UsageError for rows that it does not suit."""

    def sourced(self, run: RunRows, score: str) -> Finding:
        """As `of_run`, of all rows, under where the replies come from."""
        finding = self.of_run(run, range(len(run.names)), score)
        return replace(finding, lead=tuple(dict.fromkeys((*run.origins, *finding.lead))))

    def at_once(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        """As `of_run`, where the page is to be there at once: of a part, if all take long."""
        return self.of_run(run, rows, score)

    def of_table(self, file: Path, score: str) -> Finding:
        """As `of_run`, of a judgement table or a study."""
        raise UsageError(f"{file}: {type(self).__name__} is of runs, and this is a table")

    def suits(self, run: RunReader) -> bool:
        """Whether the run has what it is about; cheap."""
        return True


PLACES: Mapping[str, str] = MappingProxyType(
    {
        "report": "reporting:Report",
        "frontier": "frontier:Frontier",
        "worlds": "calibration:Worlds",
        "calibration": "calibration:Calibration",
        "compare": "comparison:Compare",
        "scores": "scores:MeasureScores",
        "proposals": "proposals:Proposals",
        "monitoring": "monitoring:Monitoring",
        "coverage": "monitoring:Coverage",
    }
)
"""`module:Class` below this package."""

TOP = ("report", "compare", "power")
"""Analyses with a dedicated command; for power it is `plan`."""


def names() -> tuple[str, ...]:
    """The built-in analyses, and those that are registered; none is imported."""
    return (*PLACES, *(name for name in registered(ANALYSES_GROUP) if name not in PLACES))


def analysis(name: str) -> type[Analysis]:
    """The analysis of this name, or of a file or module, `my_file.py:MyAnalysis`, whose code runs.
    UsageError for an unknown one."""
    if name in PLACES:
        module, _, called = PLACES[name].partition(":")
        kind = getattr(importlib.import_module(f".{module}", __package__), called)
    elif name in registered(ANALYSES_GROUP):
        kind = load_registered(ANALYSES_GROUP, name)
    elif is_elsewhere(name):
        place, _, called = name.rpartition(":")
        try:
            source = module_at(place)
        except Exception as exc:
            raise UsageError(f"{name}: its import failed: {type(exc).__name__}: {exc}") from exc
        if not hasattr(source, called):
            raise UsageError(f"{place} has no {called!r}; {classes_in(source)}")
        kind = getattr(source, called)
    else:
        raise UsageError(unknown("analysis", name, [*names(), "my.py:Mine"]))
    if not (isinstance(kind, type) and issubclass(kind, Analysis)):
        raise UsageError(f"{name}: {kind!r} is not an {Analysis.__name__}")
    return kind
