"""`oversight measure judgements`: scores of judgements from people or other tools."""

import math
import sys
from pathlib import Path

import click

from .....protocols.scores import ALL_SCORES, SCORES, Compat
from ....analysis.findings.finding import Finding
from ....analysis.judged import lines_of, score_finding, where
from ....analysis.reports.formats import CLUSTER, ERROR, INTERVAL
from ....analysis.reports.verdicts import TOLD_APART, read_verdicts
from ....analysis.scoring.estimate import Interval
from ....analysis.scoring.inference import ErrorKind
from ....analysis.scoring.judgements import Judgements
from ....analysis.scoring.worlds import BETAS
from ....system.flags import argument, flag
from ....views.cli.flags import Number, as_command
from ....views.cli.options import FORMAT
from ....views.cli.output import show, width
from ..scoring import as_lines, is_study, study_judged, trajectory_part


@as_command
def command(
    verdicts: Path = argument(type=click.Path(path_type=Path, allow_dash=True)),
    by: str = flag("Key that separates rows.", default="setting", type=click.Choice(TOLD_APART)),
    ways: tuple[str, ...] = CLUSTER,
    conditions: tuple[str, ...] = flag(
        "Lines to keep.", name="--where", default=(), metavar="KEY=VALUE"
    ),
    scores: tuple[str, ...] = flag(
        "Scoring rule of the verdicts.",
        name="--score",
        default=(),
        type=click.Choice(list(ALL_SCORES)),
    ),
    error: ErrorKind = ERROR,
    interval: Interval | None = INTERVAL,
    compat: Compat = flag(
        "Score as SOlib does: ASD is not centred, none of the answers that tie counts as "
        "accurate, and a greedy agent argues for each with weight 1.",
        default="none",
    ),
    betas: tuple[float, ...] = flag(
        "Softmax temperature of the agent to report beside 0, 1 and inf; repeatable.",
        name="--beta",
        default=(),
        type=Number(0, math.inf),
    ),
    format: str = FORMAT,
) -> None:
    """Score VERDICTS: a study's folder, a file of JSON Lines, or - for standard input.

    A line is a judgement: the value of each answer, and the verdict in each world. A world is named
    by the answer that the agent argues for in it. It is null where there is no verdict, and what
    that could hide is shown as bounds of the ASD; a world that is left out was not run. Where every
    answer was argued, "verdict" takes the place of "worlds".

    \b
      {"id": "q1", "values": {"A": 1, "B": -1},
       "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}}

    A question may be judged in several lines that differ in "judge", "speaker", "setting" or
    "draw". Questions with the same "group" (a shared source text) depend on each other. "first" is
    what the judge believed before anything was said. Log odds are for two answers only.
    """
    name = "<stdin>" if str(verdicts) == "-" else str(verdicts)
    judged = study_judged(verdicts, conditions) if is_study(verdicts) else []
    if judged:
        lines = Judgements.of(as_lines(judged))
    elif name == "<stdin>":
        lines = read_verdicts(sys.stdin.buffer, name)
    else:
        lines = lines_of(verdicts)
    kept = where(lines, conditions)
    found = score_finding(
        name,
        kept,
        betas=tuple(sorted({*BETAS, *betas})),
        compat=compat,
        by=by,
        ways=ways,
        scores=scores or tuple(SCORES),
        error=error,
        interval=interval or "t",
    )
    if judged:
        rounds = trajectory_part([judged[n - 1] for n in kept.line.tolist()])
        found = Finding((*found.parts, rounds), found.about, found.lead)
    show(found.text(format, width()))
