"""The list of all runs of a folder."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ...analysis.findings.finding import Part, column, number, word
from ...errors import RunFolderError
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.listing import RunSummary, summarize
from .environment import page, price
from .findings import shown_part
from .routes import Served


class RunLine(NamedTuple):
    """One run of the list."""

    name: str
    its: RunSummary
    dollars: float | None
    last: str
    links: dict[str, str]


def runs_page(place: Path, folders: Mapping[str, Path]) -> str:
    """The list. folders: run folders by the names under which they are served."""
    lines, faults = [], []
    for name, folder in folders.items():
        try:
            its = summarize(folder)
        except RunFolderError as fault:
            faults.append(str(fault))
            continue
        last = f"{datetime.fromtimestamp(its.touched):%Y-%m-%d %H:%M:%S}"
        dollars = sum_usage(read_ledger(folder).values()).dollars or None
        lines.append(RunLine(name, its, dollars, last, {"run": Served(name).run}))
    lines.sort(key=lambda line: line.last, reverse=True)
    simulated = column("models", "its.simulated", lambda of: "simulated" if of else "", words=True)
    columns = [
        word("run", "name"),
        word("sweep", "its.sweep"),
        word("state", "its.state"),
        word("last outcome", "last"),
        *([simulated] if any(line.its.simulated for line in lines) else []),
        number("finished", "its.finished"),
        number("of cells", "its.cells"),
        number("failed", "its.failed"),
        column("spent", "dollars", price),
    ]
    part = shown_part(Part("runs", "Runs", columns, lines), {})
    return page("runs", Served(""), title="runs", place=str(place), part=part, faults=faults)
