"""The report of a run as an analysis: its rows, or groups of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import annotated_types

from ..system.settings import flag
from .catalogue import Analysis
from .findings.finding import Finding
from .measures import measures_finding, verdict_measures
from .reports.formats import INTERVAL, listed
from .reports.groups import pivot, pivot_finding, rows_where, value_of
from .reports.paper import groups_table
from .reports.report import arranged, finding
from .rows import RunRows
from .scoring.asd import BETAS
from .scoring.estimate import Interval

VALID = "valid"
"""The condition that is of worlds, not of rows."""


@dataclass(frozen=True, slots=True)
class Report(Analysis):
    """Print the report of RUN, from the cells finished so far."""

    interval: Interval | None = INTERVAL
    betas: tuple[float, ...] = flag(
        "Softmax temperature of the agent for JSE and EAS, up to inf; repeatable.",
        name="--beta",
        default=(),
        within=annotated_types.Interval(ge=0, le=math.inf),
    )
    measures: bool = flag(
        "Add JSE, EAS and slope, measures of protocols and counts in transcripts, order, "
        "calibration, flips and bias of the verdicts, and all notes.",
        default=False,
    )
    notes: bool = flag("Print all notes below the table.", default=False)
    table: Literal["paper"] | None = flag(
        "The main table of the paper: ASD, slope and JSE by protocol, averaged over agents."
    )
    by: tuple[str, ...] = flag(
        "Average over all other dimensions of the grid: protocol, mechanism, agent, judge, model, "
        "judge_model, rounds, ….",
        name="--group",
        default="",
        metavar="NAME,NAME,…",
        read=listed,
    )
    conditions: tuple[str, ...] = flag(
        "Only rows with this protocol, mechanism, agent, judge, model, rounds, …; repeatable. "
        "valid: adds figures over valid problems only, without a world in which a speaker "
        "refused, conceded, argued for another side or gave itself away; groups and --table show "
        "only these.",
        name="--where",
        metavar="NAME=VALUE|valid",
        default=(),
    )
    columns: tuple[str, ...] = flag(
        "Columns, by their names in JSON: n,accuracy,asd,lift,jse,mde,failed,…",
        metavar="NAME,NAME,…",
        default="",
        read=listed,
    )
    sort: str = flag("Sort by this column, the largest value first.", metavar="NAME", default="")
    every: bool = flag("All rows.", name="--all", default=False)

    def sourced(self, run: RunRows, score: str) -> Finding:
        """As `of_run`, whose lead names the sources."""
        return self.of_run(run, range(len(run.names)), score)

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        about = score, tuple(dict.fromkeys(self.betas)) or BETAS, self.interval
        every = run.results(*about)
        if VALID in self.conditions:
            valid = run.complying().results(*about)
            every = valid if self.by or self.table else every.beside(valid)
        results = rows_where(every, [text for text in self.conditions if text != VALID], rows)
        if self.by or self.table:
            judges = {value_of(row.row, "judge") for row in results.rows}
            by = self.by or ("protocol", *["judge"] * (len(judges) > 1))
            lines = pivot(results, by)
            averages = pivot_finding(
                lines, by, results, measures=self.measures, paper=self.table is not None
            )
            part = arranged(averages.parts[0], self.columns, self.sort)
            if not self.columns:
                paper = self.table is not None
                part = replace(part, latex=partial(groups_table, results, part.lines, by, paper))
            return replace(averages, parts=(part,))
        measured = verdict_measures(run, score, self.interval) if self.measures else ()
        return finding(
            results,
            measures=self.measures or bool(self.betas),
            sections=[("verdict_measures", measures_finding(measured))] * self.measures,
            columns=self.columns,
            sort=self.sort,
            short=not self.every,
            every_note=self.notes,
        )
