"""The page of failures, by cause: how many, of what, in which transcripts, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.findings.finding import Finding, Part, number, share, word
from ...analysis.reports.aggregate import MARKS
from ...analysis.reports.failures import HINTS, called, clipped, saying
from ...analysis.rows import RunRows, read_rows
from ...run.reader import RunReader
from ...run.run_folder import SWEEP
from .findings import Linked, finding_page
from .links import Asked, Links

READ = 3
"""Transcripts that are linked for each cause."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Cells that ended alike."""

    cause: str
    count: int
    share: float
    quote: str
    """What one of them says."""
    links: dict[str, Linked]

    @property
    def read(self) -> str:
        return " ".join(text for text, _ in self.links["read"]) if self.links else ""


def causes_part(run: RunReader, completed: RunRows, links: Links, most: int | None = None) -> Part:
    """Causes of failures, the most frequent first. most: causes that are named; all by default."""
    failures = completed.table.failed
    alike: dict[tuple[str, str], list[int]] = {}
    for at, failure in sorted(failures.items()):
        alike.setdefault((failure.kind, saying(failure)), []).append(at)
    every = sorted(alike.items(), key=lambda each: -len(each[1]))
    lines = []
    for (kind, _), cells in every[:most]:
        example = failures[cells[0]]
        seat = f"{example.seat}: " if example.seat else ""
        told = clipped(f"{called(kind)}: {seat}{example.message}")
        quote = clipped(example.raw)
        lines.append(_cause(run, links, told, cells, len(completed.table.failed), quote))
    hints = [HINTS[kind] for kind in dict.fromkeys(kind for kind, _ in alike) if kind in HINTS]
    notes = [f"{hint[:1].upper()}{hint[1:]}." for hint in hints] if most is None else []
    if most and len(every) > most:
        notes.append(f"{len(every) - most:,} more causes are on the page of failures.")
    title = f"{len(failures):,} of {int(completed.table.ended.sum()):,} cells failed, by cause"
    columns = [word("cause", "cause"), *[word("for example", "quote")] * (most is None)]
    columns += [word("read", "read"), number("cells", "count"), share("share", "share")]
    return Part("causes", title, columns, lines, notes)


def failures_page(run: RunReader, links: Links, asked: Asked) -> str:
    """Failures by cause, then doubts by kind."""
    completed = read_rows(run)
    table = completed.table
    marked = {at: counts for at, counts in table.marked.items() if at not in table.failed}
    doubts = []
    for name in MARKS:
        cells = [at for at, counts in sorted(marked.items()) if counts.get(name)]
        if cells:
            told = name.replace("_", " ")
            doubts.append(_cause(run, links, told, cells, int(table.ended.sum()), ""))
    said = []
    if table.failed:
        said.append(
            f"To run them again: oversight run {run.folder / SWEEP} --run-folder {run.folder} "
            "--retry-failed"
        )
    elif not doubts:
        said.append(f"No cell failed, and nothing is in doubt, of {table.ended.sum():,} cells.")
    columns = [word("doubt", "cause"), word("read", "read")]
    columns += [number("cells", "count"), share("share", "share")]
    about = "The verdict counts; the bounds on the overview show what it could change."
    in_doubt = Part("doubts", f"{len(marked):,} cells in doubt", columns, doubts, (about,))
    return finding_page(
        run,
        links,
        Finding((causes_part(run, completed, links), in_doubt)),
        title="Failures and doubts",
        lead="Cells that ended without a verdict, by what they say; then verdicts that something "
        "speaks against.",
        said=said,
    )


def _cause(run: RunReader, links: Links, told: str, cells: list[int], of: int, quote: str) -> Cause:
    return Cause(told, len(cells), len(cells) / of, quote, {"read": read_links(run, links, cells)})


def read_links(run: RunReader, links: Links, cells: Sequence[int]) -> Linked:
    """Links to a few of these cells, of different problems where they are many."""
    some = cells[:: max(len(cells) // READ, 1)][:READ]
    read = [link for at in some if (link := links.reading(run.where(at)[0]))]
    return tuple((f"{n}", link) for n, link in enumerate(dict.fromkeys(read), 1))
