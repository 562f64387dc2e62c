"""Which run a RUN on the command line means: a folder, the beginning of its name, a sweep file."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ...errors import RunFolderError
from ...run.folders import RUNS, is_run, runs_of
from ...run.listing import folder_named
from ...system.process import OPENERS_GROUP, load_function, registered
from ...system.settings import argument
from .output import say

if TYPE_CHECKING:
    from ...analysis.rows import RunRows
    from ...run.reader import RunReader


class RunFolder(click.ParamType[Path]):
    """The run folder that a word means: see `run_named`."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # While the shell completes a line, nothing is looked up or said.
        return value if ctx is not None and ctx.resilient_parsing else run_named(value)


class RunOrPack(RunFolder):
    """A run folder, or a pack, unpacked into a temporary folder while the command runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        file = Path(value)
        pack = file.is_file() and file.suffix in registered(OPENERS_GROUP)
        if ctx is None or ctx.resilient_parsing or not pack:
            return super().convert(value, param, ctx)
        at = Path(ctx.with_resource(TemporaryDirectory(prefix="oversight-pack")))
        load_function(OPENERS_GROUP, file.suffix)(file, at / file.stem)
        return at / file.stem


RUN = argument("RUN", type=RunFolder())
"""The run folder that the word means."""


def reader_of(folder: Path, store: Path | str | None = None) -> "RunReader":
    """A run of which much will be read. The number of cells of a large one is said first."""
    from ...run.reader import RunReader

    reader = RunReader(folder, store)
    if reader.notice:
        say(reader.notice)
    return reader


def rows_of(folder: Path) -> "RunRows":
    """The rows of a run with their outcomes, as `reader_of` reads it."""
    from ...analysis.rows import read_rows

    return read_rows(reader_of(folder))


def run_named(word: str, overrides: Sequence[str] = ()) -> Path:
    """The run folder that a word means. It is a folder, the beginning of the name of just one in
    runs/, or a sweep file: then the folder that `oversight run` makes of it, or else the newest run
    of that sweep, which is told. overrides: the `--set` flags that go with a sweep file.
    RunFolderError, with the candidates, if it means none or several; UsageError for a sweep file
    that is wrong."""
    path = Path(word)
    if path.is_file() and is_run(path.parent):
        # A file of a run folder means the run: the code that it names is not the user's.
        return path.parent
    if path.is_file() or (path.suffix in (".yaml", ".yml") and not is_run(path)):
        return _run_of(path, overrides)
    return folder_named(word)


def _run_of(file: Path, overrides: Sequence[str]) -> Path:
    from ...run.loaded_sweep import folder_of, open_sweep

    sweep = open_sweep(file, overrides).sweep
    if is_run(folder := folder_of(sweep)):
        return folder
    if overrides:
        # Then they change a run of the file as it stands.
        return _run_of(file, ())
    runs = runs_of(sweep.name)
    if not runs:
        raise RunFolderError(
            f"{file}: {RUNS} has no run of {sweep.name!r}; start it: oversight run {file}"
        )
    newest = runs[0]
    which = "the only run" if len(runs) == 1 else f"the newest of {len(runs)} runs"
    say(
        f"{newest}: {which} of {sweep.name!r}; its settings, or its --limit, differ from those "
        f"that {file} has now"
    )
    return newest
