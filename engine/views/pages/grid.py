"""The map of a run, problems by rows, and the page of one problem under every row."""

from dataclasses import dataclass
from math import isnan

import numpy as np

from ....protocols.scores import RANGES
from ...analysis.pictures.kinds import ordered_by_mean
from ...analysis.reports.failures import called
from ...analysis.rows import RunRows, read_rows, row_names
from ...analysis.scoring.arrays import Floats
from ...run.reader import Place, RunReader
from ...sweep.grid import GridRow
from .addresses import Addresses
from .environment import SHADE_STEPS, shade, typeset
from .provenance import run_page

PROBLEMS_A_PAGE, ROWS_A_PAGE = 60, 50

SHADES = [
    *(f"n{n}" for n in range(SHADE_STEPS, 0, -1)),
    "z",
    *(f"p{n}" for n in range(1, SHADE_STEPS + 1)),
]


@dataclass(frozen=True, slots=True)
class Field:
    """One problem under one row."""

    kind: str
    """Its classes: shade, failed, doubt."""
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class MapLine:
    """One problem of the map."""

    id: str
    link: str
    cells: tuple[Field, ...]
    mean: float | None


def pages_of(run: RunReader) -> list[tuple[int, int]]:
    """(page of problems, page of rows) of every part of the map."""
    return [
        (problems, rows)
        for problems in range(-(-len(run.sweep.problems) // PROBLEMS_A_PAGE))
        for rows in range(-(-len(run.sweep.rows) // ROWS_A_PAGE))
    ]


def map_page(run: RunReader, links: Addresses, part: tuple[int, int], score: str = "brier") -> str:
    """One part of the map. part: as `pages_of` names it."""
    completed = read_rows(run)
    values = completed.asd_by_problem(score)
    problems, rows = ordered_by_mean(values)
    shown = problems[part[0] * PROBLEMS_A_PAGE :][:PROBLEMS_A_PAGE]
    across = rows[part[1] * ROWS_A_PAGE :][:ROWS_A_PAGE]
    low, high = RANGES[score]
    most = high - low
    names = row_names(run.sweep.rows)
    pages = [(_named(run, each), links.map(*each), each == part) for each in pages_of(run)]
    lines = []
    for problem in shown:
        fields = tuple(_field(run, completed, links, values, problem, row, most) for row in across)
        known = values[problem][~np.isnan(values[problem])]
        mean = float(known.mean()) if len(known) else None
        lines.append(MapLine(run.sweep.problems[problem].id, links.problem(problem), fields, mean))
    return run_page(
        "map",
        run,
        links,
        title=f"map of {run.name}",
        here="map",
        score=score,
        shades=SHADES,
        most=most,
        pages=pages,
        columns=[
            (at, names[row], links.row(row, names[row]))
            for at, row in enumerate(across, part[1] * ROWS_A_PAGE + 1)
        ],
        lines=lines,
    )


def _named(run: RunReader, part: tuple[int, int]) -> str:
    problems = f"problems {part[0] * PROBLEMS_A_PAGE + 1}–"
    problems += f"{min((part[0] + 1) * PROBLEMS_A_PAGE, len(run.sweep.problems))}"
    rows = f"rows {part[1] * ROWS_A_PAGE + 1}–"
    return f"{problems}, {rows}{min((part[1] + 1) * ROWS_A_PAGE, len(run.sweep.rows))}"


def _field(
    run: RunReader,
    completed: RunRows,
    links: Addresses,
    values: Floats,
    problem: int,
    row: int,
    most: float,
) -> Field:
    value = values[problem, row]
    places = [Place(row, problem, draw) for draw in range(run.sweep.draws)]
    cells = [at for place in places for at in run.worlds(place)]
    link = next(filter(None, map(links.reading, places)), "")
    if any(at in completed.table.failed for at in cells) and isnan(value):
        return Field("failed", "×", link)
    if isnan(value):
        return Field("", "", "")
    doubt = any(at in completed.table.marked for at in cells)
    kind = shade(value, most) + (" doubt" if doubt else "")
    return Field(kind, typeset(value, 1), link)


@dataclass(frozen=True, slots=True)
class Bar:
    """The judge's probability of the answer argued for in one world."""

    p: float | None
    good: bool
    said: str
    """Why there is none; empty if it was not run."""


@dataclass(frozen=True, slots=True)
class RowOnProblem:
    """One row of the report on one problem."""

    name: GridRow
    link: str
    worlds: tuple[Bar, ...]
    asd: float | None


def problem_page(run: RunReader, links: Addresses, number: int, score: str = "brier") -> str:
    """The page of one problem, with the judge's probabilities under every row."""
    completed = read_rows(run)
    problem, best = run.sweep.problems[number], max(run.sweep.problems[number].values)
    values = completed.asd_by_problem(score)[number]
    rows = []
    for at, row in enumerate(run.sweep.rows):
        place = Place(at, number)
        if len(run.sweep.rows) > ROWS_A_PAGE and not links.reading(place):
            continue
        bars = tuple(
            _bar(completed, cell, side, problem.values[side] == best)
            for side, cell in enumerate(run.worlds(place))
        )
        asd = None if isnan(values[at]) else float(values[at])
        rows.append(RowOnProblem(row, links.reading(place), bars, asd))
    count = len(run.sweep.problems)

    def neighbour(by: int) -> str:
        at = number + by
        while 0 <= at < count and not links.problem(at):
            at += by
        return links.problem(at) if 0 <= at < count else ""

    return run_page(
        "problem",
        run,
        links,
        title=problem.id,
        here="problem",
        problem=problem,
        best=best,
        rows=rows,
        before=neighbour(-1),
        after=neighbour(1),
    )


def _bar(completed: RunRows, cell: int, side: int, good: bool) -> Bar:
    if (failure := completed.table.failed.get(cell)) is not None:
        return Bar(None, good, called(failure.kind))
    p = float(completed.table.probs[cell, side])
    return Bar(None if isnan(p) else p, good, "")
