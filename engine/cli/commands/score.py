"""`oversight score`: scores of verdicts from people or other tools."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import click

from ....protocols.scores import Compat
from ....protocols.scoring.bounds import Bounds
from ....protocols.scoring.statistics import Estimate
from ....protocols.scoring.worlds import BETAS, beta_name
from ...display.table import formatted
from ...reports.results import Results, RowResult
from ...reports.scored import failed, results_by_score
from ...reports.scored_tables import scored_tables
from ...reports.verdicts import Verdicts, read_verdicts
from ..options import json_option
from ..output import show, show_json, width


def _with_the_usual(
    ctx: click.Context, param: click.Parameter, betas: Sequence[float]
) -> tuple[float, ...]:
    for beta in betas:
        if not beta >= 0:
            raise click.BadParameter(f"{beta} is not between 0 and inf")
    return tuple(sorted({*BETAS, *betas}))


@click.command()
@click.argument("verdicts", type=click.File("rb"))
@json_option
@click.option(
    "--compat",
    type=click.Choice(["none", "solib"]),
    default="none",
    show_default=False,
    help="Score as SOlib does: ASD is not centred, none of the answers that tie counts as "
    "accurate, and a greedy agent argues for each with weight 1.",
)
@click.option(
    "--beta",
    "betas",
    type=float,
    multiple=True,
    callback=_with_the_usual,
    help="Inverse greed of the agent to report beside 0, 1 and inf; repeatable.",
)
def command(verdicts: BinaryIO, as_json: bool, compat: Compat, betas: tuple[float, ...]) -> None:
    """Score VERDICTS: a file of JSON Lines, or - for standard input.

    A line is a question: the value of each answer, and the verdict in each world. A world is named
    by the answer that the agent argues for in it. It is null where there is no verdict; such a
    question is left out of the means, and what that could hide is shown as bounds of the ASD.

    \b
      {"id": "q1", "values": {"A": 1, "B": -1},
       "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}}

    Questions with the same "group" (a shared source text) are resampled together. std is over
    questions, of the population, as in SOlib. Log odds are for questions of two answers only.
    """
    questions = read_verdicts(verdicts, verdicts.name)
    by_score = results_by_score(verdicts.name, questions, betas, compat)
    lost = failed(questions)
    if as_json:
        show_json(_plain(questions, by_score, lost))
        return
    tables = scored_tables(by_score, len(questions), len(lost), compat)
    show(formatted(tables, "text", width()))


def _plain(
    questions: Sequence[Verdicts], by_score: Mapping[str, Results], lost: Sequence[Verdicts]
) -> dict[str, Any]:
    """Questions, means, std, intervals; and, only where a world has no verdict, `failures`."""
    rows = {name: results.rows[0] for name, results in by_score.items()}
    each = {name: _by_question(results) for name, results in by_score.items()}
    plain: dict[str, Any] = {
        "questions": [
            {"id": one.id, **{name: of.get(str(one.id)) for name, of in each.items()}}
            for one in questions
        ],
        "mean": {name: _of_row(row, lambda figure: figure.mean) for name, row in rows.items()},
        "std": {name: _of_row(row, lambda figure: figure.std) for name, row in rows.items()},
        "interval": {name: _of_row(row, _ends) for name, row in rows.items()},
        "method": next(
            (row.asd.method for row in rows.values() if row.asd and row.asd.method), None
        ),
    }
    if lost:
        plain["failures"] = {
            "n": len(lost),
            "ids": [verdicts.id for verdicts in lost],
            "asd": {name: _bounds(row.bounds) for name, row in rows.items()},
        }
    return plain


def _bounds(bounds: Bounds | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    # A world that failed has no verdict to keep, so `keep` would equal `drop`.
    return {"drop": bounds.drop, "worst": bounds.worst, "best": bounds.best}


def _by_question(results: Results) -> dict[str, Any]:
    """The measures of each question that has them, by its id."""
    (samples,) = results.samples
    if samples is None:
        return {}
    columns = [sample.values for sample in (samples.asd, *samples.jse, *samples.eas)]
    betas, count = results.betas, len(results.betas)
    return {
        id: _shaped(
            asd,
            zip(betas, chosen[:count], strict=True),
            zip(betas, chosen[count:], strict=True),
        )
        for id, asd, *chosen in zip(samples.asd.questions, *columns, strict=True)
    }


def _ends(figure: Estimate) -> list[float] | None:
    return list(figure.interval) if figure.interval else None


def _of_row(row: RowResult, figure: Callable[[Estimate], Any]) -> dict[str, Any] | None:
    """One figure of every estimate of a row; None where no question has the score."""
    if row.asd is None:
        return None
    jse, eas = (((beta, figure(of)) for beta, of in by.items()) for by in (row.jse, row.eas))
    return _shaped(figure(row.asd), jse, eas)


def _shaped(
    asd: Any, jse: Iterable[tuple[float, Any]], eas: Iterable[tuple[float, Any]]
) -> dict[str, Any]:
    return {
        "asd": asd,
        "jse": {beta_name(beta): value for beta, value in jse},
        "eas": {beta_name(beta): value for beta, value in eas},
    }
