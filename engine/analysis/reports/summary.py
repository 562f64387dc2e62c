"""The first layer of a report: five plain lines, and a table that fits the terminal.

Everything else stands under `--notes`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeAlias

from ...display.table import NONE, Table, bare, fits
from ...display.text import counted, counted_between
from ...errors import UsageError
from ...sweep.grid import shared_parts
from ..findings.finding import SIMULATED, estimated, percent, shared
from ..pairs import pairs_meant, read_pair, row_names
from ..scoring.contrasts import agreement, family
from ..scoring.inference import estimates, mean_pair
from .family import MARK, lifted, mark, rare_errors, same_verdicts, verdicts
from .groups import PivotLine, pivot
from .results import SCORE_NAMES, Results, RowResult

WORDS = (
    "ASD: the agent's score for the truth minus its score for a false answer; above 0 the truth "
    "pays. Accuracy (right): how often the judge finds the true answer likelier, over all worlds."
)
"""Meaning of the columns that every report has."""

COUNTED = (
    "n: problems in the figure; imputed: problems with a world scored as the agent's worst case."
)

MOST_MECHANISMS = 6
"""Maximum number of mechanisms that the lead names."""

ABREAST = 3
"""Maximum number of judges next to each other."""

WIDE = 100
"""Minimum width of a terminal for accuracy, n and failed cells; width of other output."""

NAME = 32
"""Columns of a terminal for names; a longer one continues in a second line."""

ReportLine: TypeAlias = RowResult | PivotLine


def lead_of(results: Results) -> Iterator[str]:
    """The lines above the table: sources, verdicts, the sweep's contrast, mechanisms, cells."""
    for line in results.origins:
        if SIMULATED in line and results.simulation == "all":
            yield f"{SIMULATED} models: these numbers say nothing about real ones."
        else:
            yield line
    if results.mixed:
        yield f"Rows of several codes (--allow-changed-code): {'; '.join(results.mixed)}."
    every = replace(results, rows=results.every)
    if headline := verdicts(results).headline:
        yield headline
    if results.contrast:
        yield _contrast(every)
    gains = [line for line in pivot(every, ["mechanism"]) if line.contrast]
    gains.sort(key=lambda line: -line.lift.value if line.lift else 0.0)
    if gains:
        texts = (f"{line.group[0]} {bare(lifted(line.lift, line.contrast))}" for line in gains)
        some = [*texts][:MOST_MECHANISMS] + ["…"] * (len(gains) > MOST_MECHANISMS)
        yield f"Over the naive judge: {', '.join(some)}."
    yield from _cells(every)


def _contrast(results: Results) -> str:
    """The difference that the sweep asks for, averaged over the matching pairs of rows."""
    rows = [row.row for row in results.rows]
    try:
        first, second = read_pair(results.contrast)
        pairs = pairs_meant(first, second, rows, row_names(rows))
    except UsageError as exc:
        return f"{results.contrast}: {str(exc).partition(chr(10))[0]}."
    if (means := mean_pair([row.samples.asd for row in results.rows], pairs)) is None:
        return f"{results.contrast}: not measured."
    mean = means[0] - means[1]
    figure = estimates([mean], interval=results.interval)
    (contrast,) = family([(first, second)], agreement([mean]), figure)
    estimate = contrast.estimate
    size, problems = bare(estimated(estimate, 2)), counted(estimate.n, "problem")
    first = f"{first[:1].upper()}{first[1:]}"
    match contrast.verdict:
        case "better":
            gain = bare(estimated(estimate, 2, sign=False))
            return f"{first} beats {second} by {gain} in ASD ({problems})."
        case "worse":
            return f"{first} does worse than {second}: {size} in ASD ({problems})."
        case "undecided":
            return f"{first} against {second} is undecided: {size} in ASD ({problems})."
    return f"{first} and {second} are {contrast.verdict} in ASD ({problems})."


def _cells(results: Results) -> Iterator[str]:
    """How many cells have a verdict, why others have none, and what nobody checked."""
    if not (health := results.health):
        return
    failures = sum((Counter(row.failures) for row in results.rows), Counter[str]())
    if health.verdicts == health.cells and not results.missing:
        text = f"All {health.cells:,} cells have a verdict"
    else:
        text = f"{health.verdicts:,} of {health.cells + results.missing:,} cells have a verdict"
    if failures:
        causes = ", ".join(
            f"{count:,} {cause.removeprefix('failed ')}" for cause, count in failures.most_common()
        )
        text += f"; {failures.total():,} failed: {causes}"
    if results.missing:
        text += f"; {results.missing:,} have not been run yet: these figures will change"
    checked, rows = health.sides_checked
    if rows and checked < rows:
        some = f" in {rows - checked:,} of {rows:,} rows" * bool(checked)
        text += f". Verbal refusals were not checked{some}"
    yield f"{text}."


def hints(results: Results) -> Iterator[str]:
    """The next steps for the reader of a terminal, such as how to see failed cells."""
    if any(row.failures for row in results.every):
        yield "oversight view RUN shows the failed cells."
    if results.health and results.health.guess:
        yield results.health.guess


def settings_of(results: Results) -> tuple[str, ...]:
    """The settings that all rows of a kind of protocol share, kind by kind."""
    kinds = {row.row.parts[0] for row in results.rows if row.row.parts}
    every = shared_parts([row.row for row in results.every])
    return tuple(
        f"{kind}: {', '.join(names)}" for kind, names in every.items() if names and kind in kinds
    )


def title_of(results: Results) -> str:
    """`demo: agent score difference (ASD) and lift · sim/strong, judged by sim/weak`."""
    score = "" if results.score == "brier" else f", {SCORE_NAMES[results.score]}"
    roles: list[str] = []
    if len(agents := {row.agent for row in results.rows} - {""}) == 1:
        roles += agents
    judges = {row.judge: row.row.judge_settings.get("model", "") for row in results.rows}
    if by := next(iter(judges if len(judges) == 1 else {*judges.values()}), ""):
        roles += [f"judged by {by}"] * (len({*judges.values()}) == 1)
    lift = " and lift" * any(map(_lift, results.rows))
    first = f"{results.name}: agent score difference (ASD{score}){lift}"
    return " · ".join([first, *[", ".join(roles)] * bool(roles)])


class PlacedLine(NamedTuple):
    """A line of the table, and where it stands."""

    name: str
    agent: str
    judge: str
    line: ReportLine


_Field: TypeAlias = Callable[[ReportLine], str]


def table_of(
    results: Results, lines: Sequence[ReportLine], width: int | None, notes: Sequence[str] = ()
) -> Table:
    """The rows, or groups, in the columns that fit a terminal. notes: all, if asked for."""
    contrasts = [line.contrast for line in lines if line.contrast]
    grouped = any(isinstance(line, PivotLine) for line in lines)
    above = [*settings_of(results)] * (not grouped)
    counts = sorted({line.n for line in lines if not line.unmeasured})
    if counts:
        above.append(counted_between(counts[0], counts[-1], "problem"))
    if grouped:
        total, count = len(results.rows), counted(len(lines), "group")
        above.insert(0, f"{counted(total, 'row')} in {count}: --all")
    below = [] if grouped else [*rare_errors(contrasts), *same_verdicts(contrasts)]
    if any(getattr(line, "imputed", 0) for line in lines) and (width or WIDE) >= WIDE:
        below.append(COUNTED)
    marked = any(map(mark, contrasts))
    clusters = any(line.asd and line.asd.clusters < line.asd.n for line in lines)
    over = f" over {'groups of ' * clusters}problems" * (not marked)
    reasons = [line.asd.reason for line in lines if line.asd and not line.asd.interval]
    brackets = f"[ ]: 95%{' conservative' * (results.interval == 'conservative')}{over}"
    if reasons and not any(line.asd and line.asd.interval for line in lines):
        brackets = f"no interval: {reasons[0]}"
    foot = [
        brackets,
        *[f"{MARK}: undecided"] * marked,
        *["lift: ASD minus the naive judge's"] * any(map(_lift, lines)),
        *["more: --notes"] * (not notes),
    ]
    table = Table(title_of(results), (), (), 1, flush=True, above=(" · ".join(above),))
    table = replace(table, notes=(*below, " · ".join(foot), *notes))
    return _fitting(table, [placed(line) for line in lines], width or WIDE)


def placed(line: ReportLine, by: Sequence[str] = ()) -> PlacedLine:
    """A line with its names. by: the dimensions of groups; agents and judges stand apart."""
    if isinstance(line, RowResult):
        return PlacedLine(line.protocol, line.agent, line.judge, line)
    values = dict(zip(by or map(str, range(len(line.group))), line.group, strict=True))
    agent, judge = (values.pop(role, "") if len(by) > 1 else "" for role in ("agent", "judge"))
    return PlacedLine(", ".join(filter(None, values.values())) or NONE, agent, judge, line)


def headed(
    lines: Sequence[PlacedLine], *, judges: bool = True
) -> list[tuple[tuple[str, ...], PlacedLine]]:
    """The lines below headings for their agents and judges, each if there are several, in the order
    in which headings occur first. judges: whether these stand in headings."""
    agents = len({line.agent for line in lines} - {""}) > 1
    judges = judges and len({line.judge for line in lines}) > 1
    headed_lines = []
    for line in lines:
        parts = (f"agent: {line.agent}" * agents, f"judge: {line.judge}" * judges)
        names = (line.agent, line.judge)
        head = tuple(part for part, name in zip(parts, names, strict=True) if part and name)
        headed_lines.append((head, line))
    order = {head: n for n, head in enumerate(dict.fromkeys(head for head, _ in headed_lines))}
    return sorted(headed_lines, key=lambda pair: order[pair[0]])


def _fitting(table: Table, lines: Sequence[PlacedLine], width: int) -> Table:
    """The first layout that fits; else the narrowest, whose names continue in a second line."""
    judges = tuple(dict.fromkeys(line.judge for line in lines))
    together = 1 < len(judges) <= ABREAST and not any(line.line.unmeasured for line in lines)
    best = table
    for abreast in (True, False) if together else (False,):
        for fields in _choices([line.line for line in lines], width):
            best = _laid_out(table, lines, judges if abreast else (), fields)
            if fits(replace(best, room=(NAME,)), width):
                return best
    return best


def _laid_out(
    table: Table,
    placed_lines: Sequence[PlacedLine],
    judges: Sequence[str],
    fields: Mapping[str, _Field],
) -> Table:
    """judges: those next to each other; without any, each line is of one judge."""
    body: dict[tuple[str, str], dict[str, ReportLine]] = {}
    for head, one in headed(placed_lines, judges=not judges):
        body.setdefault((" · ".join(head), one.name), {})[one.judge] = one.line
    lines = body.items()

    def cells(line: ReportLine | None) -> list[str]:
        if line and line.unmeasured:
            return [f"not measured: {line.unmeasured}", *[""] * (len(fields) - 1)]
        return [bare(field(line)) if line else "" for field in fields.values()]

    return replace(
        table,
        head=("", *[*fields] * max(len(judges), 1)),
        body=tuple(
            (name, *chain(*(cells(by_judge.get(j)) for j in judges or [next(iter(by_judge))])))
            for (_, name), by_judge in lines
        ),
        heads=tuple(head for (head, _), _ in lines) if any(head for head, _ in body) else (),
        spans=tuple((f"judge: {judge}", len(fields)) for judge in judges),
    )


def _choices(lines: Sequence[ReportLine], width: int) -> Iterator[dict[str, _Field]]:
    """The columns of one judge, the most first."""
    lift = {"lift": _lift} if any(map(_lift, lines)) else {}
    n = (
        {"n": counted_problems}
        if len({line.n for line in lines if not line.unmeasured}) > 1
        else {}
    )
    failed: dict[str, _Field] = {}
    if any(getattr(line, "failed", 0) for line in lines):
        failed = {"failed": lambda line: f"{getattr(line, 'failed', 0):,}"}
    asd: dict[str, _Field] = {"ASD": lambda line: f"{line.asd.value:z.2f}" if line.asd else NONE}
    asd_interval: dict[str, _Field] = {"ASD": lambda line: estimated(line.asd, 2, sign=False)}
    right: dict[str, _Field] = {"accuracy": lambda line: shared(line.accuracy)}
    right_alone: dict[str, _Field] = {
        "right": lambda line: percent(line.accuracy.value if line.accuracy else None)
    }
    if width >= WIDE:
        yield asd_interval | lift | right | n | failed
        yield asd_interval | lift | right_alone | n | failed
        yield asd | lift | right_alone | n | failed
    yield asd_interval | lift
    yield asd | lift


def counted_problems(line: ReportLine) -> str:
    """The problems of a row or a group: `92`, or `9 (2 imputed)`."""
    imputed = getattr(line, "imputed", 0)
    return f"{line.n:,}" + f" ({imputed:,} imputed)" * bool(imputed)


def _lift(line: ReportLine) -> str:
    return "" if line.naive or not line.lift else lifted(line.lift, line.contrast)
