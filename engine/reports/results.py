"""What a run says: outcomes meet the values of the answers, row by row of the report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cache.address import value_address
from engine.reports.tally import RowSamples, Tally
from engine.runs.outcome import Record
from engine.sweeps.rows import Row
from engine.sweeps.sweep import Sweep
from protocols.baselines import NaiveJudge
from protocols.bounds import Bounds
from protocols.sample import Sample, paired
from protocols.statistics import Estimate, estimates, unresampled
from protocols.worlds import BETAS


@dataclass(frozen=True, slots=True)
class RowResult:
    """One line of the report. Estimates are over problems; None where no problem is complete."""

    kind: str
    agent: str
    judge: str
    n: int
    """Problems with a verdict in every world of at least one draw."""
    cells: int
    """Cells of this row in the sweep."""
    failed: int
    missing: int
    """Cells that have not been run yet."""
    asd: Estimate | None
    jse: Mapping[float, Estimate]
    """By beta, the inverse greed of the agent."""
    eas: Mapping[float, Estimate]
    lift: Estimate | None
    """ASD minus the naive judge's on the same problems with the same judge; None without one."""
    bounds: Bounds | None
    """What worlds that failed or are in doubt could change of `asd`; None if no problem was run."""
    failures: Mapping[str, int]
    """Failures by kind."""
    counts: Mapping[str, int]
    """Refusals, truncations, forged tags and the like, over all cells."""
    chose_right: float | None
    """Share of cells whose agent chose a best answer of its own accord; None where none chose."""


@dataclass(frozen=True, slots=True)
class Results:
    """All rows of a run under one score."""

    name: str
    score: str
    betas: tuple[float, ...]
    rows: tuple[RowResult, ...]
    samples: tuple[RowSamples | None, ...]
    """What the rows were estimated from, in the same order."""

    @property
    def failed(self) -> int:
        return sum(row.failed for row in self.rows)

    @property
    def missing(self) -> int:
        return sum(row.missing for row in self.rows)


def collect(
    sweep: Sweep,
    records: Iterable[Record],
    *,
    score: str = "brier",
    betas: Sequence[float] = BETAS,
    intervals: bool = True,
) -> Results:
    """Scores every row of a sweep by the outcomes there are.

    intervals: for JSE and EAS as well as for ASD and lift; they take most of the time.

    A problem counts in a row once all its worlds of a draw have verdicts; its measures are means
    over such draws. Intervals resample problems, those of a group together, with one seed for all
    rows: rows with the same problems are compared on the same resamples.
    """
    tally = Tally(sweep)
    for record in records:
        tally.add(record)
    samples = [tally.samples(number, score, betas) for number in range(len(sweep.rows))]
    lifts = _lifts(sweep.rows, samples)
    figures = _estimates([*samples, *lifts], intervals)
    rows = []
    for number, (row, sample) in enumerate(zip(sweep.rows, samples, strict=True)):
        estimate, lift = figures[number], figures[len(samples) + number]
        rows.append(
            RowResult(
                row.kind,
                row.agent,
                row.judge,
                estimate[0].n if estimate else 0,
                tally.cells_a_row,
                sum(tally.failures[number].values()),
                tally.cells_a_row - tally.landed[number],
                estimate[0] if estimate else None,
                dict(zip(betas, estimate[1 : 1 + len(betas)], strict=False)),
                dict(zip(betas, estimate[1 + len(betas) :], strict=False)),
                lift[0] if lift else None,
                tally.bounds(number, score, sample.asd if sample else None),
                tally.failures[number],
                tally.counts[number],
                tally.chose_right(number),
            )
        )
    return Results(sweep.name, score, tuple(betas), tuple(rows), tuple(samples))


def _lifts(rows: Sequence[Row], samples: Sequence[RowSamples | None]) -> list[RowSamples | None]:
    """Each row's ASD minus that of the naive judge, where the sweep has one for the same judge."""
    naive = {
        value_address(row.protocol.judge): sample
        for row, sample in zip(rows, samples, strict=True)
        if isinstance(row.protocol, NaiveJudge)
    }
    lifts: list[RowSamples | None] = []
    for row, sample in zip(rows, samples, strict=True):
        base = naive.get(value_address(row.protocol.judge))
        shared = sample and base and set(sample.asd.questions) & set(base.asd.questions)
        if sample is None or base is None or not shared:
            lifts.append(None)
        else:
            lifts.append(RowSamples(paired(sample.asd, base.asd), (), ()))
    return lifts


def _estimates(rows: Sequence[RowSamples | None], intervals: bool) -> list[tuple[Estimate, ...]]:
    """Estimates of every row's samples: of ASD, then JSE and EAS by beta.

    Samples over the same problems are resampled together, so that rows can be compared.
    """
    together: dict[tuple[str, ...], list[Sample]] = {}
    for row in rows:
        if row is not None:
            shown = [row.asd, *row.jse, *row.eas] if intervals else [row.asd]
            together.setdefault(row.asd.questions, []).extend(shown)
    drawn = {problems: iter(estimates(samples)) for problems, samples in together.items()}

    def figures(row: RowSamples) -> Iterator[Estimate]:
        yield next(drawn[row.asd.questions])
        for sample in (*row.jse, *row.eas):
            yield next(drawn[sample.questions]) if intervals else unresampled(sample)

    return [tuple(figures(row)) if row is not None else () for row in rows]
