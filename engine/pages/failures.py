"""The page of failures: the cells of a run that failed, and those in doubt."""

from collections import Counter
from dataclasses import dataclass

from ..decisions.rows import read_rows, row_names
from ..reports.aggregate import MARKS
from ..reports.failures import called, failure_lines
from ..runs.reader import RunReader
from ..runs.run_folder import outcomes
from .addresses import Addresses
from .provenance import run_page

MAX_LISTED = 500
"""Maximum number of cells in a list on the page."""


@dataclass(frozen=True, slots=True)
class ListedCell:
    """One cell of a list."""

    what: str
    problem: str
    world: str
    row: str
    said: str
    link: str


@dataclass(frozen=True, slots=True)
class FailedRow:
    """Cells of one row that failed for one cause."""

    row: str
    link: str
    cause: str
    count: int


def failures_page(run: RunReader, links: Addresses) -> str:
    """Failures by cause, then each of them; then each cell in doubt."""
    completed = read_rows(run)
    doubts = {
        at: [name for name in MARKS if counts.get(name)]
        for at, counts in completed.table.marked.items()
        if at not in completed.table.failed
    }
    failed = [
        _listed(run, links, at, called(each.kind), f"{each.message}\n{each.raw}".strip())
        for at, each in sorted(completed.table.failed.items())[:MAX_LISTED]
    ]
    doubted = [
        _listed(run, links, at, ", ".join(name.replace("_", " ") for name in names), "")
        for at, names in sorted(doubts.items())[:MAX_LISTED]
    ]
    names, counted = row_names(run.sweep.rows), Counter[tuple[int, str]]()
    for at, failure in completed.table.failed.items():
        counted[run.sweep.row_at(at), called(failure.kind)] += 1
    causes = [
        FailedRow(names[row], links.row(row, names[row], "failed"), cause, count)
        for (row, cause), count in counted.most_common(MAX_LISTED)
    ]
    advice = list(failure_lines(run.sweep, outcomes(run.folder))) if completed.table.failed else []
    return run_page(
        "failures",
        run,
        links,
        title=f"failures of {run.name}",
        here="failures",
        finished=int(completed.table.ended.sum()),
        failed=len(completed.table.failed),
        failures=failed,
        causes=causes,
        advice=advice,
        doubts=doubted,
        doubt_count=len(doubts),
        again=f"oversight run {run.folder / 'sweep.yaml'} --run-folder {run.folder} --retry-failed",
    )


def _listed(run: RunReader, links: Addresses, at: int, what: str, said: str) -> ListedCell:
    place, side = run.where(at)
    problem, row = run.sweep.problems[place.problem], run.sweep.rows[place.row]
    label = problem.question.answers[side].label
    name = " · ".join(filter(None, (row.shown, row.agent, row.judge)))
    return ListedCell(what, problem.id, label, name, said, links.reading(place))
