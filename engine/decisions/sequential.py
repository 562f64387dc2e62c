"""Paying for precision, not for cells: a run that stops once it has told enough.

Clusters of problems are run in a seeded order, every row and world of each. After fixed numbers of
them the difference is looked at, with an interval that holds at all looks at once
(`oversight.protocols.scoring.sequential`); so the same outcomes decide the same on every resume and
replay.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import orjson

from oversight.engine.decisions.rows import pairs_meant, row_names
from oversight.engine.decisions.statement import Aim
from oversight.engine.display.quantity import signed
from oversight.engine.errors import RunFolderError, UsageError
from oversight.engine.reports.aggregate import OutcomeTable
from oversight.engine.runs.run_folder import RunFolder, outcomes
from oversight.engine.sweeps.sweep import Cell, Sweep
from oversight.engine.system.files import replace_file
from oversight.protocols.question import Problem
from oversight.protocols.scores import applicable
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.power import Spread, questions_needed
from oversight.protocols.scoring.quantiles import NORMAL
from oversight.protocols.scoring.sample import Sample, paired
from oversight.protocols.scoring.sequential import (
    FIRST_LOOK,
    Decision,
    Rule,
    SequentialOutcome,
    checkpoints,
    decide,
    order,
)

DECISION_FILE = "decision.json"

ALPHA, POWER = 0.05, 0.8


@dataclass(frozen=True, slots=True)
class RunDecision:
    """What a run that may stop early has come to."""

    aim: str
    first: str
    second: str
    score: str
    outcome: SequentialOutcome
    clusters: int
    """Clusters that were run when this was decided."""
    clusters_in_all: int
    mean: float | None
    """None before the first look."""
    low: float | None
    high: float | None
    fixed_clusters: int | None
    """That a design with one look at its end would have fixed beforehand for the same aim, had it
    known the spread (and, for a direction, the difference at power .8); None if not known."""
    cells: int
    """That were run."""
    cells_left: int

    @property
    def stops(self) -> bool:
        return self.outcome != "undecided"

    def lines(self, calls_a_cell: float = 0.0) -> list[str]:
        """What is told of it. calls_a_cell: distinct calls that a cell took; 0 if not known."""
        if self.mean is None:
            return [f"{self.aim}: not looked at yet, {self.clusters} clusters of problems were run"]
        interval = f"{signed(self.mean, 3)} [{signed(self.low, 3)}, {signed(self.high, 3)}]"
        found = {
            "above": f"known to be above: {interval}",
            "below": f"known to be below: {interval}",
            "precise": f"known as precisely as asked: {interval}",
            "undecided": f"not decided: {interval}",
        }[self.outcome]
        told = [
            f"{self.aim}: {found}, valid at every look",
            f"{self.clusters:,} of {self.clusters_in_all:,} clusters of problems were run",
        ]
        if self.stops and self.cells_left:
            share = self.cells_left / (self.cells + self.cells_left)
            calls = f", about {self.cells_left * calls_a_cell:,.0f} calls" * bool(calls_a_cell)
            told.append(
                f"{self.cells_left:,} cells{calls} were not run ({share:.0%}): nothing more needed"
            )
        if self.fixed_clusters is not None:
            told.append(
                f"a design with one look at its end would have needed {self.fixed_clusters:,} "
                f"clusters, {self.fixed_clusters - self.clusters:+,}"
            )
        return told


class SequentialDesign:
    """The order in which a sweep is run, the looks, and the rule that stops it.

    UsageError if the words of the aim mean no contrast, or several.
    """

    def __init__(self, sweep: Sweep, aim: Aim, score: str = "brier") -> None:
        self.sweep = sweep
        self.aim = aim
        self.score = score
        names = row_names(sweep.rows)
        pairs = pairs_meant(aim.first, aim.second, sweep.rows, names)
        if len(pairs) > 1:
            several = "\n  ".join(f"{names[a]} - {names[b]}" for a, b in pairs[:8])
            raise UsageError(
                f"'{aim}' means {len(pairs)} contrasts; name one with parts of agents and judges:"
                f"\n  {several}"
            )
        self.rows = pairs[0]
        self.names = (names[self.rows[0]], names[self.rows[1]])
        if not any(score in applicable(len(problem.values)) for problem in sweep.problems):
            raise UsageError(f"no problem of {sweep.name} has a {score} score")
        members: dict[str, list[Problem]] = {}
        for problem in sweep.problems:
            members.setdefault(_cluster(problem), []).append(problem)
        self._members = members
        self.clusters = order(members, sweep.seed)
        self.looks = checkpoints(len(self.clusters))
        self.rule = Rule(aim.threshold, aim.precision, ALPHA)

    def batches(self, folder: RunFolder) -> Iterator[Iterable[Cell]]:
        """Missing cells, up to the next look each; no more of them once the rule is met.

        Every batch must have landed before the next is asked for.
        """
        ran = 0
        for look in self.looks:
            due = {problem.id for key in self.clusters[ran:look] for problem in self._members[key]}
            ran = look
            yield (cell for cell in self.sweep.cells(due) if not folder.has(cell.place))
            if self.decision(folder.path).stops:
                return

    def decision(self, folder: Path) -> RunDecision:
        """By the outcomes there are: at the first look that met the rule, or at the last that can
        be made, whatever else was run."""
        table = OutcomeTable(self.sweep)
        left = {
            problem.id: len(problem.values) * self.sweep.draws * len(self.sweep.rows)
            for problem in self.sweep.problems
        }
        for record in outcomes(folder):
            table.add(record)
            left[record.problem] -= 1
        lacking = {id for id, cells in left.items() if cells}
        whole = 0
        for key in self.clusters:
            if any(problem.id in lacking for problem in self._members[key]):
                break
            whole += 1
        found, at = self._looked(self._difference(table), whole)
        cells_left = sum(left.values())
        base = RunDecision(
            str(self.aim),
            *self.names,
            self.score,
            "undecided",
            at or whole,
            len(self.clusters),
            None,
            None,
            None,
            None,
            len(self.sweep) - cells_left,
            cells_left,
        )
        if found is None:
            return base
        low, high = found.interval
        return replace(
            base,
            outcome=found.outcome,
            mean=found.mean,
            low=low,
            high=high,
            fixed_clusters=self._fixed(self._difference(table), at, found),
        )

    def _difference(self, table: OutcomeTable) -> Sample | None:
        one, two = (table.worlds(row).samples(self.score, ()) for row in self.rows)
        if one is None or two is None or not set(one.asd.questions) & set(two.asd.questions):
            return None
        return paired(one.asd, two.asd)

    def _looked(self, apart: Sample | None, whole: int) -> tuple[Decision | None, int]:
        """What is known, and after how many clusters."""
        found, at = None, 0
        for look in self.looks:
            if apart is None or look > whole:
                break
            sums, sizes = self._sums(apart, look)
            there = sizes > 0
            count = int(there.sum())
            # Clusters that failed tell nothing; nobody looks before enough have told something.
            if count < min(FIRST_LOOK, len(self.clusters)) and look < self.looks[-1]:
                continue
            if count < 2:
                continue
            found = decide(sums[there], sizes[there], self.rule, (count,), apart.ends)
            at = look
            if found.stops:
                break
        return found, at

    def _sums(self, apart: Sample, look: int) -> tuple[Floats, Floats]:
        values = dict(zip(apart.questions, apart.values, strict=True))
        sums, sizes = np.zeros(look), np.zeros(look)
        for n, key in enumerate(self.clusters[:look]):
            for problem in self._members[key]:
                if problem.id in values:
                    sums[n] += values[problem.id]
                    sizes[n] += 1
        return sums, sizes

    def _fixed(self, apart: Sample | None, at: int, found: Decision) -> int | None:
        if apart is None:
            return None
        sums, sizes = self._sums(apart, at)
        sums, sizes = sums[sizes > 0], sizes[sizes > 0]
        means = sums / sizes
        variance = float(means.var(ddof=1))
        if not variance:
            return None
        if self.aim.precision is not None:
            z = NORMAL.inv_cdf(1 - ALPHA / 2)
            return max(2, math.ceil(z**2 * variance / self.aim.precision**2))
        difference = found.mean - (self.aim.threshold or 0.0)
        if not difference:
            return None
        return questions_needed(Spread(variance), difference, alpha=ALPHA, power=POWER)


def _cluster(problem: Problem) -> str:
    # A group may be called as a problem is.
    return f"group {problem.group}" if problem.group else f"problem {problem.id}"


def save_decision(folder: Path, decision: RunDecision) -> None:
    """Note it in the run folder. RunFolderError."""
    content = orjson.dumps(asdict(decision), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    replace_file(folder / DECISION_FILE, [content])


def saved_decision(folder: Path) -> RunDecision | None:
    """The one that was noted; None for a run that was to run to its end. RunFolderError."""
    file = folder / DECISION_FILE
    try:
        return RunDecision(**orjson.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError, TypeError) as exc:
        raise RunFolderError(f"{file}: cannot be read: {exc}; move it away to go on") from exc
