"""The runs of a folder: the list that `oversight status` prints, and its page."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ...analysis.findings.finding import Column, Part, column, number, people, program, word
from ...display.table import NONE
from ...display.text import dollars
from ...run.listing import REAL, RunSummary, summaries
from .environment import page
from .links import ServerLinks


def runs_part(title: str, runs: Sequence[RunSummary], name_of: Callable[[RunSummary], str]) -> Part:
    """One line per run, without columns that are empty for all. named: its known name."""

    def last(run: RunSummary) -> datetime:
        return datetime.fromtimestamp(run.touched)

    def done(run: RunSummary) -> str:
        return f"{run.finished:,}/{run.cells:,}"

    columns = [
        Column("run folder", name_of, ("folder",), lambda run: str(run.folder), words=True),
        program("sweep", "sweep"),
        Column(
            "last outcome",
            lambda run: f"{last(run):%Y-%m-%d %H:%M}",
            ("last_outcome",),
            lambda run: last(run).astimezone().isoformat("T", "seconds"),
            words=True,
        ),
        word("state", "state"),
        *[people("models", lambda run: run.models or NONE, words=True)]
        * any(run.models not in ("", REAL) for run in runs),
        program("cells", "cells"),
        Column("cells", done, ("finished",), lambda run: run.finished),
        number("failed", "failed"),
        program("simulated", "simulated"),
        program("running", "running"),
        column("--set", "overrides", " ".join if any(run.overrides for run in runs) else None),
        Column("spent", lambda run: dollars(run.spent), ("dollars",), lambda run: run.spent)
        if any(run.spent for run in runs)
        else program("dollars", "spent"),
    ]
    return Part("runs", title, columns, runs)


def runs_page(place: Path, folders: Mapping[str, Path]) -> str:
    """The list. folders: run folders by the names under which they are served."""
    from .findings import shown_part

    names = {folder: name for name, folder in folders.items()}
    runs, faults = summaries(names)
    part = runs_part("Runs", runs, lambda run: names[run.folder])
    table = shown_part(part, {name: ServerLinks(name).run for name in folders})
    return page("runs", ServerLinks(""), title="runs", place=str(place), part=table, faults=faults)
