"""The answer page: whether one row is better than another, by how much, where, and how sure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

from ....protocols.scores import TIE
from ...analysis.comparison import BY_DEFAULT, Compared, compare_rows, comparison_finding
from ...analysis.findings.chart import Axis
from ...analysis.findings.finding import Part, change, word
from ...analysis.reports.family import fragile, rare_errors, same_verdicts
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.inference import averaged
from ...errors import UsageError
from ...run.reader import Place, RunReader
from .findings import Linked, shown_part
from .links import Asked, Links
from .strip import run_page

MOST_PAIRS = 14
"""Rows of a run up to which a site has the contrasts of all pairs of them."""

MOST_LINES = 150
"""Contrasts that a site lists."""

MOST_APART = 12
"""Problems that differ most, for a single contrast."""

LISTED = ("difference", "p_family", "verdict", "n")
"""Columns of a list of contrasts, beside the names."""

SAID = {
    "better": ("is better than", "good"),
    "worse": ("is worse than", "bad"),
    "identical": ("is identical to", "warn"),
    "equivalent": ("is equivalent to", "warn"),
    "undecided": ("may be better or worse than", "warn"),
}
"""By verdict, what stands between the two names, and its tone."""


@dataclass(frozen=True, slots=True)
class ApartProblem:
    """A problem on which two rows differ, with the transcripts of both."""

    id: str
    difference: float
    first: float
    second: float
    links: dict[str, Linked]

    @property
    def read(self) -> str:
        return " ".join(text for text, _ in self.links["read"])


def compare_page(run: RunReader, links: Links, asked: Asked) -> str:
    """The contrasts that two words mean: names of rows, or parts of them, as `oversight compare`
    takes them; by default of each row with the naive judge."""
    words, score = (asked.first, asked.second), asked.score
    fault, comparison, lines = "", None, tuple[Compared, ...]()
    rows = read_rows(run)
    # A site cannot ask again: with few rows, it has the answer for every pair.
    every = not links.form("compare") and len(rows.names) <= MOST_PAIRS
    contrasts = (" - ".join(words),) if all(words) else ()
    how = replace(BY_DEFAULT, contrasts=contrasts, pairs="all" if every else None)
    try:
        comparison = compare_rows(rows, None, how, score)
        lines = comparison.contrasts
    except UsageError as exc:
        fault = str(exc)
    single = lines[0] if len(lines) == 1 else None
    its = single.contrast.estimate if single else None

    def own(line: Compared) -> dict[str, str]:
        first, second = (rows.names[row] for _, row in line.places)
        to = links.to("compare", first=first, second=second)
        return {"first": to} if to else {}

    parts = []
    if comparison:
        short = bool(links.form("compare")) or len(lines) > MOST_LINES
        listed, flips, *_ = comparison_finding(comparison, short=short).parts
        if single:
            parts = [shown_part(part, {}) for part in (_apart(rows, links, single, score), flips)]
        else:
            listed = (listed.brief or listed).chosen(LISTED)
            parts = [shown_part(listed, {}, own=own)]
    tested = [line.contrast for line in lines]
    mean = _mean(rows, lines if all(words) and not single else (), score)
    return run_page(
        "answer",
        run,
        links,
        title="compare",
        here="compare",
        comparison=comparison,
        fault=fault,
        parts=[part for part in parts if part.lines],
        count=len(lines),
        single=single,
        said=SAID,
        rows=[links.to("row", row=row) for _, row in (single.places if single else ())],
        axis=Axis.around([0.0, its.value, *(its.interval or ())]) if its else None,
        asked=words,
        mean=mean,
        notes=[*rare_errors(tested), *same_verdicts(tested)],
        fragile=fragile(single.contrast) if single else "",
        tally=Counter(line.contrast.verdict for line in lines),
        names=rows.names,
        score=score,
    )


def _mean(rows: RunRows, found: Sequence[Compared], score: str) -> Estimate | None:
    """Mean of the contrasts, alike on each problem that all of them have; None without one."""
    of = rows.asd(score)
    pairs = ([of[rows.names[row]] for _, row in each.places] for each in found)
    mean = averaged(first - second for first, second in pairs)
    return mean.estimate(interval=rows.sweep.interval) if mean else None


def _apart(rows: RunRows, links: Links, found: Compared, score: str) -> Part:
    """The problems that differ most, each way, with links to the transcripts of both rows."""
    places = [row for _, row in found.places]
    values = rows.asd_by_problem(score)[:, places].tolist()
    apart = []
    for n, (problem, (a, b)) in enumerate(zip(rows.run.sweep.problems, values, strict=True)):
        if isnan(a) or isnan(b) or abs(a - b) <= TIE:
            continue
        both = (links.reading(Place(row, n)) for row in places)
        read = tuple((of, to) for of, to in zip(("first", "second"), both, strict=True) if to)
        to = links.to("problem", problem=n)
        named = ((problem.id, to),) if to else ()
        apart.append(ApartProblem(problem.id, a - b, a, b, {"problem": named, "read": read}))
    apart.sort(key=lambda each: (-abs(each.difference), each.id))
    columns = [
        word("problem", "id"),
        word("read", "read"),
        *(change(head, head, 2) for head in ("difference", "first", "second")),
    ]
    return Part("apart", "Problems on which they differ most", columns, apart[:MOST_APART])
