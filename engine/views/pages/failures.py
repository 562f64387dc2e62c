"""The page of failures: the cells of a run that failed, and those in doubt."""

from collections import Counter
from dataclasses import dataclass

from ...analysis.findings.finding import Finding, Part, number, word
from ...analysis.reports.aggregate import MARKS
from ...analysis.reports.failures import called, failure_lines
from ...analysis.rows import read_rows, row_names
from ...run.reader import RunReader
from .addresses import Addresses
from .findings import finding_page

MAX_LISTED = 500
"""Maximum number of cells in a list on the page."""

MAX_SAID = 600
"""Characters of what a failure says; all of it is on the page of the transcript."""

_CELL = [word("problem", "problem"), word("what", "what"), word("world", "world")]
_CELL += [word("row", "row"), word("said", "said")]


@dataclass(frozen=True, slots=True)
class ListedCell:
    """One cell of a list."""

    problem: str
    what: str
    world: str
    row: str
    said: str
    link: str


@dataclass(frozen=True, slots=True)
class FailedRow:
    """Cells of one row that failed for one cause."""

    row: str
    cause: str
    count: int
    link: str


def failures_page(run: RunReader, links: Addresses) -> str:
    """Failures by row and cause, then each of them; then each cell in doubt."""
    table = read_rows(run).table
    names, failures, finished = row_names(run.sweep.rows), table.failed, int(table.ended.sum())
    doubts = {
        at: ", ".join(name.replace("_", " ") for name in MARKS if counts.get(name))
        for at, counts in table.marked.items()
        if at not in failures
    }

    def listed(at: int, what: str, said: str = "") -> ListedCell:
        place, side = run.where(at)
        problem = run.sweep.problems[place.problem]
        label = problem.question.answers[side].label
        said = f"{said[:MAX_SAID]} …" if len(said) > MAX_SAID else said
        return ListedCell(problem.id, what, label, names[place.row], said, links.reading(place))

    counted = Counter(
        (run.sweep.row_at(at), called(failure.kind)) for at, failure in failures.items()
    )
    causes = [
        FailedRow(names[row], cause, count, links.row(row, names[row], "failed"))
        for (row, cause), count in counted.most_common(MAX_LISTED)
    ]
    failed = [
        listed(at, called(each.kind), f"{each.message}\n{each.raw}".strip())
        for at, each in sorted(failures.items())[:MAX_LISTED]
    ]
    doubted = [listed(at, what) for at, what in sorted(doubts.items())[:MAX_LISTED]]
    advice, said = list[str](), list[str]()
    if failures:
        advice += failure_lines(run.sweep, run.outcomes())
        advice.append(
            f"To run them again: oversight run {run.folder / 'sweep.yaml'} --run-folder "
            f"{run.folder} --retry-failed"
        )
    elif not doubts:
        said.append(f"No cell failed, and nothing is in doubt, of {finished:,} cells.")
    by_row = [word("row", "row"), word("cause", "cause"), number("cells", "count")]
    in_doubt = (
        "A speaker refused, conceded, left its side, was cut off by the provider or tried to forge "
        "marks. The verdict counts; the bounds on the overview show what it could change.",
    )
    finding = Finding(
        (
            Part(
                "causes",
                f"{len(failures):,} of {finished:,} cells failed",
                by_row,
                causes,
                advice,
            ),
            Part("failed", "Each of them", _CELL, failed, _left_out(failed, len(failures))),
            Part(
                "doubts",
                f"{len(doubts):,} cells in doubt",
                _CELL,
                doubted,
                (*in_doubt, *_left_out(doubted, len(doubts))),
            ),
        )
    )
    return finding_page(
        run,
        links,
        finding,
        title="Failures and doubts",
        here="failures",
        lead="Cells that ended without a verdict, by row and cause; then verdicts that something "
        "speaks against.",
        said=said,
    )


def _left_out(listed: list[ListedCell], count: int) -> tuple[str, ...]:
    return (f"{len(listed):,} of {count:,} are listed.",) if count > len(listed) else ()
