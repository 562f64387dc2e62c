"""The overview of a run: whether protocols help, group by group, and what to look at next."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from ...analysis.findings.finding import (
    SIMULATED,
    Column,
    Finding,
    Part,
    change,
    column,
    estimated,
    figure,
    number,
    shared,
    word,
)
from ...analysis.frontier import Costs, sampled_costs
from ...analysis.pairs import against_naive, row_names
from ...analysis.reports.aggregate import MARKS, OPEN_TRUST
from ...analysis.reports.family import Verdicts, lifted, rare_errors, same_verdicts, verdicts
from ...analysis.reports.groups import PivotLine, dimensions, pivot, value_of
from ...analysis.reports.health import HINTS, called, clipped, saying
from ...analysis.reports.results import SCORE_NAMES, Results, RowResult
from ...analysis.reports.summary import COUNTED, counted_problems, lead_of, settings_of
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.contrasts import Contrast
from ...analysis.scoring.inference import Floats
from ...display.table import NONE, NOT_MEASURED
from ...display.text import counted, dollars, printable, short
from ...errors import EngineError
from ...run.listing import state_of
from ...run.reader import RunReader
from ...run.run_folder import REPORT, SWEEP
from ...system.files import holder
from .environment import inline_json
from .findings import READINGS, Linked, ShownPart, figure_of, finding_page, shown_part
from .links import REPORT_FILES, Links, PageQuery, one_of, readings_of
from .strip import FAILURES, TILES, run_page, snapshot_of

READ = 3
"""Transcripts that are linked for each cause."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Cells that ended alike."""

    cause: str
    count: int
    quote: str
    """The message of one of them."""
    links: dict[str, Linked]


def causes_part(run: RunReader, completed: RunRows, links: Links, most: int | None = None) -> Part:
    """Causes of failures, the most frequent first. most: causes that are named; all by default."""
    failures = completed.table.failed
    alike: dict[tuple[str, str], list[int]] = {}
    for at, failure in sorted(failures.items()):
        alike.setdefault((failure.kind, saying(failure)), []).append(at)
    every = sorted(alike.items(), key=lambda cause: -len(cause[1]))
    lines = []
    for (kind, _), cells in every[:most]:
        example = failures[cells[0]]
        seat = f"{example.seat}: " if example.seat else ""
        text = clipped(f"{called(kind)}: {seat}{example.message}")
        quote = clipped(example.raw)
        lines.append(_cause(run, links, text, cells, quote))
    hints = [HINTS[kind] for kind in dict.fromkeys(kind for kind, _ in alike) if kind in HINTS]
    notes = [f"{hint[:1].upper()}{hint[1:]}." for hint in hints] if most is None else []
    if most and len(every) > most:
        notes.append(f"{len(every) - most:,} more causes are on the page of failures and flags.")
    title = f"{len(failures):,} of {int(completed.table.ended.sum()):,} cells failed, by cause"
    columns = [word("cause", "cause"), *[word("for example", "quote")] * (most is None)]
    columns += [READINGS, number("cells", "count")]
    return Part("causes", title, columns, lines, notes)


def failures_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """Failures by cause, then flags by kind."""
    completed = read_rows(run)
    table = completed.table
    marked = {at: counts for at, counts in table.marked.items() if at not in table.failed}
    doubts = []
    for name in MARKS:
        cells = [at for at, counts in sorted(marked.items()) if counts.get(name)]
        if cells:
            cause = name.replace("_", " ")
            doubts.append(_cause(run, links, cause, cells))
    facts = []
    if table.failed:
        facts.append(
            f"To run them again: oversight run {run.folder / SWEEP} --run-folder {run.folder} "
            "--retry-failed"
        )
    elif not doubts:
        facts.append(f"No cell failed or is flagged, of {table.ended.sum():,} cells.")
    columns = [word("flag", "cause"), READINGS, number("cells", "count")]
    about = "The verdict counts; the bounds on the overview show what it could change."
    in_doubt = Part("doubts", f"{len(marked):,} flagged cells", columns, doubts, (about,))
    return finding_page(
        run,
        links,
        Finding((causes_part(run, completed, links), in_doubt)),
        title=FAILURES,
        lead="Cells that ended without a verdict, by cause; then flagged verdicts.",
        facts=facts,
    )


def _cause(run: RunReader, links: Links, name: str, cells: list[int], quote: str = "") -> Cause:
    return Cause(name, len(cells), quote, {"read": read_links(run, links, cells)})


def read_links(run: RunReader, links: Links, cells: Sequence[int]) -> Linked:
    """Links to a few of these cells, of different problems where they are many."""
    some = cells[:: max(len(cells) // READ, 1)][:READ]
    read = [link for at in some if (link := links.reading(run.where(at)[0]))]
    return tuple((f"{n}", link) for n, link in enumerate(dict.fromkeys(read), 1))


SCORES = ("brier", "log", "accuracy")
"""Scores in the menu; the address of the page takes each of them."""

WORST = 5
"""Problems, and causes of failures, that the overview names."""


class OverviewRow(NamedTuple):
    """A row of the report, or a group of rows with those within it."""

    name: str
    result: RowResult | PivotLine
    failed: int
    links: dict[str, str | Linked]
    band: tuple[float, float] | None
    """The range of its ASD that failures and flags allow."""
    baseline: float | None
    """The naive judge's ASD."""
    members: tuple["OverviewRow", ...] = ()
    paired: bool = False
    """Whether its two members differ in the judge alone: one line has the marks of both."""
    readings: Linked = ()
    """Of a row without a measurement, some of its failed cells."""
    dots: int | None = None
    """Its number; None for a group."""

    @property
    def unmeasured(self) -> str:
        return self.result.unmeasured

    @property
    def contrast(self) -> Contrast | None:
        return self.result.contrast


@dataclass(frozen=True, slots=True)
class WorstProblem:
    """A problem that goes badly."""

    problem: str
    mean: float
    """ASD over the rows."""
    row: str
    """The row under which its ASD is lowest."""
    lowest: float
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Mean calls, tokens and dollars per problem over the rows of a group."""

    name: str
    calls: float
    tokens_in: float
    tokens_out: float
    dollars: float | None
    links: dict[str, str]


def overview_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The page. Rows are averaged in groups, by protocol unless `by` names another setting."""
    completed = read_rows(run)
    results = completed.results(query.score, (), guess=False)
    rows = run.sweep.rows
    groups = dimensions([row for row in rows if not row.naive]) or ["protocol"]
    by = one_of(query.by or groups[0], groups, "group")
    finished = sum(row.cells - row.missing for row in results.rows)
    running = holder(run.folder) is not None
    family = verdicts(results)
    query = query if family.contrasts else replace(query, plot="asd")
    table = _table(run, completed, results, by, links, query.plot)
    asd = dict(enumerate(completed.asd_by_problem(query.score).T))
    return run_page(
        "overview",
        run,
        links,
        title=run.name,
        active_tab="overview",
        headline=family.headline,
        notes=[*_notes(results, family)],
        facts=" · ".join(_facts(run, results, state_of(running, finished, run.manifest.cells))),
        rows=table,
        judges=judges_of(run) if any(line.paired for line in table.lines) else (),
        drawing=figure_of(run, links, query.plot, query.score),
        query=query,
        by=by,
        groups=groups,
        names=row_names(rows),
        score_name=SCORE_NAMES[query.score],
        scores=[score for score in SCORES if score in run.scores],
        files=[end for end in REPORT_FILES if (run.folder / REPORT / f"report.{end}").exists()],
        strip=snapshot_of(run) if running and links.events else None,
        tiles=TILES,
        dots=dots_data(run, asd, readings_of(run, links)),
        parts=[
            shown_part(part, {})
            for part in _beside(run, completed, results, by, links)
            if part.lines
        ],
    )


MOST_DOTS = 40_000
"""Problems times rows up to which the overview has all problems of its rows."""


def dots_data(run: RunReader, values: Mapping[int, Floats], to: str | list[list[str]]) -> Markup:
    """Values of problems as JSON, by the number of their row; empty without a value, or for too
    many. to: the address of a transcript with `{r}` and `{p}`, or all addresses by row."""
    measured = np.array([*values.values()])
    if measured.size > MOST_DOTS or np.isnan(measured).all():
        return Markup()
    most = float(np.nanmax(np.abs(measured))) or 1.0
    # The ticks at both ends and halfway to them have two decimals.
    unit = 0.2 if most > 0.2 else 0.02
    return inline_json(
        {
            "problems": [printable(problem.id) for problem in run.sweep.problems],
            "rows": {f"{n}": np.round(row, 2).tolist() for n, row in values.items()},
            "most": round(max(ceil(most / unit - 1e-9), 1) * unit, 2),
            "links": to,
        }
    )


def _notes(results: Results, family: Verdicts) -> Iterator[str]:
    """The lines of the report under the heading, and the settings that rows of a kind share."""
    for line in lead_of(results):
        if line != family.headline and SIMULATED not in line:
            yield line.replace(" -", " −").replace("[-", "[−")
    yield from filter(None, (" · ".join(settings_of(results)), family.coarse))
    if family.contrasts:
        yield family.alone


def row_facts(run: RunReader, row: int, score: str) -> list[tuple[str, str]]:
    """The figures of one row, in words."""
    completed = read_rows(run)
    result = completed.results(score, (), guess=False).rows[row]
    facts = [
        ("ASD", estimated(result.asd, 2)),
        ("lift over the naive judge", lifted(result.lift, result.contrast)),
        ("accuracy", shared(result.accuracy)),
        ("problems", counted_problems(result)),
        ("cells", f"{result.cells - result.missing:,} of {result.cells:,}"),
        ("failed", f"{result.failed:,}"),
    ]
    if result.unmeasured:
        facts = [(NOT_MEASURED, result.unmeasured), *facts[3:]]
    facts = [(name, value.replace("-", "−")) for name, value in facts]
    try:
        (cost,) = _costs(sampled_costs(completed), {"": [row]}, {})
    except EngineError:
        return facts
    used = f"{cost.calls:.1f} calls, {short(round(cost.tokens_in + cost.tokens_out))} tokens"
    return [
        *facts,
        ("cost per problem", f"{used}, {dollars(cost.dollars)}" if cost.dollars else used),
    ]


def judges_of(run: RunReader) -> list[str]:
    """The judges of a run, each once."""
    return list(dict.fromkeys(row.shown_judge for row in run.sweep.rows))


KINDS_OF_ROWS = ("protocol", "mechanism")
"""Groupings in which naive judges are groups like all others."""


def cell_links(
    result: RowResult | PivotLine, failed: int, problems: int, to: Callable[..., str]
) -> dict[str, str | Linked]:
    """Links from the figures of a row, or of a group of rows, to the transcripts behind them. to:
    the list of these transcripts, with further parameters."""
    every, wrong = to(), result.accuracy and result.accuracy.value < 1
    counted = to(show="not measured") if result.n < problems else every
    imputed = getattr(result, "imputed", 0) if every else 0
    both = (f"{result.n:,}", counted), (f"({imputed:,} imputed)", to(show="imputed"))
    return {
        "ASD": every,
        "accuracy": to(show="wrong verdict") if wrong else every,
        "n": both if imputed else counted,
        "failed": to(show="failed") if failed else "",
    }


def _table(
    run: RunReader, completed: RunRows, results: Results, by: str, links: Links, plot: str
) -> ShownPart:
    """The rows by group, each group with its mean; naive judges first. plot: `asd` or `lift`."""
    every_row, head, asd = run.sweep.rows, by.replace("_", " "), plot == "asd"
    names = row_names(every_row)
    failed_cells: dict[int, list[int]] = {}
    for at in sorted(completed.table.failed):
        failed_cells.setdefault(run.where(at)[0].row, []).append(at)

    naive, problems = dict(against_naive(run.sweep.rows)), len(run.sweep.problems)

    def line(n: int, alone: bool) -> OverviewRow:
        result = results.rows[n]
        lift = links.to("compare", first=names[n], second=names[naive[n]]) if n in naive else ""
        to: dict[str, str | Linked] = {head: links.to("row", row=n), "lift": lift}
        to |= cell_links(result, result.failed, problems, partial(links.to, "row", row=n))
        # Within its group, without the parts that all rows share.
        parts = [part for part in names[n].split(" · ") if part != value_of(result.row, by)]
        name = names[n] if alone else " · ".join(parts) or names[n]
        band = baseline = None
        if asd and result.bounds and result.bounds.doubtful:
            band = result.bounds.worst, result.bounds.best
        if asd and not result.row.naive:
            baseline = result.samples.baseline
        read = read_links(run, links, failed_cells.get(n, ())) if result.unmeasured else ()
        return OverviewRow(name, result, result.failed, to, band, baseline, (), False, read, n)

    lines = []
    for group in pivot(results, [by]):
        rows = tuple(line(n, group.size == 1) for n in group.rows)
        baselines = [row.baseline for row in rows if row.baseline is not None]
        mean, failed = fmean(baselines) if baselines else None, sum(row.failed for row in rows)
        alike = {(every_row[n].kind, every_row[n].agent) for n in group.rows}
        paired = len(judges_of(run)) == len(rows) == 2 and len(alike) == 1
        value, to = group.group[0], dict[str, str | Linked]()
        if value and (by in KINDS_OF_ROWS or not group.naive):
            of_group = partial(links.to, "transcripts", by=by, group=value)
            to = cell_links(group, failed, problems, of_group)
        if by in KINDS_OF_ROWS and not group.naive:
            to["lift"] = links.to("compare", first=value, second="naive judge")
        total = OverviewRow(value or NONE, group, failed, to, None, mean, rows, paired)
        lines.append(total if rows[1:] else rows[0])
    lift = Column("lift", lambda line: lifted(line.result.lift, line.contrast), ("lift",),
                  attrgetter("result.lift"))  # fmt: skip
    scores = figure("ASD", "result.asd", 2), lift
    columns = [
        word(head, "name"),
        *(scores if asd else reversed(scores)),
        column("accuracy", "result.accuracy", shared),
    ]
    every = [one for total in lines for one in (total, *total.members)]
    unequal = len({counted_problems(one.result) for one in every}) > 1
    if unequal:
        columns.append(
            Column("n", lambda line: counted_problems(line.result), ("n",), attrgetter("result.n"))
        )
    if any(one.failed for one in every):
        columns.append(number("failed", "failed"))
    contrasts = [one.contrast for one in every if one.contrast]
    notes = (*rare_errors(contrasts), *same_verdicts(contrasts), *[COUNTED] * unequal)
    return shown_part(Part("", "Rows", columns, lines, notes), {})


def _facts(run: RunReader, results: Results, state: str) -> Iterator[str]:
    """The line under the heading."""
    agents = {row.shown_agent for row in run.sweep.rows} - {""}
    judges = {row.shown_judge for row in run.sweep.rows} - {""}
    alone = [(role, *ids) for role, ids in (("agent", agents), ("judge", judges)) if len(ids) == 1]
    missing = sum(row.missing for row in results.rows)
    yield state
    if missing:
        yield f"{run.manifest.cells - missing:,} of {run.manifest.cells:,} cells"
    yield counted(len(results.rows), "row")
    yield counted(max((row.n for row in results.rows), default=0), "problem")
    yield from (f"{role} {name}" for role, name in alone)


def _beside(
    run: RunReader, completed: RunRows, results: Results, by: str, links: Links
) -> Iterator[Part]:
    """Further tables: the worst problems, causes of failures, and the cost per problem."""
    yield _worst(run, completed, results.score, links)
    yield causes_part(run, completed, links, WORST)
    members: dict[str, list[int]] = {}
    for n, row in enumerate(run.sweep.rows):
        members.setdefault("naive judge" if row.naive else value_of(row, by) or "–", []).append(n)
    try:
        costs = sampled_costs(completed)
    except EngineError:
        return
    cost = links.to("cost")
    lines = list(_costs(costs, members, {by: cost} if cost else {}))
    priced = [number("dollars", "dollars", ",.4f")] if any(line.dollars for line in lines) else []
    yield Part(
        "cost",
        "Cost per problem",
        [
            word(by, "name"),
            number("calls", "calls", ",.1f"),
            number("tokens in", "tokens_in", ",.0f"),
            number("out", "tokens_out", ",.0f"),
            *priced,
        ],
        lines,
        (f"Each row by itself, over {costs.sampled:,} of {len(run.problems):,} problems.",),
    )


def _costs(
    costs: Costs, members: dict[str, list[int]], links: dict[str, str]
) -> Iterator[GroupCost]:
    for name, numbers in members.items():
        rows = [costs.rows[n] for n in numbers]
        spent = [(row.alone, max(row.problems, 1)) for row in rows if row.alone]
        if not spent:
            continue
        priced = all(usage.dollars is not None for usage, _ in spent)
        yield GroupCost(
            name,
            fmean(usage.calls / n for usage, n in spent),
            fmean(usage.input_tokens / n for usage, n in spent),
            fmean(usage.output_tokens / n for usage, n in spent),
            fmean((usage.dollars or 0.0) / n for usage, n in spent) if priced else None,
            links,
        )


def _worst(run: RunReader, completed: RunRows, score: str, links: Links) -> Part:
    """The problems of the lowest ASD, over rows in which somebody argues."""
    rows = run.sweep.rows
    measured = completed.asd(score)
    argued = [n for n, row in enumerate(rows) if not row.naive and not row.is_a(OPEN_TRUST)]
    argued = [n for n in argued if completed.names[n] in measured]
    values = completed.asd_by_problem(score)[:, argued]
    fields = ~np.isnan(values)
    worst = []
    for at in np.flatnonzero(fields.any(axis=1)).tolist():
        lowest = int(np.where(fields[at], values[at], np.inf).argmin())
        worst.append((float(values[at][fields[at]].mean()), at, argued[lowest], values[at, lowest]))
    worst.sort()
    lines = [
        WorstProblem(
            run.sweep.problems[at].id,
            mean,
            completed.names[row],
            float(lowest),
            {
                "problem": links.to("problem", problem=at),
                "worst row": links.any_reading(row, at, run.sweep.draws),
            },
        )
        for mean, at, row, lowest in worst[:WORST]
    ]
    columns: list[Column] = [
        word("problem", "problem"),
        word("worst row", "row"),
        change("mean ASD", "mean", 2),
        change("ASD there", "lowest", 2),
    ]
    return Part("worst", "Problems with the lowest ASD", columns, lines)
