"""The answer page: whether one row is better than another, by how much, where, and how sure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from ....protocols.scores import TIE
from ...analysis.comparison import BY_DEFAULT, Compared, compare_rows, comparison_finding
from ...analysis.findings.finding import Part, change, footnotes, word
from ...analysis.pictures.data import Axis
from ...analysis.reports.groups import mean_difference
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.inference import Influences
from ...errors import UsageError
from ...run.reader import Place, RunReader
from .environment import page
from .findings import Linked, shown_part
from .provenance import provenance, run_page
from .routes import Addresses, Asked

MOST_PAIRS = 14
"""Rows of a run up to which a site has the contrasts of all pairs of them."""

MOST_LINES = 150
"""Contrasts that a site lists."""

MOST_APART = 12
"""Problems that differ most, for a single contrast."""

LISTED = ("difference", "p_family", "verdict", "n", "pairing")
"""Columns of a list of contrasts, beside the names."""

SAID = {
    "first better": ("is better than", "good"),
    "second better": ("is worse than", "bad"),
    "equivalent": ("is as good as", "warn"),
    "inconclusive": ("may be better or worse than", "warn"),
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


def compare_page(run: RunReader, links: Addresses, asked: Asked) -> str:
    """Rows of one run."""
    return answer_page((run,), (links,), (), asked)


def answer_page(
    runs: Sequence[RunReader], links: Sequence[Addresses], names: Sequence[str], told: Asked
) -> str:
    """The contrasts that two words mean; by default of each row with the naive judge.

    runs: one, or two of which the second's rows are subtracted. links: of each. names: of all runs
    that may be chosen. told: has names of rows, or parts of them, as `oversight compare` takes
    them.
    """
    one, *others = runs
    asked, score = (told.first, told.second), told.score
    two = others[0] if others else None
    fault, comparison, lines = "", None, tuple[Compared, ...]()
    rows = [read_rows(run) for run in runs]
    # A site cannot ask again: with few rows, it has the answer for every pair.
    every = not others and not links[0].live and len(one.sweep.rows) <= MOST_PAIRS
    try:
        comparison = compare_rows(
            rows[0],
            rows[1] if others else None,
            replace(
                BY_DEFAULT,
                contrasts=(" - ".join(asked),) if all(asked) else (),
                pairs="all" if every else None,
            ),
            score,
        )
        lines = comparison.contrasts
    except UsageError as exc:
        fault = str(exc)
    single = lines[0] if len(lines) == 1 else None
    several = lines if all(asked) and not single else ()

    def own(line: Compared) -> dict[str, str]:
        (i, first), (j, second) = line.places
        if others:
            return {
                "first": links[i].to("row", row=first),
                "second": links[j].to("row", row=second),
            }
        names = rows[0].names
        to = links[0].to("compare", first=names[first], second=names[second])
        return {"first": to} if links[0].live else {}

    parts = []
    if single:
        parts = [shown_part(_apart(rows, links, single, score), {})]
    elif comparison:
        short = links[0].live or len(lines) > MOST_LINES
        listed = comparison_finding(comparison, short=short).parts[0]
        listed = (listed.brief(None) if listed.brief else listed).chosen(LISTED)
        parts = [shown_part(listed, {}, own=own)]
    mean = _mean(several, rows, score)
    values: dict[str, Any] = {
        "comparison": comparison,
        "fault": fault,
        "parts": [part for part in parts if part.lines],
        "count": len(lines),
        "single": single,
        "said": SAID,
        "rows": [links[run].to("row", row=row) for run, row in (single.places if single else ())],
        "axis": _axis(single) if single else None,
        "asked": asked,
        "mean": mean,
        "notes": list(footnotes([mean, single.contrast.estimate if single else None])),
        "all_asked": all(asked),
        "tally": Counter(line.contrast.verdict for line in lines),
        "options": [list(each.names) for each in rows],
        "names": names,
        "a": one.name,
        "b": two.name if two else "",
        "score": score,
    }
    if two is None:
        return run_page("answer", one, links[0], title="compare", here="compare", **values)
    return page(
        "answer", links[0], title="compare", run_name=one.name, here="compare",
        origin=provenance(one), **values,
    )  # fmt: skip


def _axis(found: Compared) -> Axis:
    its = found.contrast.estimate
    return Axis.around([0.0, its.value, *(its.interval or ())])


def _mean(found: Sequence[Compared], rows: Sequence[RunRows], score: str) -> Estimate | None:
    """Mean of the contrasts."""
    samples = [each.asd(score) for each in rows]

    def of(place: tuple[int, int]) -> Influences:
        return samples[place[0]][rows[place[0]].names[place[1]]]

    return mean_difference([(of(each.places[0]), of(each.places[1])) for each in found])


def _apart(
    rows: Sequence[RunRows], links: Sequence[Addresses], found: Compared, score: str
) -> Part:
    """The problems that differ most, each way, with links to the transcripts of both rows."""
    (i, one), (j, two) = found.places
    values = []
    for run, row in ((i, one), (j, two)):
        every = rows[run].asd_by_problem(score)[:, row]
        ids = [problem.id for problem in rows[run].run.sweep.problems]
        values.append({id: (n, float(v)) for n, (id, v) in enumerate(zip(ids, every, strict=True))})
    apart = []
    for id, (n, a) in values[0].items():
        m, b = values[1].get(id, (0, float("nan")))
        if not isnan(a) and not isnan(b) and abs(a - b) > TIE:
            both = links[i].reading(Place(one, n)), links[j].reading(Place(two, m))
            read = tuple((of, to) for of, to in zip(("first", "second"), both, strict=True) if to)
            to = links[i].to("problem", problem=n)
            named = ((id, to),) if to else ()
            apart.append(ApartProblem(id, a - b, a, b, {"problem": named, "read": read}))
    apart.sort(key=lambda each: (-abs(each.difference), each.id))
    columns = [
        word("problem", "id"),
        word("read", "read"),
        *(change(head, head, 2) for head in ("difference", "first", "second")),
    ]
    return Part("apart", "Problems on which they differ most", columns, apart[:MOST_APART])
