"""Runs from Python: made, opened, compared, measured and drawn, as the command line does it."""

import asyncio
import io
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from markupsafe import escape

from ....protocols.protocol import Protocol
from ....protocols.question import Problem
from ....protocols.settings import unknown
from ...analysis.catalogue import analysis
from ...analysis.compared import Comparison
from ...analysis.comparison import Compare, compare_rows
from ...analysis.findings.finding import Finding
from ...analysis.pictures.kinds import caption, pictured
from ...analysis.reports.frame_files import arrow_frames
from ...analysis.reports.frames import FrameSource
from ...analysis.reports.report import report, save_report
from ...analysis.reports.results import Results
from ...analysis.reports.side_by_side import side_by_side
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Interval
from ...display.console import PrintableConsole
from ...errors import Halt, Interrupted, UsageError
from ...run.execution import execute
from ...run.listing import Parts, folder_named
from ...run.loaded_sweep import LoadedSweep
from ...run.lookup import fullest, locate, worlds_of
from ...run.observer import ProgressDisplay
from ...run.reader import RunReader
from ...run.run import Run
from ...run.settings import RunSettings, store_name
from ...stop import StopToken
from ...sweep.in_python import python_sweep
from ...sweep.sweepfile import SweepFile, Top, check_fit, read_sweep_file
from ...system.process import event_loop
from ...system.settings import check_flags
from ..pages.links import Links, PageQuery
from ..pages.overview import overview_page
from ..pages.transcript_page import reader_page
from .prepared import prepared

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """A result that a notebook shows as a page, and a terminal as text."""

    text: str
    html: str = field(repr=False)
    """A whole page."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.html)


def framed(page: str) -> str:
    """A page in a frame, sandboxed because models wrote its texts and the notebook has a kernel."""
    return (
        '<iframe sandbox="allow-scripts" width="100%" height="620" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


@dataclass(frozen=True, slots=True)
class Report:
    """A run that was made, or opened again: its results, tables, pages and transcripts."""

    results: Results = field(repr=False)
    folder: Path
    stopped: Halt | None = None
    """Why it stopped before its end; None if it is complete, or was opened again."""
    store: str | None = field(default=None, repr=False)
    """Where the run's replies are: a folder, or the URL of a database; None for the user's own."""

    def __str__(self) -> str:
        """The table; before it, why the run stopped, if it did."""
        if self.stopped is None:
            return self.table()
        return f"stopped: {self.stopped}; the same call goes on with it\n\n{self.table()}"

    def _repr_markdown_(self) -> str:
        """The report as Markdown, for notebooks."""
        return self.table("markdown")

    def table(self, format: str = "text", *, measures: bool = False) -> str:
        """The report as `text`, `markdown`, `json`, `latex` or `csv`.

        measures: add the secondary measures, which JSON and CSV always have."""
        return report(self.results, format, measures=measures)

    def frames(self) -> "dict[str, pa.Table]":
        """The run as Arrow tables: `rows`, with intervals and n, `cells`, `turns`, `judgements` and
        `calls`.

        `table.to_pandas()`, `polars.from_arrow(table)` and DuckDB take them as they are. Raises:
        UsageError without the extra `frames`."""
        run = self.reader
        return arrow_frames(FrameSource(run, run.prices, score=self.results.score))

    def _repr_html_(self) -> str:
        """The overview page, in a frame, for notebooks."""
        return framed(overview_page(self.reader, Links(), PageQuery(score=self.results.score)))

    def read(
        self,
        problem_or_cell: str,
        *,
        protocol: str = "",
        agent: str = "",
        judge: str = "",
        draw: int | None = None,
        width: int | None = None,
    ) -> NotebookPage:
        """The transcripts of a problem from the row with the most turns: a page in a notebook;
        printed, one column per world.

        problem_or_cell: an id. protocol, agent, judge: parts of the row's names. width: of the
        text, in characters; None for the terminal's.

        Raises: UsageError if nothing fits; RunFolderError if the run folder has no record."""
        run, score = self.reader, self.results.score
        place = fullest(run, locate(run, problem_or_cell, Parts(protocol, agent, judge), draw))
        row, about = run.sweep.rows[place.row], run.problems[place.problem]
        text = io.StringIO()
        console = PrintableConsole(file=text, width=width, force_jupyter=False)
        console.print(side_by_side(row, about, worlds_of(run, place), score, console.width))
        query = PageQuery(place.row, place.problem, place.draw, score=score)
        with run:
            return NotebookPage(text.getvalue(), reader_page(run, Links(), query))

    @property
    def reader(self) -> RunReader:
        """The run folder, opened for reading: its grid, problems, outcomes and record."""
        return RunReader(self.folder, self.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRun(RunSettings):
    """A sweep in Python, and how it is run."""

    protocols: Iterable[Protocol] = field(kw_only=False)
    problems: Iterable[Problem] = field(kw_only=False)
    name: str = "python"
    draws: int = 1
    seed: int = 0
    max_cells: int | None = None
    models: Mapping[str, Mapping[str, Any]] | None = None
    """As in a sweep file; so are the providers."""
    providers: Mapping[str, Mapping[str, Any]] | None = None
    quiet: bool = False
    """Whether no progress is shown on stderr."""


def _with_settings(
    settings: Callable[P, RunSettings],
) -> Callable[[Callable[[S, RunSettings], T]], Callable[Concatenate[S, P], T]]:
    """A method that takes the arguments of the settings, typed, instead of the settings."""

    def decorated(method: Callable[[S, RunSettings], T]) -> Callable[Concatenate[S, P], T]:
        def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return method(self, settings(*args, **kwargs))

        called.__doc__ = method.__doc__
        return called

    return decorated


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep file, read and checked, to be looked into and run from Python."""

    file: SweepFile = field(repr=False)
    path: Path

    @classmethod
    def from_yaml(
        cls, path: Path | str, *, set: Iterable[str] = (), limit: int | None = None
    ) -> "Sweep":
        """Read a sweep file. UsageError, with file and line, for all that is wrong.

        set: overrides, as `"agents.temperature=0.7"`. limit: number of problems, from the first."""
        return cls(read_sweep_file(Path(path), set, limit), Path(path))

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.file.problems

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """One for each row of the report."""
        return self.file.protocols

    @_with_settings(RunSettings)
    def run(self, settings: RunSettings) -> Report:
        """Start it, or resume it, as `oversight run` does. The parameters are the flags."""
        return _in_a_loop(self._executed(settings), "await sweep.run_async(…)")

    @_with_settings(RunSettings)
    async def run_async(self, settings: RunSettings) -> Report:
        """As `run`, for notebooks and other code with a running event loop."""
        return await self._executed(settings)

    async def _executed(self, settings: RunSettings) -> Report:
        ready = prepared(self.file, settings)
        return await _executed(*ready, settings.score, quiet=False)


def open_run(run: Path | str, *, score: str = "brier") -> Report:
    """A run that was made before, by `run` or the command line.

    run: a run folder, or the beginning of the name of one in `runs/`. Nothing but the folder is
    read: no code is imported. Raises: RunFolderError if none or several fit, or it is damaged."""
    reader = RunReader(folder_named(str(run)))
    return Report(read_rows(reader).results(score), reader.folder)


def _with(settings: Callable[P, PythonRun]) -> Callable[[Callable[[PythonRun], T]], Callable[P, T]]:
    """A function that takes the arguments of the settings, typed, instead of the settings."""

    def decorated(function: Callable[[PythonRun], T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(settings(*args, **kwargs))

        called.__signature__ = signature(settings)  # type: ignore[attr-defined]
        return called

    return decorated


@_with(PythonRun)
def run(settings: PythonRun) -> Report:
    """`run_async`, for code that is not asynchronous. Raises: RuntimeError if a loop is running."""
    return _in_a_loop(_run(settings), "await run_async(…)")


@_with(PythonRun)
async def run_async(settings: PythonRun) -> Report:
    """Run every protocol on every problem, in one world for each answer, and score the rows.

    Settings are the same as in a sweep file and `oversight run` (docs/sweep-file.md). Progress is
    shown on stderr unless `quiet`. Calling it again resumes: a cell that has an outcome is not run
    again, and no call is paid for twice. Ctrl-C stops it: calls in flight are awaited, and the
    report says that it stopped; a second Ctrl-C abandons them. With several workers, your own
    protocols must be in an importable module.

    Temperatures at their default are left to models that accept none, as `auto` in a sweep file.

    Raises, before the first call: UsageError for settings out of range and for a sweep that cannot
    be run, ValueError for a problem or a name that cannot be one, RunFolderError for the folder of
    another sweep."""
    return await _run(settings)


def _in_a_loop(work: Coroutine[Any, Any, Report], instead: str) -> Report:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        work.close()
        raise RuntimeError(f"an event loop is running, as in a notebook: {instead} there")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        return runner.run(work)


async def _run(settings: PythonRun) -> Report:
    top = Top(settings.name, settings.seed, settings.draws, settings.max_cells)
    models, providers = settings.models or {}, settings.providers or {}
    file = python_sweep(top, settings.problems, settings.protocols, models, providers)
    check_fit(file.document, file.protocols, file.problems)
    return await _executed(*prepared(file, settings), settings.score, settings.quiet)


async def _executed(loaded: LoadedSweep, settings: RunSettings, score: str, quiet: bool) -> Report:
    with Run.open(loaded, settings) as run, _stopped_by_hand(loaded.stop_token):
        stopped = await execute(run, *[] if quiet else [ProgressDisplay()])
        folder = run.folder.path
        with RunReader(folder) as reader:
            results = read_rows(reader).results(score)
        save_report(results, folder)
        return Report(results, folder, stopped, store_name(settings.store))


@contextmanager
def _stopped_by_hand(token: StopToken) -> Iterator[None]:
    """The first Ctrl-C stops the run, and a second one cancels it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def pressed(number: int, frame: FrameType | None) -> None:
        if token.halt is None:
            loop.call_soon_threadsafe(token.stop, Interrupted(number))
        elif task is not None:
            loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


Compares: TypeAlias = Report | Path | str
"""A run: a Report, a run folder, or the beginning of the name of one in `runs/`."""


def compare(
    first: Compares,
    second: Compares | None = None,
    *,
    baseline: str | None = None,
    pairs: Literal["all"] | None = None,
    contrasts: Sequence[str] = (),
    group: Literal["protocol", "mechanism", "agent", "judge"] | None = None,
    score: str = "brier",
    equivalence: float = 0.05,
    interval: Interval | None = None,
) -> Comparison:
    """Contrasts of the rows of one run, or of the common rows of two runs: first minus second.

    The parameters are the same as in `oversight compare`; a contrast is `"debate - consultancy"`.
    Raises: UsageError for unknown names, and for baseline, pairs or group with two runs."""
    how = Compare(
        baseline=baseline,
        pairs=pairs,
        contrasts=tuple(contrasts),
        group=group,
        equivalence=equivalence,
        ways=(),
        error="cr3",
        interval=interval,
    )
    return compare_rows(_rows(first), None if second is None else _rows(second), how, score)


def measure(run: Compares, name: str, *, score: str = "brier", **settings: Any) -> Finding:
    """The finding of an analysis, as `oversight measure NAME` prints it.

    name: of an analysis, or `my_file.py:MyAnalysis`. settings: its options, with `_` for `-`.
    Raises: UsageError for an unknown name, or if the run does not suit the analysis."""
    kind, rows = analysis(name), _rows(run)
    names = [option.name for option in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    if wrong := [option for option in settings if option not in names]:
        raise UsageError(f"{name}: {unknown('setting', wrong[0], names)}")
    chosen = kind(**settings)
    check_flags(chosen)
    return chosen.sourced(rows, score)


def _rows(run: Compares) -> RunRows:
    return read_rows(run.folder if isinstance(run, Report) else folder_named(str(run)))


def plot(
    run: Report | Path | str,
    kind: str = "asd",
    *,
    other: Report | Path | str | None = None,
    score: str = "brier",
    style: str = "column",
    protocol: str = "",
    agent: str = "",
    judge: str = "",
    by: Sequence[str] = (),
    captioned: bool = False,
    store: Path | str | None = None,
) -> "Figure":
    """A picture of a run as a matplotlib Figure, to be edited and saved.

    run: a report, or a run folder. kind: asd, lift, worlds, jse, calibration, trend,
    frontier, or compare with an `other` run.
    style: column, paper (two columns) or slides. protocol, agent, judge: parts of the names of the
    rows to show. store: where the replies are, if not in the run's own store; only `frontier` reads
    it. by: with asd, lift and jse, what rows are averaged by. captioned: with a caption below it:
    n, the intervals and whether models are simulated. Raises: UsageError, with the fix, for a
    picture that cannot be drawn."""
    from ...analysis.pictures.painting import draw

    with ExitStack() as opened:
        first = opened.enter_context(_opened(run, store))
        second = None if other is None else opened.enter_context(_opened(other, store))
        picture = pictured(first, kind, score, second, Parts(protocol, agent, judge), by)
        return draw(picture, style, caption(first, picture) if captioned else "")


def _opened(run: Report | Path | str, store: Path | str | None) -> RunReader:
    if isinstance(run, (str, Path)):
        return RunReader(folder_named(str(run)), store)
    return RunReader(run.folder, store or run.store)
