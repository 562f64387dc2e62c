"""`oversight report`: the report of a run, complete or not."""

from pathlib import Path

import click

from ....analysis.reporting import Report
from ....analysis.reports.formats import FORMATS
from ....analysis.reports.report import below_one_another
from ....run.listing import UNREADABLE
from ....system.settings import argument, flag
from ..exit_codes import ExitCode
from ..flags import SCORE, as_command
from ..naming import RunOrPack, rows_of
from ..output import say, show, width


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
    *,
    how: Report,
) -> None:
    """Print the report of RUN, from the cells finished so far.

    Over 40 rows are averaged in groups, unless --all, --sort or --columns asks for rows. A PACK is
    read as the run inside it. Rows of several runs with one name stand one below the other;
    `oversight compare` tests their differences. Exit code 1 if some of them cannot be read."""
    format = format or ("latex" if how.table else "text")
    run, *others = runs
    if not others:
        show(how.sourced(rows_of(run), score).text(format, width()))
        return
    if how != Report(how.interval, by=(), columns=()):
        raise click.UsageError("several runs take --score, --interval and --format alone")
    apart = len({opened.name for opened in runs}) == len(runs)
    readable = []
    for opened in runs:
        try:
            results = rows_of(opened).results(score, interval=how.interval)
            readable.append((opened.name if apart else str(opened), results))
        except UNREADABLE as fault:
            say(str(fault))
    if not readable:
        raise SystemExit(ExitCode.USAGE)
    show(below_one_another(readable, score).text(format, width()))
    if len(readable) < len(runs):
        raise SystemExit(ExitCode.FAILED)
