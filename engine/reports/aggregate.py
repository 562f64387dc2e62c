"""The outcomes of a run by their places in the sweep, and what they make of each row."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan

import numpy as np

from oversight.engine.reports.failures import called
from oversight.engine.reports.secondary import SecondaryMeasures
from oversight.engine.runs.outcome import OutcomeRecord
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.judges.logprob import ENOUGH
from oversight.protocols.scores import RANGES, applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.bounds import (
    Bounds,
    Flag,
    WorldOutcome,
    WorldOutcomes,
    bounds_of_one,
    certain,
    over_questions,
)
from oversight.protocols.scoring.sample import Sample, widest
from oversight.protocols.scoring.worlds import Measures, Worlds, asd_ends, measure, over_draws

FLAGS: Mapping[str, Flag] = {
    "refused": "refused",
    "conceded": "conceded",
    "off_side": "off side",
}
"""What puts a verdict in doubt, by the name under which it is counted; the gravest first."""


@dataclass(frozen=True, slots=True)
class RowSamples:
    """One row's measures, problem by problem."""

    asd: Sample
    jse: tuple[Sample, ...]
    """One a beta."""
    eas: tuple[Sample, ...]


class OutcomeTable:
    """Verdicts by place, in one array: a million cells must not be a million objects."""

    def __init__(self, sweep: Sweep, *, growing: bool = False) -> None:
        """growing: outcomes go on landing while figures are asked for. The measures of a problem
        are then kept until another outcome of it lands; in a table that is read once they would
        only take room."""
        self.sweep = sweep
        self._kept: dict[tuple[int, int], dict[object, Measures | None]] | None = (
            {} if growing else None
        )
        """By problem and row, then by score and betas."""
        answers = [len(problem.values) for problem in sweep.problems]
        rows = len(sweep.rows)
        sizes = [count * sweep.draws * rows for count in answers]
        self._starts = [0, *accumulate(sizes)]
        self.probs: Floats = np.full((len(sweep), max(answers)), np.nan)
        self.cells_a_row = len(sweep) // rows
        self.landed = [0] * rows
        self.failures: list[Counter[str]] = [Counter() for _ in range(rows)]
        self.counts: list[Counter[str]] = [Counter() for _ in range(rows)]
        self._doubts: list[dict[int, Flag]] = [{} for _ in range(rows)]
        """By place in the sweep."""
        self.redraws: dict[int, tuple[tuple[float, ...], ...]] = {}
        """Verdicts on one transcript, where a judge was asked several times; by place."""
        self.beside = SecondaryMeasures(sweep)

    def add(self, record: OutcomeRecord) -> None:
        problem = self._problem(record.place)
        within = record.place - self._starts[problem]
        number = within // len(self.sweep.problems[problem].values) % len(self.sweep.rows)
        self.landed[number] += 1
        if self._kept:
            self._kept.pop((problem, number), None)
        if record.counts:
            self.counts[number].update(record.counts)
        if record.failure is not None:
            self.failures[number][called(record.failure.kind)] += 1
        if (doubt := _doubt(record)) != "":
            self._doubts[number][record.place] = doubt
        if record.probs is not None:
            self.probs[record.place, : len(record.probs)] = record.probs
        if record.redraws:
            self.redraws[record.place] = record.redraws
        if record.measures or record.counts or record.captured is not None:
            self.beside.add(record, number, problem)

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
        asd_range = widest(
            asd_ends(values, RANGES[score]) for values in {problem.values for problem, _ in found}
        )

        def sample(values: Iterable[float], ends: tuple[float, float] = RANGES[score]) -> Sample:
            return Sample(ids, tuple(values), groups, ends)

        each = range(len(betas))
        return RowSamples(
            sample((measured.asd for _, measured in found), asd_range),
            tuple(sample(measured.jse[beta] for _, measured in found) for beta in each),
            tuple(sample(measured.eas[beta] for _, measured in found) for beta in each),
        )

    def bounds(self, row: int, score: str, asd: Sample | None) -> Bounds | None:
        """Bounds of a row's ASD over the problems that were run in every world of some draw.

        asd: that of the row's complete problems. None if there is no problem.
        """
        if not self._doubts[row]:
            return certain(asd.mean, len(asd.values)) if asd else None
        complete = dict(zip(asd.questions, asd.values, strict=True)) if asd else {}
        doubtful = {self._problem(place) for place in self._doubts[row]}
        each = []
        for n, problem in enumerate(self.sweep.problems):
            if n not in doubtful:
                if problem.id in complete:
                    each.append(certain(complete[problem.id]))
            elif score in applicable(len(problem.values)) and (draws := self._endings(n, row)):
                each.append(bounds_of_one(draws, score))
        return over_questions(each) if each else None

    def doubts(self, row: int) -> Mapping[int, Flag]:
        """The cells of a row that failed or are in doubt, by their place in the sweep."""
        return self._doubts[row]

    def _endings(self, problem: int, row: int) -> list[WorldOutcomes]:
        """How the worlds of a problem ended, for every draw whose worlds have all been run."""
        values, doubts = self.sweep.problems[problem].values, self._doubts[row]
        found = []
        for draw in range(self.sweep.draws):
            places = self._worlds(problem, row, draw)
            endings = [
                WorldOutcome(None if isnan(verdict[0]) else tuple(verdict), doubts.get(place, ""))
                for place, verdict in zip(places, self._verdicts(places), strict=True)
                if place in doubts or not isnan(verdict[0])
            ]
            if len(endings) == len(values):
                found.append(WorldOutcomes(tuple(endings), values))
        return found

    def _measured(
        self, problem: int, row: int, score: str, betas: Sequence[float]
    ) -> Measures | None:
        if self._kept is None:
            return self._mean_over_draws(problem, row, score, betas)
        kept, key = self._kept.setdefault((problem, row), {}), (score, tuple(betas))
        if key not in kept:
            kept[key] = self._mean_over_draws(problem, row, score, betas)
        return kept[key]

    def _mean_over_draws(
        self, problem: int, row: int, score: str, betas: Sequence[float]
    ) -> Measures | None:
        values = self.sweep.problems[problem].values
        draws = []
        for draw in range(self.sweep.draws):
            verdicts = self._verdicts(self._worlds(problem, row, draw))
            if any(isnan(verdict[0]) for verdict in verdicts):
                continue
            worlds = Worlds(tuple(map(tuple, verdicts)), values)
            draws.append(measure(worlds, betas, (score,)))
        means = over_draws(draws) if draws else ()
        # Log odds are not defined where there are more than two answers.
        return means[0] if means else None

    def _problem(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _worlds(self, problem: int, row: int, draw: int) -> range:
        """The places of a problem's worlds, in answer order."""
        answers = len(self.sweep.problems[problem].values)
        start = self._starts[problem] + (draw * len(self.sweep.rows) + row) * answers
        return range(start, start + answers)

    def _verdicts(self, worlds: range) -> list[list[float]]:
        """Of each world a probability an answer; not a number where there is no verdict."""
        found: list[list[float]] = self.probs[worlds.start : worlds.stop, : len(worlds)].tolist()
        return found


def _doubt(record: OutcomeRecord) -> Flag:
    if record.failure is not None:
        return "failed"
    if record.counts:
        for name, doubt in FLAGS.items():
            if record.counts.get(name):
                return doubt
    return "guess" if record.captured is not None and record.captured < ENOUGH else ""
