"""Findings as pages: their tables with the intervals drawn, and charts of points and lines."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log10
from typing import Any, TypeAlias

from ....cache.reply import Usage
from ...analysis.catalogue import analysis
from ...analysis.findings.chart import Axis, Chart, Point, Series
from ...analysis.findings.finding import Column, Finding, Part, unmeasured
from ...analysis.frontier import costs_part, sampled_costs
from ...analysis.pairs import row_names
from ...analysis.reports.family import fragile
from ...analysis.rows import read_rows
from ...analysis.scoring.contrasts import Contrast
from ...analysis.scoring.estimate import Estimate
from ...display.table import NONE
from ...display.text import dollars, short
from ...errors import EngineError
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.reader import RunReader
from .links import Links, PageQuery, one_of
from .strip import COST, PAID, measures_of, run_page


def cost_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """Dollars paid per model, and the cost of each row over a sample of problems, for speed."""
    ledger = read_ledger(run.folder)
    paid, parts, facts = sum_usage(ledger.values()), [_models(run, ledger)], list[str]()
    try:
        facts.append(_all_calls(run))
        costs = sampled_costs(read_rows(run))
        parts.append(costs_part(costs, paid.dollars or None))
        facts.append(
            f"Rows: all calls of {costs.sampled:,} of {len(run.problems):,} problems, at list "
            "prices."
        )
    except EngineError as exc:
        facts.append(str(exc))
    if not ledger:
        facts.append("Nothing was paid: models are simulated, or all replies came from the store.")
    if paid.unconfirmed:
        facts.append(f"Up to {dollars(paid.unconfirmed)} more for unconfirmed requests.")
    return finding_page(
        run,
        links,
        Finding(tuple(parts)),
        title=COST,
        lead="Dollars paid per model, and the cost of each row by itself.",
        facts=facts,
    )


def _all_calls(run: RunReader) -> str:
    """Tokens and dollars of all distinct calls of a run."""
    lines = run.tables.fetched(
        "SELECT model, count(*), total(input_tokens), total(output_tokens),"
        " total(cache_read_tokens), total(cache_write_tokens)"
        " FROM calls JOIN endpoints USING(endpoint) GROUP BY model"
    )
    usages = {model: Usage(int(a), int(b), int(c), int(d)) for model, _, a, b, c, d in lines}
    prices = {model: listed for model in usages if (listed := run.prices.find(model))}
    text = f"The whole run: {sum(line[1] for line in lines):,} calls, each counted once, "
    text += f"{short(sum(used.input_tokens for used in usages.values()))} tokens in and "
    text += f"{short(sum(used.output_tokens for used in usages.values()))} out"
    total = sum(prices[model].cost(used) for model, used in usages.items() if model in prices)
    if total and prices.keys() == usages.keys():
        text += f"; {dollars(total)} at list prices"
    return f"{text}."


def _models(run: RunReader, ledger: Mapping[str, UsageTotals]) -> Part:
    """The ledger, one line per model."""
    roles = dict(run.sweep.roles)
    used_cache = sum_usage(ledger.values()).usage.cache_read_tokens > 0
    columns = [
        Column("model", lambda line: line[0], words=True),
        Column("role", lambda line: roles.get(line[0], ""), words=True),
        *(column for column in PAID if column.head != "cached" or used_cache),
    ]
    notes = ("Median, p95 and p99: time from request to reply; tokens/s: output of a single call.",)
    total = ("all", sum_usage(ledger.values())) if len(ledger) > 1 else None
    return Part("models", "by model, as paid", columns, list(ledger.items()), notes, total=total)


def measure_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """An analysis, or the reason why it does not fit this run."""
    name = one_of(query.kind, measures_of(run), "measure")
    kind = analysis(name)
    finding, facts = Finding(()), []
    try:
        finding = kind().at_once(read_rows(run), range(len(run.sweep.rows)), query.score)
    except EngineError as exc:
        facts = [str(exc)]
    return finding_page(
        run,
        links,
        finding,
        title=kind.title,
        lead=kind.lead,
        facts=facts,
        drawing=figure_of(run, links, name, query.score),
    )


Linked: TypeAlias = tuple[tuple[str, str], ...]
"""Texts with their links."""

READINGS = Column(
    "read", lambda line: " ".join(text for text, _ in line.links["read"]) or NONE, words=True
)
"""Links of a line to some of its transcripts."""

DRAWN = ("asd", "lift", "frontier", "worlds", "calibration")
"""Charts of pages that `oversight export plot` draws."""

COLOURS = 10
"""Series of one frame that have a distinct colour."""

FINE = 20
"""Points up to which a frame shows each by itself, with its interval, as pictures do."""

MOST_SPOTS = 12
"""Points up to which the rows of each protocol have a separate frame."""

SQUARES = 10
"""Squares of a side into which a crowded frame of probabilities is cut."""

ROUND = tuple(log10(m * 10.0**n) for n in range(-6, 12) for m in (1, 2, 5))
"""Logarithms of the numbers that a logarithmic axis may name."""


@dataclass(frozen=True, slots=True)
class ShownCell:
    """One cell of a table."""

    text: str
    value: str | None
    """By which the table is sorted, where that is not its text."""
    numeric: bool
    links: Linked = ()
    """Replace the text, if any."""
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One line of a table."""

    cells: tuple[ShownCell, ...]
    drawn: Estimate | None
    members: tuple["ShownLine", ...] = ()
    """The lines of a group."""
    paired: bool = False
    """Whether its drawing has the marks of its two members, not their mean."""
    band: tuple[float, float] | None = None
    """Drawn behind its estimate."""
    baseline: float | None = None
    """Drawn as a second mark."""
    unmeasured: str = ""
    """Stands across the numbers of a line without a measurement."""
    readings: Linked = ()
    undecided: bool = False
    """Whether its dot is hollow: its contrast does not hold after the correction."""
    dots: int | None = None
    """Number of a row of the report whose problems are shown as dots."""
    fragile: str = ""
    """The event that could undo its verdict: the title of a hollow end of its interval."""

    @property
    def marks(self) -> tuple["ShownLine", ...]:
        """The lines whose figures its drawing has."""
        every = self.members if self.paired else (self,)
        return tuple(one for one in every if one.drawn or (one.unmeasured and one.band))

    @property
    def ends(self) -> Iterator[float]:
        """The values that its axis must hold."""
        if self.drawn:
            yield from self.drawn.interval or (self.drawn.value,)
        yield from self.band or ()
        yield self.baseline or 0.0
        yield from (end for member in self.members for end in member.ends)


@dataclass(frozen=True, slots=True)
class Mark:
    """One point of a frame, in percent of both axes from the lower left."""

    x: float
    y: float
    label: str
    link: str
    whisker: tuple[float, float] | None
    """Ends of the interval of `y`."""
    size: float = 4.0
    """Radius in pixels."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a frame."""

    name: str
    tone: str
    marks: tuple[Mark, ...]
    joined: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """Series over the axes of a chart."""

    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ShownChart:
    """A chart, ready to be shown."""

    chart: Chart
    x: Axis
    y: Axis
    frames: tuple[Frame, ...]
    legend: tuple[tuple[str, str], ...]
    """(name, tone) of series that several frames share, or that the only frame has."""

    def tick(self, value: float) -> str:
        """A tick of the horizontal axis in words."""
        if not self.chart.log_x:
            return self.x.label(value)
        thousands = min(max(int(value // 3), 0), 3)
        return f"{10 ** (value - 3 * thousands):.3g}{('', 'k', 'M', 'G')[thousands]}"


@dataclass(frozen=True, slots=True)
class ShownPart:
    """One part of a finding, ready to be shown."""

    title: str
    heads: tuple[tuple[str, bool], ...]
    """(name, whether its cells are numbers)."""
    lines: tuple[ShownLine, ...]
    notes: tuple[str, ...]
    words: int
    """Columns of words, which come first."""
    axis: Axis | None
    """Axis on which the first column of estimates is drawn; None without one."""
    drawn: str
    """Head of that column."""
    chart: ShownChart | None


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """The menu of a chart: the chart as a picture, and the command that draws it."""

    files: Linked
    command: str


def figure_of(run: RunReader, links: Links, kind: str, score: str) -> ShownFigure | None:
    """None for a chart that `oversight export plot` does not draw."""
    if kind not in DRAWN:
        return None
    files = ((end.upper(), links.figure(f"{kind}.{end}")) for end in ("svg", "pdf"))
    scored = "" if score == "brier" else f" --score {score}"
    how = f"--kind {kind}{scored} --style paper -o {kind}.pdf"
    command = f"oversight export plot {run.name} {how}"
    query = "" if score == "brier" else f"?score={score}"
    return ShownFigure(tuple((name, link + query) for name, link in files if link), command)


def finding_page(
    run: RunReader,
    links: Links,
    finding: Finding,
    *,
    title: str,
    lead: str,
    facts: Sequence[str] = (),
    **values: Any,
) -> str:
    """The page of a finding: parts with a chart above a table. facts: about all of it."""
    names = row_names(run.sweep.rows)
    rows = {name: links.to("row", row=number) for number, name in enumerate(names)}
    parts = [part for part in finding.parts if part.lines and part.shown]
    return run_page(
        "finding",
        run,
        links,
        title=f"{title}, {run.name}",
        active_tab=title,
        heading=title,
        lead=lead,
        facts=(*facts, *finding.lead),
        parts=[shown_part(part, rows, pointed=bool(links.form("overview"))) for part in parts],
        **values,
    )


LineLinks: TypeAlias = Mapping[str, str | Linked]
"""The links of a line, by the heads of columns."""


def shown_part(
    part: Part,
    links: Mapping[str, str],
    *,
    pointed: bool = True,
    line_links: Callable[[Any], LineLinks] = lambda line: getattr(line, "links", {}),
) -> ShownPart:
    """A part as a table. Its lines may bring the further fields of a ShownLine. links: by the
    text of a cell that names a row. line_links: the links of a line, by default its `links`.
    pointed: whether points of the chart are links as well; links of a site are long."""
    columns = [(column, column.cell) for column in part.columns if column.cell]
    drawn = next(
        (c for c, _ in columns if any(isinstance(c.value(line), Estimate) for line in part.lines)),
        None,
    )

    def shown(line: Any) -> ShownLine:
        contrast: Contrast | None = getattr(line, "contrast", None)
        estimate = drawn.value(line) if drawn else None
        its_own = contrast is not None and estimate is contrast.estimate
        return ShownLine(
            tuple(_cell(column, cell, line, links, line_links(line)) for column, cell in columns),
            estimate,
            tuple(map(shown, getattr(line, "members", ()))),
            getattr(line, "paired", False),
            getattr(line, "band", None),
            getattr(line, "baseline", None),
            "" if part.other_figures else unmeasured(line),
            getattr(line, "readings", ()),
            contrast is not None and contrast.verdict == "undecided",
            getattr(line, "dots", None),
            fragile(contrast) if its_own else "",
        )

    lines = tuple(map(shown, (*part.lines, *([] if part.total is None else [part.total]))))
    table = part.table()
    # The text before a colon is the name of the page, or of the run.
    title = part.title.partition(": ")[2] or part.title
    return ShownPart(
        title[:1].upper() + title[1:],
        tuple((column.head, not column.words) for column, _ in columns),
        lines,
        table.notes,
        table.left,
        Axis.around([end for line in lines for end in line.ends])
        if any(line.drawn and line.drawn.interval for line in lines)
        else None,
        drawn.head if drawn else "",
        # Rows without a naive judge have no lift, which the chart may need.
        shown_chart(part.chart, links if pointed else {})
        if part.chart and any(series.points for series in part.chart.series)
        else None,
    )


def _cell(
    column: Column,
    cell: Callable[[Any], str],
    line: Any,
    links: Mapping[str, str],
    to_links: LineLinks,
) -> ShownCell:
    text, value = cell(line), column.value(line)
    estimate = value if isinstance(value, Estimate) else None
    if estimate is not None:
        value = estimate.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    sort_text = text.strip("–")
    to = to_links.get(column.head) or links.get(text, "")
    shown_text = text.replace("-", "−") if is_number else text
    return ShownCell(
        shown_text,
        f"{value:.6g}" if is_number and f"{value:,}" != text else "" if sort_text != text else None,
        not column.words,
        (((shown_text, to),) if to else ()) if isinstance(to, str) else to,
        estimate,
    )


def shown_chart(chart: Chart, links: Mapping[str, str]) -> ShownChart:
    """A chart in as many frames as it needs: one per protocol where each row is a series.

    links: by the name of a row, a series or a point."""
    spots = sum(len(series.points) for series in chart.series if not series.joined)
    together = spots > MOST_SPOTS and not chart.square
    framed: dict[str, list[Series]] = {}
    for series in chart.series:
        # The first word tells the frames apart, and the others the lines within each.
        first, several, _ = series.name.partition(" · ")
        framed.setdefault(first if several and not together else "", []).append(series)
    counts = {name: sum(len(series.points) for series in many) for name, many in framed.items()}
    points = [point for series in chart.series for point in series.points]
    up = [point.y for point in points]
    for name, many in framed.items():
        if counts[name] <= FINE:
            up += [end for series in many for p in series.points for end in p.interval or ()]
    probable = Axis.around([0.0, 1.0], 6)
    across = [_across(chart, point.x) for point in points]
    x = probable if chart.square else logarithmic(across) if chart.log_x else Axis.around(across, 6)
    y = probable if chart.square else Axis.around([*up, *[0.0] * chart.zero], 6)
    tones = list(dict.fromkeys(series.name.partition(" · ")[2] for series in chart.series))

    def line(series: Series, tone: int, fine: bool) -> Line:
        marks = (
            Mark(
                x.at(_across(chart, point.x)),
                y.at(point.y),
                _said(series, point),
                links.get(point.label) or links.get(series.name, ""),
                (y.at(point.interval[0]), y.at(point.interval[1]))
                if point.interval and fine
                else None,
            )
            for point in series.points
        )
        name = series.name + (f": {series.note}" if series.note else "")
        return Line(name, f"s{tone % COLOURS}", tuple(marks), series.joined)

    frames = []
    for name, many in framed.items():
        count = counts[name]
        if chart.square and count > FINE and not any(series.joined for series in many):
            lines = [Line("", "s0", tuple(_counted(many)), False)]
        elif name or together:
            lines = [
                line(series, tones.index(series.name.partition(" · ")[2]), count <= FINE)
                for series in many
            ]
        else:
            lines = [line(series, n, count <= FINE) for n, series in enumerate(many)]
            if not all(series.joined for series in lines):
                # A line through the best of the points, as a frontier is.
                lines = [replace(one, tone="rings") if one.joined else one for one in lines]
        frames.append(Frame(name, tuple(lines)))
    if len(frames) == 1 and len(frames[0].lines) > 1 and not together:
        legend = tuple((series.name, series.tone) for series in frames[0].lines)
    elif 1 < len(tones) <= COLOURS and len(frames[0].lines) > 1:
        legend = tuple((name, f"s{n}") for n, name in enumerate(tones))
    else:
        legend = ()
    return ShownChart(chart, x, y, tuple(frames), legend)


def logarithmic(values: Sequence[float]) -> Axis:
    """The axis of logarithms, with round numbers for its ticks; decades alone where it is long."""
    first = max((n for n, tick in enumerate(ROUND) if tick <= min(values) + 1e-9), default=0)
    last = min((n for n, tick in enumerate(ROUND) if tick >= max(values) - 1e-9), default=-1)
    ticks = ROUND[first : max(last, first + 1) + 1]
    if len(ticks) > 8:
        return Axis(ticks[0], ticks[-1], tuple(tick for tick in ticks if tick == round(tick)))
    return Axis(ticks[0], ticks[-1], ticks)


def _across(chart: Chart, x: float) -> float:
    return log10(x) if chart.log_x else x


def _said(series: Series, point: Point) -> str:
    names = " · ".join(filter(None, dict.fromkeys((series.name, point.label))))
    return f"{names}: {point.x:,.4g}, {point.y:,.3g}"


def _counted(several: Sequence[Series]) -> list[Mark]:
    """A mark for each square of a frame that holds points, as large as they are many."""
    counts: Counter[tuple[int, int]] = Counter(
        (min(int(point.x * SQUARES), SQUARES - 1), min(int(point.y * SQUARES), SQUARES - 1))
        for series in several
        for point in series.points
    )
    most, side = max(counts.values()), 100 / SQUARES
    return [
        Mark((x + 0.5) * side, (y + 0.5) * side, f"{n:,}", "", None, 1.5 + 8 * (n / most) ** 0.5)
        for (x, y), n in counts.items()
    ]
