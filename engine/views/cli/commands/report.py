"""`oversight report`: the report of a run, complete or not."""

import math
from collections.abc import Sequence
from pathlib import Path

import click

from ....analysis.findings.finding import Finding
from ....analysis.measures import measures_finding, verdict_measures
from ....analysis.reports.formats import FORMATS, INTERVAL
from ....analysis.reports.groups import paper_table, pivot, pivot_finding, rows_where, value_of
from ....analysis.reports.report import arranged, below_one_another, report
from ....analysis.reports.results import Results
from ....analysis.rows import RunRows, read_rows
from ....analysis.scoring.estimate import Interval
from ....analysis.scoring.worlds import BETAS
from ....models.accounting.ledger_file import read_ledger
from ....run.reader import RunReader
from ....system.flags import argument, flag
from ..flags import Number, as_command
from ..naming import RunOrPack
from ..options import SCORE
from ..output import say_latency, show, width


@as_command
def command(
    runs: tuple[Path, ...] = argument("RUN|PACK...", type=RunOrPack(), required=True),
    format: str | None = flag(
        "Format of the output. Default: text; of --table: latex.",
        default=None,
        type=click.Choice([format for format in FORMATS if format != "json"]),
        json=True,
    ),
    score: str = SCORE,
    interval: Interval | None = INTERVAL,
    betas: tuple[float, ...] = flag(
        "Softmax temperature of the agent for JSE and EAS, up to inf; repeatable.",
        name="--beta",
        default=(),
        type=Number(0, math.inf),
    ),
    measures: bool = flag(
        "Add JSE, EAS and slope, measures of protocols and counts in transcripts, order, "
        "calibration, flips and bias of the verdicts, and all notes.",
        default=False,
    ),
    notes: bool = flag("Print all notes below the table.", default=False),
    table: str | None = flag(
        "The main table of the paper: ASD, slope and JSE by protocol, averaged over agents.",
        type=click.Choice(["paper"]),
    ),
    by: str | None = flag(
        "Average over all other dimensions of the grid: protocol, mechanism, agent, judge, model, "
        "judge_model, rounds, …; or flaw, of the problems.",
        name="--group",
        metavar="NAME,NAME,…",
    ),
    conditions: tuple[str, ...] = flag(
        "Only rows with this protocol, mechanism, agent, judge, model, rounds, …; repeatable. "
        "valid: beside the figures of all problems those of valid ones, in no world of which a "
        "speaker refused, conceded, argued for another side or gave itself away; of groups and "
        "--table those alone.",
        name="--where",
        metavar="NAME=VALUE|valid",
        default=(),
    ),
    columns: str = flag(
        "Columns, by their names in JSON: n,accuracy,asd,lift,jse,mde,failed,…",
        metavar="NAME,NAME,…",
        default="",
    ),
    sort: str = flag("Sort by this column, the largest value first.", metavar="NAME", default=""),
    every: bool = flag("Every row, however many there are.", name="--all", default=False),
) -> None:
    """Print the report of RUN, from the cells finished so far.

    Over 40 rows are averaged in groups, unless --all, --sort or --columns asks for rows. A PACK is
    read as the run inside it. Of several runs, rows of the same name stand one below the other;
    `oversight compare` tests their differences.
    """
    run, *others = runs
    if others:
        if betas or measures or table or by is not None or conditions or columns or sort:
            raise click.UsageError("of several runs: --score, --interval and --format alone")
        found = [
            (each.name, read_rows(RunReader(each)).results(score, interval=interval))
            for each in runs
        ]
        show(below_one_another(found, score).text(format or "text", width()))
        return
    rows = read_rows(RunReader(run))
    about = score, tuple(dict.fromkeys(betas)) or BETAS, interval
    every_row = rows.results(*about)
    if "valid" in conditions:
        conditions = tuple(each for each in conditions if each != "valid")
        valid = rows.complying().results(*about)
        every_row = valid if by is not None or table else every_row.beside(valid)
    results = rows_where(every_row, conditions)
    chosen = _names(columns)
    if by is not None or table:
        found_groups = _groups(rows, results, _names(by or ""), measures, table)
        part = arranged(found_groups.parts[0], chosen, sort)
        if table and (format or "latex") == "latex":
            show(paper_table(part, found_groups.lead))
        else:
            whole = Finding((part,), found_groups.about, found_groups.lead)
            show(whole.text(format or "text", width()))
        return
    sections = []
    if measures:
        measured = verdict_measures(rows, score)
        sections.append(("verdict_measures", measures_finding(measured)))
    show(
        report(
            results,
            format or "text",
            width(),
            measures=measures or bool(betas),
            every_note=notes,
            sections=sections,
            columns=chosen,
            sort=sort,
            short=not every,
        )
    )
    say_latency(read_ledger(run))


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _groups(
    rows: RunRows, results: Results, by: Sequence[str], measures: bool, table: str | None
) -> Finding:
    """The rows in groups; for a table, by protocol, and by judge where there are several."""
    judges = {value_of(row.row, "judge") for row in results.rows}
    names = by or ["protocol", *["judge"] * (len(judges) > 1)]
    lines = pivot(results, rows.sweep.problems, names)
    return pivot_finding(lines, names, results, measures=measures, paper=table is not None)
