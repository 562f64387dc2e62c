"""The answer page: whether one row is better than another, by how much, where, and how sure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from markupsafe import Markup

from ....protocols.scores import TIE
from ...analysis.compared import Compared, comparison_finding
from ...analysis.comparison import BY_DEFAULT, compare_rows
from ...analysis.differences import ChangedProblem
from ...analysis.findings.chart import Axis
from ...analysis.findings.finding import Part, change, word
from ...analysis.reports.family import fragile, rare_errors, same_verdicts
from ...analysis.reports.health import called
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.inference import Floats, Places, mean_pair
from ...display.text import printable
from ...errors import UsageError
from ...run.reader import Place, RunReader
from ...sweep.grid import GridRow
from .environment import inline_json
from .findings import READINGS, LineLinks, Linked, shown_part
from .links import MOST_PAIRS, Links, PageQuery, nth, readings_of
from .overview import dots_data
from .strip import run_page

SHADES = [*(f"n{n}" for n in range(4, 0, -1)), "z", *(f"p{n}" for n in range(1, 5))]

MOST_ROWS = 50
"""Rows up to which a site has those that it has no transcript of, on the page of a problem."""

VALUE, IMPUTED, FAILED, DOUBT = 1, 2, 4, 8
"""The state of a field as a sum; 0 for a problem that was not run in every world."""

STATES = {IMPUTED: "imputed", FAILED: "failed", 0: "not run"}
"""Names of fields that are not a measurement of all worlds."""


def field_states(completed: RunRows, values: Floats) -> Places:
    """The state of every field, problems × rows. values: their ASD, or NaN."""
    table, run = completed.table, completed.run
    states = np.where(np.isnan(values), 0, VALUE)
    for row in range(len(completed.names)):
        judged = table.judgements(row)
        if judged.imputed is not None:
            states[judged.question[judged.imputed.any(axis=1)], row] |= IMPUTED
    for at in table.failed:
        place, _ = run.where(at)
        if not states[place.problem, place.row] & VALUE:
            states[place.problem, place.row] = FAILED
    for at in table.marked:
        place, _ = run.where(at)
        if states[place.problem, place.row] & VALUE:
            states[place.problem, place.row] |= DOUBT
    return states


def state_name(state: int) -> str:
    """A state in words; empty for a measurement of all worlds."""
    return "" if state & (VALUE | IMPUTED) == VALUE else STATES[state & (IMPUTED | FAILED)]


def map_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """ASD of every problem under every row: hardest problems first, best rows first."""
    completed = read_rows(run)
    values = completed.asd_by_problem(query.score)
    problems, rows = ordered_by_mean(values)
    kinds = [row.mechanism for row in run.sweep.rows]
    # By mechanism, the one with the best row first.
    bands = Counter(kinds[n] for n in rows)
    rows.sort(key=lambda n: [*bands].index(kinds[n]))
    fields, states = (np.nan_to_num(values) * 100).round(), field_states(completed, values)
    names = completed.names
    data = {
        "problems": [printable(run.sweep.problems[n].id) for n in problems],
        "rows": [printable(names[n]) for n in rows],
        "bands": [(printable(kind), count) for kind, count in bands.items()],
        "fields": fields.astype(int)[problems][:, rows].tolist(),
        "states": states[problems][:, rows].tolist(),
        "most": 100 * float(np.nanmax(np.abs(values), initial=1.0)),
        "links": readings_of(run, links),
        "numbers": [problems, rows],
    }
    return run_page(
        "map",
        run,
        links,
        title=f"map of {run.name}",
        active_tab="map",
        score=query.score,
        shades=SHADES,
        legend=Counter(state_name(state) for state in states.ravel().tolist()),
        doubts=int((states & DOUBT > 0).sum()),
        most=data["most"] / 100,
        data=inline_json(data),
        rows=[(names[n], links.to("row", row=n)) for n in rows],
        problems=[(run.sweep.problems[n].id, links.to("problem", problem=n)) for n in problems],
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """The judge's probability of the answer argued for in one world."""

    p: float | None
    good: bool
    failure: str
    """Why it is missing; empty if it was not run."""


@dataclass(frozen=True, slots=True)
class RowOnProblem:
    """One row of the report on one problem."""

    name: GridRow
    link: str
    worlds: tuple[Bar, ...]
    asd: float | None
    state: str
    """`imputed`, `failed`, `not run`, or empty for a measurement."""


def problem_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The page of one problem, with the judge's probabilities under every row, the worst first."""
    completed = read_rows(run)
    number = nth(query.problem, len(run.sweep.problems), "problem")
    problem, best = run.sweep.problems[number], max(run.sweep.problems[number].values)
    values = completed.asd_by_problem(query.score)
    states, values = field_states(completed, values)[number].tolist(), values[number]
    rows = []
    for at, row in enumerate(run.sweep.rows):
        place = Place(at, number)
        if len(run.sweep.rows) > MOST_ROWS and not links.reading(place):
            continue
        bars = tuple(
            _bar(completed, cell, side, problem.values[side] == best)
            for side, cell in enumerate(run.worlds(place))
        )
        asd = None if isnan(values[at]) else float(values[at])
        rows.append(RowOnProblem(row, links.reading(place), bars, asd, state_name(states[at])))
    rows.sort(key=lambda line: (line.asd is None, line.asd))
    count = len(run.sweep.problems)
    after = (links.to("problem", problem=n) for n in range(number + 1, count))
    before = (links.to("problem", problem=n) for n in range(number - 1, -1, -1))
    return run_page(
        "problem",
        run,
        links,
        title=problem.id,
        active_tab="map",
        problem=problem,
        best=best,
        rows=rows,
        before=next(filter(None, before), ""),
        after=next(filter(None, after), ""),
    )


def _bar(completed: RunRows, cell: int, side: int, good: bool) -> Bar:
    if (failure := completed.table.failed.get(cell)) is not None:
        return Bar(None, good, called(failure.kind))
    p = float(completed.table.probs[cell, side])
    return Bar(None if isnan(p) else p, good, "")


def ordered_by_mean(values: Floats) -> tuple[list[int], list[int]]:
    """Problems as lines from the hardest, rows as columns from the best; without values last."""
    measured = ~np.isnan(values)
    sums = np.where(measured, values, 0)

    def order(axis: int, sign: int) -> list[int]:
        count = measured.sum(axis=axis)
        means = np.where(count, sums.sum(axis=axis) / np.maximum(count, 1), np.inf * sign)
        places: list[int] = np.argsort(sign * means, kind="stable").tolist()
        return places

    return order(1, 1), order(0, -1)


MOST_LINES = 150
"""Contrasts that a site lists."""

MOST_APART = 6
"""Problems that differ most in each direction, for a single contrast."""

LISTED = ("difference", "p_family", "verdict", "n")
"""Columns of a list of contrasts, after the names."""

RELATIONS = {
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


def compare_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The contrasts that two words mean: names of rows, or parts of them, as `oversight compare`
    takes them; by default of each row with the naive judge."""
    words, score = (query.first, query.second or query.first * bool(query.run2)), query.score
    fault, comparison, lines = "", None, tuple[Compared, ...]()
    rows, other, their_links = read_rows(run), None, links
    # A site cannot ask again: with few rows, it has the answer for every pair.
    every = not links.form("compare") and len(rows.names) <= MOST_PAIRS
    contrasts = (" - ".join(words),) if all(words) else ()
    how = replace(BY_DEFAULT, contrasts=contrasts, pairs="all" if every else None)
    try:
        if query.run2:
            second_run, their_links = links.beside(query.run2)
            other = read_rows(second_run)
        comparison = compare_rows(rows, other, how, score)
        lines = comparison.contrasts
    except UsageError as exc:
        fault = str(exc)
    single = lines[0] if len(lines) == 1 else None
    estimate = single.contrast.estimate if single else None

    def line_links(contrast: Compared) -> dict[str, str]:
        if not links.form("compare"):
            return {}
        first, second = (
            (other or rows).names[row] if at else rows.names[row] for at, row in contrast.places
        )
        return {"first": links.to("compare", first=first, second=second, run2=query.run2)}

    def change_links(line: ChangedProblem) -> LineLinks:
        one, two = line.places
        read = {"first": links.reading(one), "second": their_links.reading(two)}
        return {"problem": links.to("problem", problem=one.problem), **read}

    parts = []
    if comparison:
        short = bool(links.form("compare")) or len(lines) > MOST_LINES
        listed, changed, flips, *_ = comparison_finding(comparison, short=short).parts
        if other:
            parts = [shown_part(changed, {}, line_links=change_links)]
        if single and not other:
            parts = [shown_part(part, {}) for part in (_apart(rows, links, single, score), flips)]
        elif not single:
            listed = (listed.brief or listed).chosen(LISTED)
            table = shown_part(listed, {}, line_links=line_links)
            names = [
                text.replace(" ", ": ", 1)
                for text in listed.alike
                if text.startswith(("first ", "second "))
            ]
            parts.append(replace(table, title=" · ".join((table.title, *names))))
    tested = [line.contrast for line in lines]
    mean = _mean(rows, lines if all(words) and not single and not other else (), score)
    return run_page(
        "answer",
        run,
        links,
        title="compare",
        active_tab="compare",
        comparison=comparison,
        fault=fault,
        parts=[part for part in parts if part.lines],
        count=len(lines),
        single=single,
        relations=RELATIONS,
        rows=[
            (their_links if at else links).to("row", row=row)
            for at, row in (single.places if single else ())
        ],
        run2=query.run2,
        dots=_dots(rows, links, single, score) if single and not other else "",
        axis=Axis.around([0.0, estimate.value, *(estimate.interval or ())]) if estimate else None,
        words=words,
        mean=mean,
        notes=[*rare_errors(tested), *same_verdicts(tested)],
        fragile=fragile(single.contrast) if single else "",
        tally=Counter(line.contrast.verdict for line in lines),
        names=rows.names,
        score=score,
    )


def _mean(rows: RunRows, contrasts: Sequence[Compared], score: str) -> Estimate | None:
    """Mean of the contrasts, alike on each problem that all of them have; None without one."""
    asd = [rows.asd(score).get(name) for name in rows.names]
    means = mean_pair(asd, [(one[1], two[1]) for one, two in (line.places for line in contrasts)])
    return (means[0] - means[1]).estimate(interval=rows.sweep.interval) if means else None


def _dots(rows: RunRows, links: Links, contrast: Compared, score: str) -> Markup:
    """The differences of all problems, which lead to their pages."""
    one, two = (rows.asd_by_problem(score)[:, row] for _, row in contrast.places)
    to = [[links.to("problem", problem=n) for n in range(len(one))]]
    return dots_data(rows.run, {0: one - two}, to)


def _apart(rows: RunRows, links: Links, contrast: Compared, score: str) -> Part:
    """The problems that differ most in each direction, with the transcripts of both rows."""
    places = [row for _, row in contrast.places]
    names = [rows.names[row] for row in places]
    values = rows.asd_by_problem(score)[:, places].tolist()
    apart = []
    for n, (problem, (a, b)) in enumerate(zip(rows.run.sweep.problems, values, strict=True)):
        if isnan(a) or isnan(b) or abs(a - b) <= TIE:
            continue
        both = (links.reading(Place(row, n)) for row in places)
        read = tuple((name, to) for name, to in zip(names, both, strict=True) if to)
        to = links.to("problem", problem=n)
        problem_link = ((problem.id, to),) if to else ()
        apart.append(ApartProblem(problem.id, a - b, a, b, {"problem": problem_link, "read": read}))
    apart.sort(key=lambda line: (-line.difference, line.id))
    wins = [line for line in apart if line.difference > 0][:MOST_APART]
    losses = [line for line in apart if line.difference < 0][-MOST_APART:]
    columns = [
        word("problem", "id"),
        READINGS,
        change("difference", "difference", 2),
        *(change(name, key, 2) for name, key in zip(names, ("first", "second"), strict=True)),
    ]
    return Part("apart", "Problems on which they differ most", columns, [*wins, *losses])
