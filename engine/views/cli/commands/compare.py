"""`oversight compare`: differences between rows, with intervals and p-values."""

from pathlib import Path

from ....analysis.compared import comparison_finding
from ....analysis.comparison import Compare, compare_rows, compare_tables
from ....analysis.reading import is_table
from ....analysis.scores import is_scores
from ....errors import UsageError
from ....system.settings import argument, flag
from ..flags import FORMAT, SCORE, as_command
from ..naming import rows_of, run_named
from ..output import show, width


@as_command
def command(
    one: str = argument("RUN"),
    other: str | None = argument("[RUN2]"),
    *,
    how: Compare,
    score: str = SCORE,
    every: bool = flag("All contrasts.", name="--all", default=False),
    format: str = FORMAT,
) -> None:
    """Compare the rows of RUN, or the rows that RUN and RUN2 have in common.

    Within one run, each row is compared with the naive judge row of its judge, unless --baseline,
    --pairs or --contrast says otherwise. Name a row as the report does, or by parts of its name:
    `debate`, `debate strong`. Where A and B fit several rows each, rows with the same agent and
    judge are compared. For two runs, differences are the first minus the second. Nothing is sent.

    Intervals are by cluster-robust t. A note names verdicts that one rare error could undo; with
    --interval conservative, intervals allow for such errors. docs/statistics.md has the coverage.

    RUN, and RUN2, may be studies, or judgement tables, as `oversight measure judgements` reads
    them: then settings are compared, paired where they judged the same questions. Or they are score
    files or folders of them, as `oversight measure scores` reads them: logs of Inspect, samples of
    lm-eval, or tables. Rows of one task are compared, paired sample by sample.

    Exit codes: 0 compared, 2 a flag or a run is wrong."""
    if is_table(Path(one)) or is_scores(Path(one), dict(how.columns)):
        files = [Path(word) for word in (one, other) if word]
        tables = comparison_finding(compare_tables(files, how, score), short=not every)
        show(tables.text(format, width()))
        return
    if how.metric or how.filter or how.columns:
        raise UsageError("--metric, --filter and --column are for files, and this is a run")
    first = rows_of(run_named(one))
    second = rows_of(run_named(other)) if other is not None else None
    comparison = compare_rows(first, second, how, score)
    finding = comparison_finding(comparison, short=not every, flips=how.flips)
    show(finding.text(format, width()))
