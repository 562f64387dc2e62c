"""What a run says: outcomes meet the values of the answers, row by row of the report."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan

import numpy as np
import numpy.typing as npt

from cache.address import value_address
from engine.runs.outcome import Record
from engine.sweeps.rows import Row
from engine.sweeps.sweep import Sweep
from protocols.baselines import NaiveJudge
from protocols.sample import Sample, paired
from protocols.statistics import Estimate, estimates, unresampled
from protocols.worlds import BETAS, Measures, Worlds, measure, over_draws

Floats = npt.NDArray[np.float64]


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
    samples: tuple["RowSamples | None", ...]
    """What the rows were estimated from, in the same order."""

    @property
    def failed(self) -> int:
        return sum(row.failed for row in self.rows)

    @property
    def missing(self) -> int:
        return sum(row.missing for row in self.rows)


@dataclass(frozen=True, slots=True)
class RowSamples:
    """One row's measures, problem by problem."""

    asd: Sample
    jse: tuple[Sample, ...]
    """One a beta."""
    eas: tuple[Sample, ...]


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
    tally = _Tally(sweep)
    for record in records:
        tally.add(record)
    samples = [tally.samples(number, score, betas) for number in range(len(sweep.rows))]
    lifts = _lifts(sweep.rows, samples)
    figures = _estimates([*samples, *lifts], intervals)
    rows = []
    for number, (row, estimate) in enumerate(zip(sweep.rows, figures, strict=False)):
        lift = figures[len(samples) + number]
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
                tally.failures[number],
                tally.counts[number],
                tally.chose_right(number),
            )
        )
    return Results(sweep.name, score, tuple(betas), tuple(rows), tuple(samples))


class _Tally:
    """Verdicts by place, in one array: a million cells must not be a million objects."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        answers = [len(problem.values) for problem in sweep.problems]
        rows = len(sweep.rows)
        sizes = [count * sweep.draws * rows for count in answers]
        self._starts = [0, *accumulate(sizes)]
        self.probs: Floats = np.full((len(sweep), max(answers)), np.nan)
        self.cells_a_row = len(sweep) // rows
        self.landed = [0] * rows
        self.failures: list[Counter[str]] = [Counter() for _ in range(rows)]
        self.counts: list[Counter[str]] = [Counter() for _ in range(rows)]
        self._chose: list[list[bool]] = [[] for _ in range(rows)]
        self._best = {
            problem.id: {
                answer.label
                for answer, value in zip(problem.question.answers, problem.values, strict=True)
                if value == max(problem.values)
            }
            for problem in sweep.problems
        }

    def add(self, record: Record) -> None:
        problem = bisect_right(self._starts, record.place) - 1
        within = record.place - self._starts[problem]
        number = within // len(self.sweep.problems[problem].values) % len(self.sweep.rows)
        self.landed[number] += 1
        self.counts[number].update(record.counts)
        if record.failure is not None:
            self.failures[number][record.failure.kind] += 1
        if record.probs is not None:
            self.probs[record.place, : len(record.probs)] = record.probs
        if "chose" in record.measures:
            self._chose[number].append(record.measures["chose"] in self._best[record.problem])

    def chose_right(self, row: int) -> float | None:
        chose = self._chose[row]
        return sum(chose) / len(chose) if chose else None

    def samples(self, row: int, score: str, betas: Sequence[float]) -> RowSamples | None:
        """The measures of a row's complete problems."""
        found = [
            (problem, measured)
            for n, problem in enumerate(self.sweep.problems)
            if (measured := self._measured(n, row, score, betas)) is not None
        ]
        if not found:
            return None
        ids = tuple(problem.id for problem, _ in found)
        groups = tuple(problem.group for problem, _ in found)

        def sample(values: Iterable[float]) -> Sample:
            return Sample(ids, tuple(values), groups)

        each = range(len(betas))
        return RowSamples(
            sample(measured.asd for _, measured in found),
            tuple(sample(measured.jse[beta] for _, measured in found) for beta in each),
            tuple(sample(measured.eas[beta] for _, measured in found) for beta in each),
        )

    def _measured(
        self, problem: int, row: int, score: str, betas: Sequence[float]
    ) -> Measures | None:
        values = self.sweep.problems[problem].values
        draws = []
        for draw in range(self.sweep.draws):
            start = self._starts[problem] + (draw * len(self.sweep.rows) + row) * len(values)
            verdicts = self.probs[start : start + len(values), : len(values)].tolist()
            if any(isnan(verdict[0]) for verdict in verdicts):
                continue
            worlds = Worlds(tuple(map(tuple, verdicts)), values)
            draws.append(measure(worlds, betas, (score,)))
        means = over_draws(draws) if draws else ()
        # Log odds are not defined where there are more than two answers.
        return means[0] if means else None


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
