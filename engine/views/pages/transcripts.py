"""Transcripts of a run as a list: all of them, those of a row, or those of one kind."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...analysis.findings.finding import Column, Part, change, number, word
from ...analysis.reports.aggregate import OPEN_TRUST
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.arrays import Flags, Floats, Places
from ...run.reader import Place, RunReader
from .findings import Linked, shown_part
from .links import Asked, Links, nth, one_of
from .overview import row_facts
from .strip import run_page

KINDS = {
    "failed": "a world has no verdict",
    "liar won": "a wrong answer was argued for, and the judge found it likelier than not",
    "truth lost": "the right answer was argued for, and the judge found it no likelier than not",
    "doubt": "a speaker refused, conceded, left its side, was cut off or spoofed marks",
}
"""The first that fits is the tag of a transcript."""


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One transcript: a problem under a row, in all of its worlds."""

    problem: str
    row: str
    draw: int
    asd: float | None
    truth: float | None
    """P(the right answer) where it is argued."""
    lie: float | None
    """P(the wrong answer that is argued), the highest."""
    tag: str
    links: dict[str, str | Linked]


class Transcripts:
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
        count = len(self.rows)
        self.kinds = {name: np.zeros(count, dtype=bool) for name in KINDS}
        self.there, self.ended = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        """Whether any of its worlds has an end, and all of them."""
        self.truth, self.lie = np.full(count, np.nan), np.full(count, np.nan)
        for number_, problem in enumerate(sweep.problems):
            span, at = sweep.span(number_), slice(number_ * size, (number_ + 1) * size)
            answers = len(problem.values)
            probs = completed.table.probs[span.start : span.stop, :answers].reshape(
                size, answers, answers
            )
            argued = np.diagonal(probs, axis1=1, axis2=2)
            good = np.array(problem.values) == max(problem.values)
            ended = completed.table.ended[span.start : span.stop].reshape(size, answers)
            self.there[at], self.ended[at] = ended.any(axis=1), ended.all(axis=1)
            self.truth[at] = np.fmin.reduce(argued[:, good], axis=1)
            self.lie[at] = np.fmax.reduce(argued[:, ~good], axis=1, initial=np.nan)
        with np.errstate(invalid="ignore"):
            self.kinds["liar won"] = self.lie > 0.5
            self.kinds["truth lost"] = self.truth <= 0.5
        for cell in completed.table.failed:
            self.kinds["failed"][self._of(run, cell, size)] = True
        for cell in completed.table.marked:
            self.kinds["doubt"][self._of(run, cell, size)] = True
        by_design = [row.naive or row.is_a(OPEN_TRUST) for row in sweep.rows]
        self.by_design = np.array(by_design, dtype=bool)[self.rows]
        """Those of rows in which nobody argues, or whose end nobody judges."""

    def _of(self, run: RunReader, cell: int, size: int) -> int:
        place, _ = run.where(cell)
        return place.problem * size + place.draw * len(run.sweep.rows) + place.row

    def place(self, at: int) -> Place:
        """Place of the reading with this number."""
        return Place(int(self.rows[at]), int(self.problems[at]), int(self.draws[at]))

    def tag(self, at: int) -> str:
        return next((name for name, kind in self.kinds.items() if kind[at]), "")

    def chosen(self, run: RunReader, names: tuple[str, ...], asked: Asked, fits: Flags) -> Places:
        """Numbers of the readings of `fits` that are meant, in order."""
        if asked.show:
            fits = fits & self.kinds[asked.show]
        for word_ in asked.words.lower().split():
            in_row = np.array([word_ in name.lower() for name in names])
            in_problem = np.array([word_ in problem.id.lower() for problem in run.sweep.problems])
            fits = fits & (in_row[self.rows] | in_problem[self.problems])
        found = np.flatnonzero(fits)
        if asked.order == "sweep":
            return found
        sign = -1 if asked.order == "best" else 1
        # What has no ASD comes after the others, and what ends by design last.
        return found[np.lexsort((sign * self.asd[found], self.by_design[found]))]


def transcripts_page(run: RunReader, links: Links, asked: Asked) -> str:
    """The list of all rows."""
    return _listed(run, links, asked, None)


def row_page(run: RunReader, links: Links, asked: Asked) -> str:
    """The transcripts of one row, under its figures."""
    return _listed(run, links, asked, nth(asked.row, len(run.sweep.rows), "row"))


def _listed(run: RunReader, links: Links, asked: Asked, row: int | None) -> str:
    if asked.show:
        one_of(asked.show, KINDS, "kind")
    completed = read_rows(run)
    names, every = completed.names, Transcripts(run, completed, asked.score)
    fits = every.there if row is None else every.there & (every.rows == row)
    found = every.chosen(run, names, asked, fits)
    empty = not len(found) and bool(fits.any())
    if empty:
        found = every.chosen(run, names, Asked(order=asked.order), fits)
    most, asks = links.most("transcripts"), bool(links.form("transcripts"))
    if asks:
        listed = found[asked.page * most : (asked.page + 1) * most].tolist()
    else:
        there = (at for at in found.tolist() if links.reading(every.place(at)))
        listed = list(islice(there, most))
    lines = [_line(run, links, every, names, at, row is None) for at in listed]
    columns: list[Column] = [word("problem", "problem"), word("stands out", "tag")]
    if row is None:
        columns.insert(1, word("row", "row"))
    if run.sweep.draws > 1:
        columns.append(number("draw", "draw"))
    columns += [
        change("ASD", "asd", 2),
        number("P(truth) where it is argued", "truth", ".2f"),
        number("P(lie) where it is argued", "lie", ".2f"),
    ]
    return run_page(
        "transcripts",
        run,
        links,
        title=names[row] if row is not None else f"transcripts of {run.name}",
        here="transcripts",
        row=None if row is None else run.sweep.rows[row],
        name="" if row is None else names[row],
        facts=[] if row is None else row_facts(run, row, asked.score),
        part=shown_part(Part("list", "Transcripts", columns, lines), {}),
        count=len(found) if asks else len(lines),
        all=int(fits.sum()),
        kinds=KINDS,
        counts={name: int((kind & fits).sum()) for name, kind in every.kinds.items()},
        asked=asked,
        empty=empty,
        pages=-(-len(found) // most) if asks else 1,
        page="transcripts" if row is None else "row",
    )


def _line(
    run: RunReader,
    links: Links,
    every: Transcripts,
    names: tuple[str, ...],
    at: int,
    of_all: bool,
) -> TranscriptLine:
    place = every.place(at)
    to: dict[str, str | Linked] = {"problem": links.reading(place)}
    if of_all and links.form("transcripts"):
        to["row"] = links.to("row", row=place.row)
    figures = (float(each[at]) for each in (every.asd, every.truth, every.lie))
    asd, truth, lie = (None if value != value else value for value in figures)
    id = run.sweep.problems[place.problem].id
    return TranscriptLine(id, names[place.row], place.draw, asd, truth, lie, every.tag(at), to)
