"""A run under one score, as pictures read it: figures with intervals, verdicts, baselines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan

import numpy as np

from ...protocols.question import Problem
from ...protocols.scoring.arrays import Floats
from ...protocols.scoring.sample import Sample
from ...protocols.scoring.worlds import BETAS
from ..errors import UsageError
from ..reports.report import SCORE_NAMES
from ..reports.results import Results, collect
from ..runs.lookup import Parts
from ..runs.reader import Place, RunReader
from ..sweeps.grid import Grid, GridRow
from .completed import tallied


@dataclass
class ScoredRun:
    """One run under one score."""

    run: RunReader
    score: str = "brier"
    betas: tuple[float, ...] = BETAS
    parts: Parts = field(default_factory=Parts)
    """Which rows a picture shows."""

    @property
    def sweep(self) -> Grid:
        return self.run.sweep

    def title(self, kind: str) -> str:
        return f"{self.run.name}: {kind} ({SCORE_NAMES[self.score]})"

    @cached_property
    def results(self) -> Results:
        return collect(self.sweep, self.run.outcomes(), score=self.score, betas=self.betas)

    @cached_property
    def rows(self) -> list[tuple[int, GridRow]]:
        """The rows that the picture shows, by their numbers in the sweep. UsageError if none."""
        found = [(n, row) for n, row in enumerate(self.sweep.rows) if self.parts.fit(row)]
        if not found:
            names = "\n  ".join(f"{r.kind} · {r.agent} · {r.judge}" for r in self.sweep.rows[:20])
            raise UsageError(f"no row of {self.run.folder} fits; there are:\n  {names}")
        return found

    def label(self, row: GridRow) -> str:
        """What tells a row from the others: an agent or a judge that all have is left out."""
        names = [row.shown]
        if len({each.agent for _, each in self.rows} - {""}) > 1:
            names.append(row.agent)
        if len({each.judge for _, each in self.rows}) > 1:
            names.append(row.judge)
        return " · ".join(filter(None, names))

    def without(self, row: GridRow, setting: str, value: int) -> tuple[str, str, str]:
        """The names of a row, less the value of one of its settings."""
        if setting == "n":
            return row.kind, row.agent.removesuffix(f" best of {value}"), row.judge
        words = row.kind.split()
        if str(value) in words:
            # The last: `debate simultaneous 2`.
            del words[len(words) - 1 - words[::-1].index(str(value))]
        return " ".join(words), row.agent, row.judge

    def verdicts(self, number: int) -> Sequence[tuple[Problem, tuple[tuple[float, ...], ...]]]:
        """Of one row, every problem and draw with a verdict in all of its worlds."""
        probs = tallied(self.run, self.score).probs
        found = []
        for at, problem in enumerate(self.sweep.problems):
            for draw in range(self.sweep.draws):
                cells = self.run.worlds(Place(number, at, draw))
                verdicts = probs[cells.start : cells.stop, : len(problem.values)].tolist()
                if not any(isnan(verdict[0]) for verdict in verdicts):
                    found.append((problem, tuple(map(tuple, verdicts))))
        return found

    def baselines(self) -> tuple[dict[str, Sample], dict[str, Sample]]:
        """By judge, ASD of the naive judge who may not read the passage, and of the one who may."""
        closed: dict[str, Sample] = {}
        opened: dict[str, Sample] = {}
        for row, samples in zip(self.sweep.rows, self.results.samples, strict=True):
            if row.naive and samples is not None:
                into = opened if row.reads_passage else closed
                into[row.judge_apart] = samples.asd
        return closed, opened


def asd_by_problem(sweep: Grid, results: Results) -> Floats:
    """ASD of each problem under each row, problems x rows; not a number where it is not known."""
    found = np.full((len(sweep.problems), len(sweep.rows)), np.nan)
    place = {problem.id: n for n, problem in enumerate(sweep.problems)}
    for number, samples in enumerate(results.samples):
        if samples is not None:
            at = [place[id] for id in samples.asd.questions]
            found[at, number] = samples.asd.values
    return found
