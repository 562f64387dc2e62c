"""`oversight compare`: differences between rows, with intervals and p-values."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from ....analysis.comparison import (
    Compare,
    Comparison,
    compare_rows,
    compare_tables,
    comparison_finding,
    differences_meant,
)
from ....analysis.judged import is_table
from ....analysis.pairs import Condition, read_condition
from ....analysis.rows import RunRows, read_rows
from ....system.flags import argument, flag
from ..exit_codes import ExitCode
from ..flags import as_command
from ..naming import run_named
from ..options import FORMAT, SCORE
from ..output import say, show, width


@as_command
def command(
    one: str = argument("RUN"),
    other: str | None = argument("[RUN2]"),
    *,
    how: Compare,
    score: str = SCORE,
    conditions: tuple[str, ...] = flag(
        "Exit with code 6 if this holds, e.g. 'debate - consultancy < 0.05'; repeatable.",
        name="--fail-if",
        default=(),
        metavar="CONDITION",
    ),
    every: bool = flag("Every contrast, however many there are.", name="--all", default=False),
    format: str = FORMAT,
) -> None:
    """Compare the rows of RUN, or the rows that RUN and RUN2 have in common.

    Within one run, each row is compared with the naive judge row of its judge, unless --baseline,
    --pairs, --contrast or --fail-if says otherwise. Name a row as the report does, or by parts of
    its name: `debate`, `debate strong`. Where A and B fit several rows each, rows with the same
    agent and judge are compared. Of two runs, differences are the first less the second. Nothing
    is sent.

    Intervals are by cluster-robust t. Where one problem in fifty is an error of four points among
    small differences, they cover .82 at 30 problems and .90 at 100, not .95; † marks what such
    errors could undo, and --interval guarded allows for them.

    RUN, and RUN2, may be studies, or judgement tables (.jsonl), as `oversight measure judgements`
    reads them: then settings are compared, paired where they judged the same questions.

    --fail-if compares the difference of the means with a number; where its names fit several
    contrasts, it is enough that it holds for one of them.

    Exit codes: 0 compared, 2 a flag or a run is wrong, 6 a condition of --fail-if holds.
    """
    asked = [read_condition(text) for text in conditions]
    if is_table(Path(one)):
        if asked:
            raise click.UsageError("--fail-if is of runs")
        files = [Path(each) for each in (one, other) if each]
        tables = comparison_finding(compare_tables(files, how, score), short=not every)
        show(tables.text(format, width()))
        return
    words = (*how.contrasts, *(f"{each.first} - {each.second}" for each in asked))
    first = read_rows(run_named(one))
    second = read_rows(run_named(other)) if other is not None else None
    comparison = compare_rows(first, second, replace(how, contrasts=words), score)
    show(comparison_finding(comparison, short=not every).text(format, width()))
    met = [line for each in asked for line in _met(each, comparison, first, second)]
    for line in met:
        say(line)
    if met:
        raise SystemExit(ExitCode.HOLDS)


def _met(
    condition: Condition, comparison: Comparison, first: RunRows, second: RunRows | None
) -> Iterator[str]:
    """One line for each contrast that meets the condition."""
    differences = differences_meant(comparison, condition.first, condition.second, first, second)
    for contrast, difference in differences:
        if condition.holds(difference):
            yield (
                f"--fail-if {condition}: holds, {difference:+.4f} for {contrast.first} and "
                f"{contrast.second}"
            )
