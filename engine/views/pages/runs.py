"""The list of all runs of a folder, and what went wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...errors import RunFolderError
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.listing import summarize
from .environment import page
from .routes import Served


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of the list."""

    name: str
    link: str
    sweep: str
    state: str
    cells: int
    finished: int
    failed: int
    dollars: float
    touched: str


NOWHERE = Served("")
"""The addresses of a page that belongs to no run."""


def runs_page(place: Path, folders: Mapping[str, Path]) -> str:
    """The list. folders: run folders by the names under which they are served."""
    lines, faults = [], []
    for name, folder in folders.items():
        try:
            lines.append(_line(name, folder))
        except RunFolderError as fault:
            faults.append(str(fault))
    lines.sort(key=lambda line: line.touched, reverse=True)
    return page("runs", NOWHERE, title="runs", place=str(place), runs=lines, faults=faults)


def fault_page(title: str, said: str) -> str:
    """What went wrong, and what to do."""
    return page("fault", NOWHERE, title=title, said=said)


def _line(name: str, folder: Path) -> RunLine:
    run = summarize(folder)
    return RunLine(
        name,
        Served(name).run,
        run.sweep,
        run.state,
        run.cells,
        run.finished,
        run.failed,
        sum_usage(read_ledger(folder).values()).dollars,
        f"{datetime.fromtimestamp(run.touched):%Y-%m-%d %H:%M:%S}",
    )
