"""Judgements of studies, and `oversight measure judgements`: scores of judgements."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import click

from ....protocols.datasets.study import JudgementRow, StudyData, answer_digest, read_study
from ....protocols.errors import DatasetError
from ....protocols.question import LABELS
from ....protocols.scores import ALL_SCORES, SCORES, Compat
from ...analysis.findings.finding import Finding
from ...analysis.judged import score_finding, where
from ...analysis.raters import trajectory_part
from ...analysis.reading import ASIDE, STDIN, TOLD_APART, JudgementSource, read_judgements
from ...analysis.reports.formats import CLUSTER, COLUMNS, ERROR, INTERVAL
from ...analysis.scoring.asd import BETAS
from ...analysis.scoring.estimate import Interval
from ...analysis.scoring.inference import ErrorKind
from ...analysis.scoring.judgements import Judgement
from ...errors import UsageError
from ...system.settings import argument, flag
from ...views.cli.flags import FORMAT, Number, as_command
from ...views.cli.output import show, width

INFO = "study.json"


class StudyJudgements(JudgementSource):
    """The judgements of a study folder, on conversations that its own figures count.

    Judgements that these figures leave out are aside, under their mode."""

    def holds(self, path: Path) -> bool:
        return (path / INFO).is_file()

    def judgements(self, path: Path) -> Iterator[Judgement]:
        try:
            data = read_study(path)
        except DatasetError as exc:
            raise UsageError(str(exc)) from exc
        for line, row in enumerate(data.judgements, 1):
            if data.conversations[row.conversation].included:
                yield _judgement(data, row, line)


def _judgement(data: StudyData, row: JudgementRow, line: int) -> Judgement:
    """A judgement with its probabilities in the order of the problem's answers. A world that the
    design did not fill was not run."""
    conversation = data.conversations[row.conversation]
    problem, argued = data.problems[conversation.problem], conversation.argued
    group = problem.group or conversation.source
    answers = problem.question.answers
    at = [conversation.order.index(answer_digest(answer.text)) for answer in answers]
    beliefs = tuple((b.round, tuple(b.probs[n] for n in at)) for b in row.beliefs)
    verdict, (first_round, first) = beliefs[-1][1], beliefs[0]
    worlds = tuple(verdict if argued in (None, LABELS[n]) else () for n in at)
    people = [name for seat, name in sorted(conversation.speakers.items()) if seat != "Judge"]
    keys = {
        "judge": row.judge,
        "setting": conversation.setting,
        "mode": row.mode,
        "repeat": conversation.id,
        "labels": json.dumps([answer.label for answer in answers]),
        "order": " ".join(str(at.index(n)) for n in range(len(at))),
        **({"speaker": " & ".join(people)} if people else {}),
        **({"group": group} if group else {}),
        **({} if row.included else {ASIDE: row.mode}),
    }
    before = first if first_round == 0 else None
    everywhere = argued is None
    return Judgement(problem.id, problem.values, worlds, keys, before, everywhere, line, beliefs)


STUDIES = StudyJudgements()


@as_command
def command(
    verdicts: Path = argument(type=click.Path(path_type=Path, allow_dash=True)),
    by: str = flag("Key that separates rows.", default="setting", type=click.Choice(TOLD_APART)),
    ways: tuple[str, ...] = CLUSTER,
    conditions: tuple[str, ...] = flag(
        "Lines to keep.", name="--where", default=(), metavar="KEY=VALUE"
    ),
    columns: dict[str, str] = COLUMNS,
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
        "Softmax temperature of the agent to report, in addition to 0, 1 and inf; repeatable.",
        name="--beta",
        default=(),
        type=Number(0, math.inf),
    ),
    format: str = FORMAT,
) -> None:
    """Score VERDICTS: a judgement table, a study's folder, a run that people judged, or -.

    A table is JSON Lines, CSV, TSV or Parquet; - reads JSON Lines from standard input. A line is a
    judgement: the value of each answer, and the verdict in each world. A world has the name of the
    answer that is argued in it. It is null without a verdict, and bounds of the ASD show the effect
    of missing verdicts; a world that is left out was not run. If every answer was argued, "verdict"
    replaces "worlds".

    \b
      {"id": "q1", "values": {"A": 1, "B": -1},
       "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}}

    A spreadsheet has a line per verdict: question, world (right, wrong or all) and p_right, the
    probability of the right answer. --column p_right=confidence names another column.

    A question may have several lines that differ in "judge", "speaker", "setting", "mode" or
    "repeat". Questions with the same "group" (a shared source text) depend on each other. "first"
    is the belief before anything was said. Log odds need two answers.
    """
    aside = any(condition.startswith("mode=") for condition in conditions)
    judgements = where(read_judgements(verdicts, columns=columns, aside=aside), conditions)
    scores_of = score_finding(
        "<stdin>" if verdicts == STDIN else str(verdicts),
        judgements,
        betas=tuple(sorted({*BETAS, *betas})),
        compat=compat,
        by=by,
        ways=ways,
        scores=scores or tuple(SCORES),
        error=error,
        interval=interval or "t",
    )
    parts = (*scores_of.parts, trajectory_part(judgements))
    show(Finding(parts, scores_of.about, scores_of.lead).text(format, width()))
