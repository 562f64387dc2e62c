"""What a report says with --measures: JSE and EAS, choices, slopes, and what was measured."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from ..findings.finding import (
    Column,
    Part,
    column,
    estimated,
    figure,
    number,
    people,
    shared,
    word,
)
from ..scoring.asd import BETAS, beta_name
from ..scoring.contrasts import Configuration, Slope, trend
from .results import Mean, Results, RowResult


def measured_parts(results: Results, names: Sequence[Column]) -> list[Part]:
    """The parts, each of which is left out where no row has anything to say in it."""
    return [
        *_chosen(results, names),
        *_choices(results, names),
        *_trend(results),
        _measures(results, names),
    ]


def _chosen(results: Results, names: Sequence[Column]) -> Iterable[Part]:
    """JSE and EAS."""
    betas = (1.0,) if results.betas == BETAS else results.betas
    rows = [row for row in results.rows if row.jse]
    note = (
        "JSE, EAS: expected scores of judge and agent if the agent picks its side by a softmax of "
        "its log score, of temperature β."
    )
    if rows:
        columns = [
            *names,
            *(
                people(f"{name.upper()} β={beta_name(beta)}", partial(_of_beta, name, beta))
                for name, beta in product(("jse", "eas"), betas)
            ),
        ]
        yield Part("", "the agent picks its own side", columns, rows, (note,))


def _of_beta(name: str, beta: float, row: RowResult) -> str:
    return estimated(row.at(name, beta), 2)


def _choices(results: Results, names: Sequence[Column]) -> Iterable[Part]:
    """Open protocols, split by what the agent chose."""
    rows = [row for row in results.rows if row.by_choice]
    columns = [
        *names,
        column("chose right", "chose_right", shared),
        number("agent right", "by_choice.judge_right.n"),
        column("judge right too", "by_choice.judge_right", shared),
        number("agent wrong", "by_choice.judge_wrong.n"),
        column("judge wrong too", "by_choice.judge_wrong", shared),
    ]
    if rows:
        title = "open protocols: judge accuracy by whether the agent chose a right answer"
        notes = ("agent right, agent wrong: problems.",)
        yield Part("", title, columns, rows, notes, other_figures=True)


class _Measured(NamedTuple):
    """A measure of one row."""

    row: RowResult
    name: str
    mean: Mean


def _measures(results: Results, names: Sequence[Column]) -> Part:
    """What was measured and counted beside the scores, by what the agent argued for."""
    lines = []
    for row in results.rows:
        means = dict(row.measures)
        means |= {f"{name} a world": mean for name, mean in row.counts_a_world.items()}
        means |= {"label mass": row.captured} if row.captured else {}
        lines += [_Measured(row, name, mean) for name, mean in means.items()]
    columns: list[Column] = [
        people(each.head, partial(_of_row, each), words=True) for each in names if each.cell
    ]
    columns.append(word("measure", "name"))
    for head, half in (("the truth", "truth"), ("a lie", "lie")):
        columns.append(number("n", f"mean.{half}.n"))
        # They may be of anything, such as a number of steps: no sign.
        columns.append(figure(head, f"mean.{half}", 2, sign=False))
    title = "measures: means by what the agent argued for"
    return Part("", title, columns, lines, ("n: problems. Brackets: 95% CI over problems.",))


def _of_row(named: Column, line: _Measured) -> str:
    assert named.cell
    return named.cell(line.row)


class Trend(NamedTuple):
    """The slope of ASD on EAS over the agents of one protocol and judge."""

    protocol: str
    judge: str
    agents: Sequence[Configuration]
    whole: Slope


def trends(results: Results) -> list[Trend]:
    """The trend of every protocol and judge with three agents or more."""
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for row in results.rows:
        its = row.samples
        if row.agent and its.asd and its.eas:
            point = Configuration(row.agent, its.eas[results.betas.index(results.beta)], its.asd)
            lines.setdefault((row.protocol, row.judge), []).append(point)
    return [Trend(*names, its, whole) for names, its in lines.items() if (whole := trend(its))]


def _trend(results: Results) -> Iterable[Part]:
    if found := trends(results):
        yield Part(
            "",
            f"slope of ASD on EAS (β={beta_name(results.beta)}) over agents",
            [
                word("protocol", "protocol"),
                word("judge", "judge"),
                number("agents", "whole.n"),
                figure("slope", "whole.estimate", 2),
            ],
            found,
            ("Both axes come from the same verdicts: a slope there is no evidence by itself.",),
        )
