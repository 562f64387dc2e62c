"""The answer page: whether one row is better than another, by how much, where, and how sure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

from ....protocols.scores import TIE
from ...analysis.comparison import BY_DEFAULT, Compared, compare_rows
from ...analysis.pictures.data import Axis
from ...analysis.reports.groups import mean_difference
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.inference import Influences
from ...errors import UsageError
from ...run.reader import Place, RunReader
from .environment import page
from .provenance import provenance, run_page
from .routes import Addresses, Asked

MOST_PAIRS = 14
"""Rows of a run up to which a site has the contrasts of all pairs of them."""

MOST_LINES = 40
"""Contrasts on one page."""

MOST_APART = 12
"""Problems that differ most, for a single contrast."""


@dataclass(frozen=True, slots=True)
class ApartProblem:
    """A problem on which two rows differ, with the transcripts of both."""

    id: str
    link: str
    difference: float
    first: float
    second: float
    links: tuple[str, str]


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One contrast, as the page shows it."""

    found: Compared
    link: str
    """Link to the page of this contrast alone."""
    rows: tuple[str, str]
    """Links to both rows."""
    names: tuple[str, str]
    """Names of both rows, without those of their runs."""

    @property
    def said(self) -> str:
        """The verdict in words: what stands between the two names."""
        verdict = self.found.contrast.verdict
        return {
            "first better": "is better than",
            "second better": "is worse than",
            "equivalent": "is as good as",
        }.get(verdict, "may be better or worse than")

    @property
    def tone(self) -> str:
        verdict = self.found.contrast.verdict
        return {"first better": "good", "second better": "bad"}.get(verdict, "warn")


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
    fault, comparison, lines = "", None, list[AnswerLine]()
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
        lines = [_line(each, links, rows) for each in comparison.contrasts]
    except UsageError as exc:
        fault = str(exc)
    single = lines[0] if len(lines) == 1 else None
    several = lines if all(asked) and not single else []
    listed = lines
    if len(lines) > MOST_LINES:
        # Both ends: where the first loses by most is among them.
        lines.sort(key=lambda line: line.found.contrast.estimate.value)
        listed = lines[: MOST_LINES // 2] + lines[-MOST_LINES // 2 :]
    values = {
        "comparison": comparison,
        "fault": fault,
        "lines": listed,
        "more": len(lines) - len(listed),
        "count": len(lines),
        "single": single,
        "axis": _axis(lines) if lines else None,
        "apart": _apart(rows, links, single.found, score) if single else [],
        "asked": asked,
        "mean": _mean([line.found for line in several], rows, score),
        "all_asked": all(asked),
        "tally": Counter(line.found.contrast.verdict for line in lines),
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


def _line(found: Compared, links: Sequence[Addresses], rows: Sequence[RunRows]) -> AnswerLine:
    (i, one), (j, two) = found.places
    names = rows[i].names[one], rows[j].names[two]
    link = links[0].to("compare", first=names[0], second=names[1]) if len(rows) == 1 else ""
    return AnswerLine(
        found, link, (links[i].to("row", row=one), links[j].to("row", row=two)), names
    )


def _axis(lines: Sequence[AnswerLine]) -> Axis:
    every = [line.found.contrast.estimate for line in lines]
    return Axis.around(
        [0.0, *(end for each in every for end in (each.value, *(each.interval or ())))]
    )


def _mean(found: Sequence[Compared], rows: Sequence[RunRows], score: str) -> Estimate | None:
    """Mean of the contrasts."""
    samples = [each.asd(score) for each in rows]

    def of(place: tuple[int, int]) -> Influences:
        return samples[place[0]][rows[place[0]].names[place[1]]]

    return mean_difference([(of(each.places[0]), of(each.places[1])) for each in found])


def _apart(
    rows: Sequence[RunRows], links: Sequence[Addresses], found: Compared, score: str
) -> list[ApartProblem]:
    """The problems that differ most, each way, with links to the transcripts of both rows."""
    (i, one), (j, two) = found.places
    values = []
    for run, row in ((i, one), (j, two)):
        opened = rows[run].run
        every = read_rows(opened).asd_by_problem(score)[:, row]
        ids = [problem.id for problem in opened.sweep.problems]
        values.append({id: (n, float(v)) for n, (id, v) in enumerate(zip(ids, every, strict=True))})
    apart = []
    for id, (n, a) in values[0].items():
        m, b = values[1].get(id, (0, float("nan")))
        if not isnan(a) and not isnan(b) and abs(a - b) > TIE:
            both = links[i].reading(Place(one, n)), links[j].reading(Place(two, m))
            to = links[i].to("problem", problem=n)
            apart.append(ApartProblem(id, to, a - b, a, b, both))
    apart.sort(key=lambda each: (-abs(each.difference), each.id))
    return apart[:MOST_APART]
