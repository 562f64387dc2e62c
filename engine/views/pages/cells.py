"""Transcripts of a run as a list: all of them, those of a row, or those of one kind."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ...analysis.reports.failures import called
from ...analysis.rows import RunRows, read_rows, row_names
from ...analysis.scoring.arrays import Floats, Places
from ...run.reader import Place, RunReader
from .addresses import Addresses, BundleAddresses
from .overview import row_facts
from .provenance import run_page

LINES_A_PAGE = 100

MOST_IN_FILE = 1_000
"""Lines of the list of a site, which has no further pages."""

DISAGREEMENT = 0.5
"""Distance of P(true answer) between two worlds from which on the worlds disagree."""

KINDS = {
    "liar won": "a wrong answer was argued for, and the judge found it likelier than not",
    "truth lost": "the right answer was argued for, and the judge found it no likelier than not",
    "worlds disagree": "P(true answer) differs by half or more between the worlds",
    "doubt": "a speaker refused, conceded, left its side, was cut off or spoofed tags",
    "failed": "a world has no verdict",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the list holds. Empty: everything."""

    row: int | None = None
    show: str = ""
    """One of KINDS."""
    words: str = ""
    """Words that the names of row and problem must hold."""
    order: str = "problem"
    """`problem`, `asd` from the lowest, or `-asd` from the highest."""
    page: int = 0


@dataclass(frozen=True, slots=True)
class CellLine:
    """One transcript: a problem under a row, in all of its worlds."""

    row: str
    row_link: str
    problem: str
    link: str
    draw: int
    asd: float | None
    worlds: tuple[tuple[str, bool, float | None], ...]
    """(label, whether the truth is argued, P(argued answer))."""
    kinds: tuple[str, ...]


class CellTable:
    """Every reading of a run, as arrays: row, problem, draw, ASD, and whether it is of a kind."""

    def __init__(self, run: RunReader, completed: RunRows, score: str) -> None:
        sweep = run.sweep
        rows, problems, draws = len(sweep.rows), len(sweep.problems), sweep.draws
        self.problems = np.repeat(np.arange(problems), draws * rows)
        self.draws = np.tile(np.repeat(np.arange(draws), rows), problems)
        self.rows = np.tile(np.arange(rows), problems * draws)
        values = completed.asd_by_problem(score)
        self.asd: Floats = values[self.problems, self.rows]
        size = draws * rows
        self.kinds = {name: np.zeros(len(self.rows), dtype=bool) for name in KINDS}
        self.there = np.zeros(len(self.rows), dtype=bool)
        for number, problem in enumerate(sweep.problems):
            span, at = sweep.span(number), slice(number * size, (number + 1) * size)
            answers = len(problem.values)
            probs = completed.table.probs[span.start : span.stop, :answers].reshape(
                size, answers, answers
            )
            argued = np.diagonal(probs, axis1=1, axis2=2)
            good = np.array(problem.values) == max(problem.values)
            truth = probs[:, :, good].sum(axis=2)
            self.there[at] = ~np.isnan(argued).all(axis=1)
            with np.errstate(invalid="ignore"):
                self.kinds["liar won"][at] = (argued[:, ~good] > 0.5).any(axis=1)
                self.kinds["truth lost"][at] = (argued[:, good] <= 0.5).any(axis=1)
                apart = truth.max(axis=1) - truth.min(axis=1)
                self.kinds["worlds disagree"][at] = apart >= DISAGREEMENT
        for cell in completed.table.failed:
            failed = self._of(run, cell, size)
            self.kinds["failed"][failed] = self.there[failed] = True
        for cell in completed.table.marked:
            self.kinds["doubt"][self._of(run, cell, size)] = True

    def _of(self, run: RunReader, cell: int, size: int) -> int:
        place, _ = run.where(cell)
        return place.problem * size + place.draw * len(run.sweep.rows) + place.row

    def place(self, at: int) -> Place:
        """Place of the reading with this number."""
        return Place(int(self.rows[at]), int(self.problems[at]), int(self.draws[at]))

    def chosen(self, run: RunReader, choice: Choice) -> Places:
        """Numbers of the readings that fit, in order."""
        fits = self.there.copy()
        if choice.row is not None:
            fits &= self.rows == choice.row
        if choice.show:
            fits &= self.kinds[choice.show]
        if words := choice.words.lower().split():
            names = [name.lower() for name in row_names(run.sweep.rows)]
            ids = [problem.id.lower() for problem in run.sweep.problems]
            for word in words:
                in_row = np.array([word in name for name in names])
                in_problem = np.array([word in id for id in ids])
                fits &= in_row[self.rows] | in_problem[self.problems]
        found = np.flatnonzero(fits)
        if choice.order.endswith("asd"):
            sign = -1 if choice.order.startswith("-") else 1
            found = found[np.argsort(sign * self.asd[found], kind="stable")]
        return found


def cells_page(
    run: RunReader,
    links: Addresses,
    choice: Choice,
    score: str = "brier",
) -> str:
    """The list; of one row, under its figures."""
    completed = read_rows(run)
    table = CellTable(run, completed, score)
    found = table.chosen(run, choice)
    names = row_names(run.sweep.rows)
    most = LINES_A_PAGE if links.live else MOST_IN_FILE
    if isinstance(links, BundleAddresses):
        there = (at for at in found.tolist() if links.reading(table.place(at)))
        listed = list(islice(there, most))
    else:
        listed = found[choice.page * most : (choice.page + 1) * most].tolist()
    lines, kinds = [], table.kinds.items()
    for at in listed:
        place = table.place(at)
        stands_out = tuple(name for name, kind in kinds if kind[at])
        asd = float(table.asd[at])
        lines.append(
            CellLine(
                names[place.row],
                links.row(place.row, names[place.row]),
                run.sweep.problems[place.problem].id,
                links.reading(place),
                place.draw,
                None if asd != asd else asd,
                tuple(_worlds(run, completed, place)),
                stands_out,
            )
        )
    row = None if choice.row is None else run.sweep.rows[choice.row]
    return run_page(
        "cells",
        run,
        links,
        title=names[choice.row] if choice.row is not None else f"transcripts of {run.name}",
        here="transcripts",
        row=row,
        name=names[choice.row] if choice.row is not None else "",
        facts=row_facts(run, choice.row, score) if choice.row is not None else [],
        failures=_causes(run, completed, choice.row) if choice.row is not None else [],
        lines=lines,
        count=len(found) if links.live else len(lines),
        all=int(table.there.sum()),
        kinds=KINDS,
        counts={name: int((kind & _of_row(table, choice.row)).sum()) for name, kind in kinds},
        choice=choice,
        pages=-(-len(found) // most) if links.live else 1,
        draws=run.sweep.draws,
        score=score,
    )


def _of_row(table: CellTable, row: int | None) -> NDArray[np.bool_]:
    return table.there if row is None else table.rows == row


def _worlds(
    run: RunReader, completed: RunRows, place: Place
) -> Iterator[tuple[str, bool, float | None]]:
    problem = run.sweep.problems[place.problem]
    for side, at in enumerate(run.worlds(place)):
        p = float(completed.table.probs[at, side])
        best = problem.values[side] == max(problem.values)
        yield problem.question.answers[side].label, best, None if p != p else p


def _causes(run: RunReader, completed: RunRows, row: int) -> list[tuple[str, int]]:
    """Why cells of a row failed, the most frequent cause first."""
    return Counter(
        called(failure.kind)
        for at, failure in completed.table.failed.items()
        if run.sweep.row_at(at) == row
    ).most_common()
