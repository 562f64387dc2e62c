"""Averages over the rows of a grid: by protocol, agent, judge or a setting, over all the others.

By protocol and judge, over agents, this is Table 1 of Sudhir, Kaunismaa and Panickssery (2025,
arXiv:2504.03731). Also the parts of a report with --measures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from operator import attrgetter
from typing import NamedTuple

from ....protocols.settings import unknown
from ...display.table import NONE
from ...display.text import counted
from ...errors import UsageError
from ...sweep.grid import GridRow
from ..findings.finding import (
    Column,
    Finding,
    Part,
    column,
    estimated,
    figure,
    number,
    people,
    program,
    shared,
    word,
)
from ..pairs import has_words, read_pair
from ..scoring.asd import BETAS, beta_name
from ..scoring.contrasts import Configuration, Contrast, Slope, agreement, family, trend
from ..scoring.estimate import PARTS, Estimate
from ..scoring.inference import Influences, averaged
from .family import MARK, Verdicts, lifted, mark, rare_errors
from .results import Decision, Mean, Results, RowResult


def measured_parts(results: Results, names: Sequence[Column]) -> list[Part]:
    """The parts; a part without any figure is left out."""
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
    """Open protocols, split by the agent's choice."""
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
    row: RowResult
    name: str
    mean: Mean


def _measures(results: Results, names: Sequence[Column]) -> Part:
    """Measures and counts other than scores, by the answer that the agent argued for."""
    lines = []
    for row in results.rows:
        means = dict(row.measures)
        means |= {f"{name} a world": mean for name, mean in row.counts_a_world.items()}
        means |= {"label mass": row.captured} if row.captured else {}
        lines += [_Measured(row, name, mean) for name, mean in means.items()]
    columns: list[Column] = [
        people(column.head, partial(_of_row, column), words=True) for column in names if column.cell
    ]
    columns.append(word("measure", "name"))
    for head, half in (("the truth", "truth"), ("a lie", "lie")):
        columns.append(number("n", f"mean.{half}.n"))
        # They may be of anything, such as a number of steps: no sign.
        columns.append(figure(head, f"mean.{half}", 2, sign=False))
    title = "measures: means by what the agent argued for"
    return Part("", title, columns, lines, ("n: problems. Brackets: 95% CI over problems.",))


def _of_row(column: Column, line: _Measured) -> str:
    assert column.cell
    return column.cell(line.row)


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
        part = row.samples
        if row.agent and part.asd and part.eas:
            point = Configuration(row.agent, part.eas[results.betas.index(results.beta)], part.asd)
            lines.setdefault((row.protocol, row.judge), []).append(point)
    return [Trend(*key, points, slope) for key, points in lines.items() if (slope := trend(points))]


def _trend(results: Results) -> Iterable[Part]:
    if every := trends(results):
        yield Part(
            "",
            f"slope of ASD on EAS (β={beta_name(results.beta)}) over agents",
            [
                word("protocol", "protocol"),
                word("judge", "judge"),
                number("agents", "whole.n"),
                figure("slope", "whole.estimate", 2),
            ],
            every,
            ("Both axes come from the same verdicts: a slope there is no evidence by itself.",),
        )


NAMES = ("protocol", "mechanism", "agent", "judge")

FULL = {"protocol": "kind", "agent": "agent", "judge": "judge"}
"""By dimension, the attribute of a row with its full name."""

AXES = ("model", "judge_model", "rounds", "simultaneous", "best_of", "temperature", "seed")
"""Settings of `GridRow.axes` by which rows may be grouped."""

DIMENSIONS = (*NAMES, *AXES)

MOST_GROUPS = 12

GROUPINGS = (("protocol",), ("mechanism",))


@dataclass(frozen=True, slots=True)
class PivotLine:
    """A group of rows that count equally on every problem."""

    group: tuple[str, ...]
    """The value of each dimension that these rows share."""
    rows: tuple[int, ...]
    size: int
    """Rows that were measured."""
    naive: bool
    accuracy: Estimate | None
    asd: Estimate | None
    lift: Estimate | None
    """Mean over the rows that have a naive judge; None for naive judges."""
    contrast: Contrast | None
    """The lift, decided within the family of all groups."""
    jse: Estimate | None
    """At the softmax temperature `Results.beta`."""
    slope: Slope | None
    """Of ASD over EAS, over agents; None for fewer than three, or for several rows of one agent."""

    @property
    def n(self) -> int:
        return self.asd.n if self.asd else 0

    @property
    def unmeasured(self) -> str:
        """Reason for a missing figure; empty with one."""
        return "" if self.asd or self.accuracy else counted(len(self.rows), "row")

    @property
    def verdict(self) -> Decision | None:
        if self.unmeasured:
            return "not measured"
        return self.contrast.verdict if self.contrast else None


def dimensions(rows: Sequence[GridRow]) -> list[str]:
    """Names and settings in which the rows of a grid differ."""
    return [name for name in DIMENSIONS if len({value_of(row, name) for row in rows}) > 1]


def pivot(results: Results, by: Sequence[str]) -> list[PivotLine]:
    """Means of the measures for each combination of the dimensions `by`: naive judges, then the
    rest, the largest ASD first. A mean is over the problems that all rows of the group have; its
    interval is over problems, as of every row. UsageError for no dimension."""
    for name in by:
        if name not in DIMENSIONS:
            raise UsageError(unknown("dimension of rows", name, DIMENSIONS))
    groups: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    for n, row in enumerate(results.rows):
        key = not row.row.naive, tuple(value_of(row.row, name) for name in by)
        groups.setdefault(key, []).append(n)
    lines, lifts = list[PivotLine](), dict[int, tuple[Influences, Estimate]]()
    for n, ((spoken, group), members) in enumerate(groups.items()):
        first, *others = group
        if not spoken and not {"protocol", "mechanism"} & set(by):
            first = f"{first} (naive judge)" if first else "naive judge"
        lines.append(line := _line(results, (first, *others), members))
        lift = _mean(results.rows[n].samples.lift for n in members)
        if lift and line.lift and line.lift.clusters > 1:
            lifts[n] = lift, line.lift
    titles = [(", ".join(lines[n].group), "naive judge") for n in lifts]
    apart, figures = [lift for lift, _ in lifts.values()], [lift for _, lift in lifts.values()]
    for n, contrast in zip(lifts, family(titles, agreement(apart), figures), strict=True):
        lines[n] = replace(lines[n], contrast=contrast, lift=contrast.estimate)
    lines.sort(key=lambda line: (not line.naive, -(line.asd.value if line.asd else -99.0)))
    return lines


def group_pairs(
    rows: Sequence[GridRow], by: str, baseline: str | None, texts: Sequence[str]
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """By pair of groups, the pairs of their rows that have the other names in common; a row without
    an agent pairs with any. By default of all groups, or of each with the baseline. UsageError for
    an unknown group, and if no two groups have such rows."""
    groups: dict[str, list[int]] = {}
    for n, row in enumerate(rows):
        if value := value_of(row, by):
            groups.setdefault(value, []).append(n)
    own_name = FULL.get(by, "kind")
    full = {
        name: getattr(rows[members[0]], own_name if by in FULL else by)
        for name, members in groups.items()
    }

    def meant(word: str) -> list[str]:
        exact = [name for name in groups if word.lower() in (name.lower(), full[name].lower())]
        chosen = exact or [name for name in groups if has_words((name, full[name]), word)]
        if not chosen:
            raise UsageError(unknown(by, word, groups))
        return chosen

    def in_common(pair: tuple[int, int]) -> bool:
        one, two = ((rows[n].kind, rows[n].agent, rows[n].judge) for n in pair)
        return all(
            a == b or not (a and b) or name == own_name
            for name, a, b in zip(FULL.values(), one, two, strict=True)
        )

    sides = [tuple(map(meant, read_pair(text))) for text in texts]
    sides += [([*groups], meant(baseline))] if baseline is not None else []
    pairs = [pair for ones, twos in sides for pair in product(ones, twos) if pair[0] != pair[1]]
    every = dict.fromkeys(pairs if sides else combinations(groups, 2))
    members = {(a, b): [*filter(in_common, product(groups[a], groups[b]))] for a, b in every}
    if not any(members.values()):
        raise UsageError(
            f"--group {by}: a contrast needs two groups, with rows that have the other names in "
            f"common; the run has {', '.join(groups) or 'none'}"
        )
    return members


def _mean(every: Iterable[Influences | None]) -> Influences | None:
    return averaged(one for one in every if one)


def grouping(results: Results) -> Sequence[str]:
    """The dimensions of averages: the first of `GROUPINGS` with few groups, else the last."""
    for names in GROUPINGS:
        if len({tuple(value_of(row.row, n) for n in names) for row in results.rows}) <= MOST_GROUPS:
            break
    return names


def rows_where(results: Results, conditions: Iterable[str], among: Iterable[int]) -> Results:
    """Of some rows, those that meet conditions such as `judge=sim/weak stated`; their lifts stay
    those over their naive judges. UsageError for another form, and if no row has the value."""
    chosen = list(among)
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in DIMENSIONS:
            names = ", ".join(DIMENSIONS)
            raise UsageError(
                f"--where {condition!r}: write valid, or NAME=VALUE with a name of {names}"
            )
        values_of = {n: value_of(results.rows[n].row, name) for n in chosen}
        full = {n: getattr(results.rows[n].row, FULL.get(name, ""), "") for n in chosen}
        chosen = [n for n in chosen if value.lower() in (values_of[n].lower(), full[n].lower())]
        if not chosen:
            values = filter(None, dict.fromkeys(values_of.values()))
            raise UsageError(f"--where {condition}: {unknown(name, value, values)}")
    return replace(results, rows=tuple(results.rows[n] for n in chosen), whole=results.every)


def _line(results: Results, group: tuple[str, ...], members: Sequence[int]) -> PivotLine:
    """Some rows together."""

    def mean(every: Iterable[Influences | None]) -> Estimate | None:
        mean_of = _mean(every)
        return mean_of.estimate(interval=results.interval) if mean_of else None

    measured = [row for n in members if (row := results.rows[n]).asd]
    beta = results.betas.index(results.beta) if results.betas else 0
    points = [
        Configuration(row.agent, row.samples.eas[beta], row.samples.asd)
        for row in measured
        if row.agent and row.samples.eas and row.samples.asd
    ]
    one_judge = len({row.row.judge_address for row in measured}) == 1
    every = [results.rows[n].samples for n in members]
    naive = all(results.rows[n].row.naive for n in members)
    return PivotLine(
        group,
        tuple(members),
        len(measured),
        naive,
        mean(row.accuracy for row in every),
        mean(row.asd for row in every),
        None if naive else mean(row.lift for row in every),
        None,
        mean(row.jse[beta] for row in every if row.jse),
        trend(points) if one_judge and len({p.agent for p in points}) == len(points) else None,
    )


def pivot_finding(
    lines: Sequence[PivotLine],
    by: Sequence[str],
    results: Results,
    *,
    measures: bool = False,
    paper: bool = False,
) -> Finding:
    """One line a group. measures: JSE and slope too. paper: the columns of Table 1."""
    in_all = measures or paper
    jse = figure("JSE", "jse", 2, show=in_all)
    sloped = in_all and any(line.slope for line in lines)
    slope = figure("slope", "slope.estimate", 2, show=sloped, key="slope")
    names = [
        Column(dim, partial(_of, n), (dim,), partial(_of, n), words=True)
        for n, dim in enumerate(by)
    ]
    asd = figure("ASD", "asd", 2)
    columns = [
        *names,
        number("rows", "size", key="rows"),
        number("n", "asd.n", key="n"),
        column("accuracy", "accuracy", shared, parts=PARTS),
        asd,
        Column("lift", _lift, ("lift",), attrgetter("lift"), PARTS),
        program("verdict", "verdict"),
        *(program(name, f"contrast.{name}") for name in ("p", "p_family", "undone", "agree")),
        jse,
        slope,
    ]
    notes = [
        "Means over the rows of a group, on the problems that all of them have. Brackets: 95% CI."
    ]
    if sloped:
        notes.append(
            "Slope: of ASD over EAS, over three agents or more; both come from the same verdicts."
        )
    if in_all:
        notes.append(f"JSE{', EAS' * sloped}: β={results.beta:g}.")
    contrasts = [line.contrast for line in lines if line.contrast]
    if contrasts and not paper:
        notes.append(Verdicts(tuple(contrasts), "group").headline)
    if any(map(mark, contrasts)) and not paper:
        notes.append(f"{MARK}: excludes 0 by itself, but not after the correction for all groups.")
    notes += rare_errors(contrasts)
    if paper:
        columns = [*names, asd, slope, jse]
    title = f"{results.name}: {results.measure}, by {', '.join(by)}"
    part = Part("groups", title, columns, lines, notes)
    return Finding((part,), {"score": results.score}, tuple(results.origins))


def _lift(line: PivotLine) -> str:
    return lifted(line.lift, line.contrast)


def _of(n: int, line: PivotLine) -> str:
    return line.group[n] or NONE


def value_of(row: GridRow, name: str) -> str:
    """Value of a row in one dimension, as people see it; empty without one."""
    values = {
        "protocol": row.shown,
        "mechanism": row.mechanism,
        "agent": row.shown_agent,
        "judge": row.shown_judge,
    }
    if name in values:
        return values[name]
    value = getattr(row.axes, name)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
