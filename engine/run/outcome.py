"""The outcome of a cell, as figures: a line of `outcomes.jsonl`, and nothing that differs between
reruns."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec.structs import asdict, astuple

from ...protocols.counts import counted, unread_by_seat
from ...protocols.transcript import NOT_RUN, Failure, Scalar, Verdict
from .record.cells import label_probability, read_failure, read_figures, read_probs
from .record.schema import VERDICT, WITHDRAWN, CellRow
from .record.tables import AT_ONCE, RunTables, damage_named
from .record.values import are_probabilities

if TYPE_CHECKING:
    # Readers of outcomes do not wait for the engine.
    from ..sweep.sweep import Cell


class OutcomeRecord(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a cell. Exactly one of `probs`, `failure` and `not_run` is there."""

    place: int
    cell: str
    protocol: str
    agent: str
    judge: str
    problem: str
    label: str
    """Label of the answer that was argued for."""
    side: int
    """Place of that answer, from 0."""
    draw: int
    probs: tuple[float, ...] | None = None
    failure: Failure | None = None
    not_run: str = ""
    """Why the design left this world out; empty for one that was run."""
    measures: Mapping[str, Scalar] = {}
    counts: Mapping[str, int] = {}
    captured: float | None = None
    """For logprob judges: the least mass that the answer labels had in any elicitation."""
    redraws: tuple[tuple[float, ...], ...] = ()
    """The verdicts of which `probs` is the mean, where the judge was asked several times."""
    bounds: tuple[tuple[float, float], ...] = ()
    """For each answer the least and the most that its probability would be, whatever the replies
    had said that could not be read; empty where all were."""
    unread: Mapping[str, int] = {}
    """How many replies of each seat were refused, cut off, empty or unreadable, as
    `Judge: truncated`; those that a selection left out are counted too."""

    sides_read: bool = False
    """Whether a checker has read its speeches since; only its counts are part of `line`."""

    @property
    def from_replies(self) -> bool:
        """Whether it follows from replies alone; a fault of the provider's leaves no reply."""
        return self.failure is None or self.failure.unread or self.failure.kind == "crash"

    @property
    def line(self) -> bytes:
        """The line of it, with its newline; equal bytes for equal outcomes."""
        fields: dict[str, Any] = dict(zip(_ABOUT, astuple(self), strict=False))
        if self.not_run:
            fields["not_run"] = self.not_run
        elif self.failure is not None:
            fields["failure"] = asdict(self.failure)
        else:
            fields["probs"] = self.probs
            for name in _FIGURES:
                value = getattr(self, name)
                if value or value == 0:
                    fields[name] = value
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


_ABOUT = ("place", "cell", "protocol", "agent", "judge", "problem", "side", "at", "draw")
"""Names of the first fields in a line, in their order."""
_FIGURES = ("measures", "counts", "captured", "redraws", "bounds", "unread")


def outcome_of(cell: "Cell", end: Verdict | Failure) -> OutcomeRecord:
    """The outcome of a cell that has just ended."""
    row, label = cell.row, cell.problem.question.answers[cell.side].label
    about = (cell.place, cell.id, row.kind, row.agent, row.judge, cell.problem.id, label)
    about_world = (*about, cell.side, cell.draw)
    if isinstance(end, Failure):
        if end.kind == NOT_RUN:
            return OutcomeRecord(*about_world, not_run=end.message)
        return OutcomeRecord(*about_world, failure=end)
    figures = (dict(end.measures), counted(end), label_probability(end), end.redraws, end.bounds)
    return OutcomeRecord(*about_world, end.probs, None, "", *figures, unread_by_seat(end))


_cell_of = attrgetter("cell")


class Outcomes:
    """The outcomes of a run, read from its database. RunFolderError for one that is damaged."""

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables
        self._rows = {
            row: (protocol, agent, judge)
            for row, protocol, agent, judge, *_ in tables.table("rows")
        }

    def all(self) -> Iterator[OutcomeRecord]:
        """Every outcome that has completed, in the order of the sweep."""
        return self._read(map(_cell_of, chain.from_iterable(self._tables.stored())))

    def at(self, places: Iterable[int]) -> dict[int, OutcomeRecord]:
        """The outcomes of these cells, so far as they have completed, by place in the sweep."""
        rows = chain.from_iterable(self._tables.stored([*places]))
        return {record.place: record for record in self._read(map(_cell_of, rows))}

    def since(self, completed: int) -> Iterator[tuple[int, OutcomeRecord]]:
        """(number, outcome) of every cell that completed after this number, in that order. 0 for
        all in the order of the sweep: the last bit of a sum depends on the order."""
        order = "completed" if completed else "place"
        query = f"SELECT place, completed FROM cells WHERE completed > ? ORDER BY {order}"
        listed = self._tables.fetched(query, completed)
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            stored = self._tables.stored([place for place, _ in some])
            cells = {
                (it.cell.place, it.cell.completed): it.cell for group in stored for it in group
            }
            # One that has been written since comes the next time.
            rows = [row for key in some if (row := cells.get(key)) and row.status != WITHDRAWN]
            yield from zip([row.completed for row in rows], self._read(rows), strict=True)

    def _read(self, rows: Iterable[CellRow]) -> Iterator[OutcomeRecord]:
        problems = self._tables.problems
        with damage_named(self._tables.file):
            for row in rows:
                if row.status == WITHDRAWN:
                    continue
                problem = problems[row.problem]
                label = problem.question.answers[row.side].label
                names = self._rows[row.row]
                about = (row.place, row.id, *names, problem.id, label, row.side, row.repeat)
                if row.status != VERDICT:
                    failure = read_failure(row)
                    reason = "" if failure else row.message or ""
                    yield OutcomeRecord(*about, failure=failure, not_run=reason)
                    continue
                probs, figures = read_probs(row.probs or ""), read_figures(row)
                for values in (probs, *figures.redraws):
                    if len(values) != len(problem.values) or not are_probabilities(values):
                        raise ValueError(f"cell {row.place}: {list(values)} are not probabilities")
                yield OutcomeRecord(*about, probs, None, "", *astuple(figures))
