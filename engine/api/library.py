"""Runs from Python, with the same engine, store and run folders as the command line."""

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rich.console import Console

from ...protocols.protocol import Protocol
from ...protocols.question import Problem
from ..display.progress import console as stderr
from ..errors import Halt
from ..pages.notebook import (
    NotebookPage,
    comparison_of,
    framed,
    overview_of,
    reading_of,
)
from ..reports.frame_files import arrow_frames
from ..reports.frames import FrameSource
from ..reports.report import report, save_report
from ..reports.results import Results, collect
from ..reports.side_by_side import side_by_side
from ..runs.loaded_sweep import LoadedSweep
from ..runs.lookup import Parts, fullest, locate, worlds_of
from ..runs.observer import ProgressDisplay
from ..runs.reader import Place, RunReader
from ..runs.run import Run
from ..sweeps.in_python import python_sweep
from ..sweeps.sweepfile import Top, check_fit
from ..system.loop import event_loop
from .prepared import prepared
from .settings import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """A finished or stopped run: its results, tables, pages and transcripts."""

    results: Results = field(repr=False)
    folder: Path
    stopped: Halt | None
    """Why it stopped before its end; None if it is complete."""
    opened: LoadedSweep = field(repr=False)
    """The sweep that was run."""
    store: str = field(repr=False)
    """Where the run's replies are: a folder, or the URL of a database."""

    def _repr_markdown_(self) -> str:
        """The report as Markdown, for notebooks."""
        return self.table("markdown")

    def table(self, format: str = "text", *, measures: bool = False) -> str:
        """The report as `text`, `markdown`, `json`, `latex` or `csv`.

        measures: add the secondary measures, which JSON and CSV always have.
        """
        return report(self.results, format, measures=measures)

    def frames(self) -> "dict[str, pa.Table]":
        """The run as Arrow tables: `rows`, `cells`, `turns`, `judgements` and `calls`.

        polars, pandas and DuckDB take them without copying. Raises: UsageError without
        the extra `frames`.
        """
        run = self._run()
        return arrow_frames(FrameSource(run, run.prices, score=self.results.score))

    def _repr_html_(self) -> str:
        """The overview page, in a frame, for notebooks."""
        return framed(overview_of(self._run(), self.results.score))

    def compare(self, other: "Report") -> NotebookPage:
        """This run minus another, row by row, on their common problems."""
        return comparison_of(self._run(), other._run(), self.results.score)

    def read(
        self,
        wanted: str,
        *,
        protocol: str = "",
        agent: str = "",
        judge: str = "",
        draw: int | None = None,
    ) -> NotebookPage:
        """The worlds of a problem: a page in a notebook; printed, the text of `show`.

        Parameters as for `show`; if several rows fit, the first one.
        """
        run = self._run()
        place = locate(run, wanted, Parts(protocol, agent, judge), draw)[0]
        return NotebookPage(
            self._shown(run, place, None), reading_of(run, self.results.score, place)
        )

    def _run(self) -> RunReader:
        return RunReader(self.folder, self.store)

    def show(
        self,
        wanted: str,
        *,
        protocol: str = "",
        agent: str = "",
        judge: str = "",
        draw: int | None = None,
        width: int | None = None,
    ) -> str:
        """The transcripts of a problem, one column per world, from the row with the most turns.

        wanted: id of a problem or of a cell. protocol, agent, judge: parts of the names of the
        row. width: in characters; None for the terminal's.

        Raises: UsageError if nothing fits; RunFolderError if the run folder has no record.
        """
        run = self._run()
        places = locate(run, wanted, Parts(protocol, agent, judge), draw)
        return self._shown(run, fullest(run, places), width)

    def _shown(self, run: RunReader, place: Place, width: int | None) -> str:
        row, about = run.sweep.rows[place.row], run.problems[place.problem]
        page = io.StringIO()
        console = Console(file=page, width=width, highlight=False, force_jupyter=False)
        worlds = worlds_of(run, place)
        console.print(side_by_side(row, about, worlds, self.results.score, console.width))
        return page.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRun(RunSettings):
    """A sweep in Python, and how it is run."""

    protocols: Iterable[Protocol] = field(kw_only=False)
    problems: Iterable[Problem] = field(kw_only=False)
    name: str = "python"
    draws: int = 1
    seed: int = 0
    max_cells: int | None = None
    lanes: int | None = None
    models: Mapping[str, Mapping[str, Any]] | None = None
    """As in a sweep file; so are the providers."""
    providers: Mapping[str, Mapping[str, Any]] | None = None
    quiet: bool = False
    """Whether no progress is shown on stderr."""


def _with(settings: Callable[P, PythonRun]) -> Callable[[Callable[[PythonRun], T]], Callable[P, T]]:
    """A function that takes the arguments of the settings, typed, in their place."""

    def decorated(function: Callable[[PythonRun], T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> T:
            return function(settings(*args, **given))

        called.__signature__ = signature(settings)  # type: ignore[attr-defined]
        return called

    return decorated


@_with(PythonRun)
def run(settings: PythonRun) -> Report:
    """`run_async`, for code that is not asynchronous. Raises: RuntimeError if a loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("an event loop is running, as in a notebook: await run_async(…) there")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        return runner.run(_run(settings))


@_with(PythonRun)
async def run_async(settings: PythonRun) -> Report:
    """Run every protocol on every problem, in one world for each answer, and score the rows.

    The settings are those of a sweep file and of `oversight run` (docs/sweep-file.md). Progress is
    shown on stderr unless `quiet`. Calling it again resumes: a cell that has an outcome is not run
    again, and no call is paid for twice. With several workers, your own protocols must be in an
    importable module.

    Raises: ValueError for a parameter out of range, UsageError for a sweep that cannot be run,
    RunFolderError for the folder of another sweep.
    """
    return await _run(settings)


async def _run(its: PythonRun) -> Report:
    top = Top(its.name, its.seed, its.draws, its.max_cells, its.lanes)
    file = python_sweep(top, its.problems, its.protocols, its.models or {}, its.providers or {})
    check_fit(file.document, file.protocols, file.problems)
    run = prepared(file, its)
    with Run.open(run.loaded, run.options) as under_way:
        display = ProgressDisplay(stderr(its.quiet))
        stopped = await under_way.execute(display, executor=run.executor)
        mixed = under_way.folder.manifest.mixed
        outcomes = under_way.outcomes()
        results = collect(run.loaded.sweep, outcomes, score=its.score, mixed=mixed)
        save_report(results, under_way.folder.path)
        return Report(results, under_way.folder.path, stopped, run.loaded, str(run.options.store))
