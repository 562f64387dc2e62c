"""Graded proposals: how well the verdicts of each row tell right proposals from wrong ones.

For problems split into proposals (`proposals: true`), where a verdict is the probability that the
proposal is right: it is accepted above one half. J = P(accepted | right) - P(accepted | wrong)
(Youden 1950); AUROC of the probability; and the lift of J over the naive judge's. With a critic who
is right with probability t, followed with probability w by a judge who is right alone with j, the
lift in balanced accuracy is w (t - j), and that of J twice as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...protocols.datasets.proposals import ACCEPT
from ...protocols.scoring.arrays import Floats, codes_of
from ...protocols.scoring.calibration import Auroc, auroc
from ...protocols.scoring.estimate import Estimate
from ...protocols.scoring.inference import Influences, mean_of
from ..display.finding import Finding, Part, figure, number, program, word
from ..errors import UsageError
from .rows import RunRows


@dataclass(frozen=True, slots=True)
class Graded:
    """How a row grades proposals."""

    right: Influences
    """Share of right proposals that are accepted."""
    wrong: Influences
    """Share of wrong ones."""
    area: Auroc

    @property
    def youden(self) -> Influences:
        return self.right - self.wrong


@dataclass(frozen=True, slots=True)
class GradedLine:
    """A row of the table."""

    protocol: str
    agent: str
    judge: str
    n: int
    right: Estimate
    wrong: Estimate
    youden: Estimate
    lift: Estimate | None
    """Of J over that of the naive judge."""
    area: Auroc


def graded(accepted: Floats, is_right: Floats, groups: Sequence[str]) -> Graded | None:
    """From the probability of each proposal that it is right, whether it is, and its problem; None
    without proposals of both kinds. A probability of one half accepts half."""
    positive = is_right > 0.5
    if positive.all() or not positive.any():
        return None
    taken = np.where(np.abs(accepted - 0.5) < 1e-9, 0.5, accepted > 0.5)
    keys = np.array(groups)
    right, wrong = (
        mean_of(taken[side], {"problem": keys[side]}, (0.0, 1.0)) for side in (positive, ~positive)
    )
    return Graded(right, wrong, auroc(accepted, is_right, codes_of(list(groups))))


def graded_finding(run: RunRows) -> Finding:
    """Every row of a run on proposals. UsageError for a run without them."""
    problems = run.sweep.problems
    accept = [[answer.text for answer in p.question.answers] for p in problems]
    if not all(ACCEPT in texts for texts in accept):
        raise UsageError(
            f"{run.folder}: its problems are no proposals; write proposals: true in the settings "
            "of the data set"
        )
    place = [texts.index(ACCEPT) for texts in accept]
    is_right = [float(p.values[at] > 0) for p, at in zip(problems, place, strict=True)]
    groups = [p.group or p.id for p in problems]
    rows = run.sweep.rows
    cells, found, counts = run.table.cells, list[Graded | None](), list[int]()
    argued = np.array(place)[cells.problem]
    for at in range(len(rows)):
        probs = run.table.probs[cells.places(at), argued]
        there = ~np.isnan(probs)
        numbers, of = np.unique(cells.problem[there], return_inverse=True)
        counts.append(len(numbers))
        if not len(numbers):
            found.append(None)
            continue
        means = np.bincount(of, probs[there]) / np.bincount(of)
        ids = [groups[n] for n in numbers.tolist()]
        found.append(graded(means, np.array(is_right)[numbers], ids))
    naive = {row.judge: each for row, each in zip(rows, found, strict=True) if row.naive and each}
    lines = []
    for row, each, count in zip(rows, found, counts, strict=True):
        if each is None:
            continue
        base = None if row.naive else naive.get(row.judge)
        lines.append(
            GradedLine(
                row.kind,
                row.agent,
                row.judge,
                count,
                each.right.estimate(),
                each.wrong.estimate(),
                each.youden.estimate(),
                (each.youden - base.youden).estimate() if base else None,
                each.area,
            )
        )
    columns = [
        word("protocol", "protocol"),
        word("agent", "agent"),
        word("judge", "judge"),
        number("n", "n"),
        figure("accepts right", "right", 2, sign=False),
        figure("accepts wrong", "wrong", 2, sign=False),
        figure("J", "youden", 2, key="j"),
        figure("lift of J", "lift", 2),
        figure("AUROC", "area.area", 2, sign=False, key="auroc"),
        program("errors", "youden.errors"),
    ]
    notes = (
        "a proposal is accepted above one half, by the mean of its worlds. J: accepts right less "
        "accepts wrong. lift: J less the naive judge's; 0 for a critic no better than the judge.",
    )
    title = f"{run.sweep.name}: proposals, graded"
    return Finding((Part("graded", title, columns, lines, notes),), {"run": run.run.name})
