"""LaTeX tables for one column of an article; they need the package booktabs.

The caption says what a reader needs; everything else is a comment above the table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TypeAlias

from ...display.table import NONE, bare, latex_cell, latex_name, latex_table
from ...display.text import counted_between, signed
from ..findings.finding import percent
from ..scoring.estimate import Estimate
from .family import mark
from .groups import PivotLine, grouping, pivot
from .results import SCORE_NAMES, Results
from .summary import ReportLine, headed, placed, settings_of

MOST_ROWS = 25
"""Rows of a table; more are averaged in groups."""
MARK = r"$^{\circ}$"

Field: TypeAlias = Callable[[ReportLine], str]


def paper_table(
    results: Results,
    lines: Sequence[ReportLine],
    fields: Mapping[str, Field],
    comments: Iterable[str] = (),
    *,
    by: Sequence[str] = (),
    long: bool = False,
) -> str:
    r"""The lines that were measured, below the names of their judges, and agents if there are
    several. fields: the cells of each column, in LaTeX. comments: lines above the table. by: the
    dimensions of groups. long: a longtable over pages, for \onecolumn."""
    lines = [line for line in lines if not line.unmeasured]
    body = list[tuple[str, ...]]()
    last: tuple[str, ...] = ()
    for heading, one in headed([placed(line, by) for line in lines]):
        if heading != last:
            body.append((latex_name(", ".join(heading)),))
            last = heading
        name = "all" if one.name == NONE else one.name
        body.append((latex_name(name), *(field(one.line) for field in fields.values())))
    ends = any(r"\,[" in cell for cells in body for cell in cells)
    caption = " ".join(_sentences(results, lines, fields, ends))
    return latex_table(caption, ("protocol", *fields), body, comments=comments, long=long)


def plus_minus(estimate: Estimate | None) -> str:
    """An estimate in LaTeX, with two decimals: `+.52 ±.09`; `[low, high]` where the two halves of
    the interval differ by more than .005; a dash without an estimate."""
    if estimate is None:
        return "--"
    value = _number(estimate.value, sign=True)
    if estimate.interval is None:
        return value
    low, high = estimate.interval
    below, above = estimate.value - low, high - estimate.value
    if abs(above - below) <= 0.005:
        return rf"{value}{{\scriptsize\,$\pm${_number(max(above, below))}}}"
    ends = f"{_number(low)}, {_number(high)}"
    return rf"{value}{{\scriptsize\,[{ends}]}}"


def _number(value: float, *, sign: bool = False) -> str:
    """Two decimals without a leading zero."""
    return latex_cell(bare(signed(value) if sign else f"{value:z.2f}"))


def lift_field(line: ReportLine) -> str:
    if line.naive or line.lift is None:
        return "--"
    return plus_minus(line.lift) + MARK * bool(mark(line.contrast))


REPORT_FIELDS: Mapping[str, Field] = {
    "ASD": lambda line: plus_minus(line.asd),
    "lift": lift_field,
    "right (%)": lambda line: percent(getattr(line.accuracy, "value", None)).removesuffix("%"),
}


PAPER_FIELDS: Mapping[str, Field] = {
    "ASD": lambda line: plus_minus(line.asd),
    "slope": lambda line: plus_minus(
        line.slope.estimate if isinstance(line, PivotLine) and line.slope else None
    ),
    "JSE": lambda line: plus_minus(line.jse if isinstance(line, PivotLine) else None),
}


def report_table(results: Results, every: bool, comments: Iterable[str]) -> str:
    """The rows of a report; many are averaged in groups unless `every` row is asked for."""
    comments = (*comments, *_provenance(results))
    if len(results.rows) <= MOST_ROWS or every:
        long = len(results.rows) > MOST_ROWS
        return paper_table(results, results.rows, _with_lift(results.rows), comments, long=long)
    by = grouping(results)
    lines = pivot(results, by)
    return paper_table(results, lines, _with_lift(lines), comments, by=by)


def groups_table(
    results: Results,
    lines: Sequence[PivotLine],
    by: Sequence[str],
    paper: bool,
    comments: Iterable[str],
) -> str:
    """The groups of a report. paper: with slope and JSE, as in the main table of the paper."""
    fields = _with_lift(lines)
    if paper:
        sloped = any(line.slope for line in lines)
        fields = {name: f for name, f in PAPER_FIELDS.items() if name != "slope" or sloped}
    return paper_table(results, lines, fields, (*comments, *_provenance(results)), by=by)


def _with_lift(lines: Sequence[ReportLine]) -> Mapping[str, Field]:
    lifted = any(line.lift for line in lines)
    return {name: field for name, field in REPORT_FIELDS.items() if lifted or name != "lift"}


def _provenance(results: Results) -> Iterator[str]:
    """Facts that a later reader needs to make the table again."""
    seeds = sorted({row.axes.seed for row in results.rows if row.axes.seed is not None})
    seed = f", seed {', '.join(map(str, seeds))}" * bool(seeds)
    yield f"oversight-bench {version('oversight-bench')}, sweep {results.name}{seed}"
    yield from settings_of(results)


def _sentences(
    results: Results, lines: Sequence[ReportLine], fields: Iterable[str], ends: bool
) -> list[str]:
    """A caption of two to four lines: measures, problems, roles, intervals, lifts, simulation.
    ends: whether some interval is stated by its ends."""
    score = SCORE_NAMES[results.score]
    measures = [f"Agent score difference (ASD, {score})"]
    names = [*fields]
    measures += ["lift over the naive judge"] * ("lift" in names)
    measures += ["slope of ASD over EAS"] * ("slope" in names)
    measures += [f"judge score expected (JSE, beta {results.beta:g})"] * ("JSE" in names)
    counts = sorted({line.n for line in lines if line.n}) or [0]
    problems = counted_between(counts[0], counts[-1], "problem")
    roles = []
    for role in ("agent", "judge"):
        several = {getattr(row, role) for row in results.rows} - {""}
        roles += [f"{role} {name}" for name in several if len(several) == 1]
    first = " and ".join([", ".join(measures[:-1]), measures[-1]] if measures[1:] else measures)
    groups = any(isinstance(line, PivotLine) for line in lines)
    sentences = [f"{first}; {', '.join([problems, *roles])}."]
    sentences += ["Means over the rows of each group."] * groups
    brackets = "; [ ]: interval where it is not symmetric" * ends
    sentences.append(f"±: half the 95% interval{brackets}.")
    contrasts = [line.contrast for line in lines if line.contrast and line.lift]
    if "lift" in names and contrasts:
        differ = sum(contrast.verdict in ("better", "worse") for contrast in contrasts)
        if differ == len(contrasts):
            sentences.append("All lifts differ from 0 (Holm).")
        else:
            sentences.append(f"{differ} of {len(contrasts)} lifts differ from 0 (Holm).")
    simulated = {"all": "Simulated models.", "some": "Some models are simulated."}
    sentences += filter(None, [simulated.get(results.simulation)])
    return sentences
