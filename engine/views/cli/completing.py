"""Completions for TAB: runs, sweep files, and the problems and cells of a run.

No message can be printed in the middle of a line: after an error, nothing is offered."""

from collections.abc import Iterator
from glob import escape, glob
from itertools import islice
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ...display.text import counted
from ...errors import EngineError
from ...run.folders import RUNS, is_run, newest_first, read_manifest, run_folders
from ...run.listing import folder_named

MAX_CELLS_OFFERED = 100
"""Maximum number of cells offered; a run may have a million."""


def sweep_files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Sweep files whose paths begin with `incomplete`, or one folder further down."""
    beginning = escape(incomplete)
    paths = map(Path, sorted([*glob(f"{beginning}*"), *glob(f"{beginning}*/*")]))
    return [
        CompletionItem(str(path))
        for path in paths
        if path.suffix in (".yaml", ".yml") and not is_run(path.parent)
    ]


def run_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Run folders, by the names that they have in runs/ or by their paths; and sweep files."""
    folder, slash, beginning = incomplete.rpartition("/")
    offered = []
    for run in newest_first(run_folders(Path(folder or "/") if slash else RUNS)):
        if not run.name.startswith(beginning):
            continue
        try:
            manifest = read_manifest(run)
        except EngineError:
            continue
        about = f"{counted(manifest.cells, 'cell')} of {manifest.name}"
        offered.append(CompletionItem(f"{folder}{slash}{run.name}", help=about))
    return offered + sweep_files(ctx, param, incomplete)


def cells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Problems of the run that the line names; and its cells, once a part of one is typed."""
    word = ctx.params.get("run")
    if not word:
        return []
    try:
        return list(_within(folder_named(word), incomplete))
    except (EngineError, OSError, ValueError, LookupError, TypeError):
        return []


def _within(run: Path, beginning: str) -> Iterator[CompletionItem]:
    from ...run.reader import RunReader

    reader = RunReader(run)
    for problem in reader.problems:
        if problem.id.startswith(beginning):
            yield CompletionItem(problem.id, help=" ".join(problem.question.text.split())[:60])
    matches = (
        outcome for outcome in reader.outcomes() if beginning and outcome.cell.startswith(beginning)
    )
    for record in islice(matches, MAX_CELLS_OFFERED):
        yield CompletionItem(record.cell, help=f"{record.protocol} · {record.problem}")
