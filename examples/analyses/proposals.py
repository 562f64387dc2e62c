"""How well the verdicts of each row tell right proposals from wrong ones: J, and its lift.

oversight measure proposals.py:Proposals RUN     # of a run on problems with `proposals: true`

A verdict is the probability that the proposal is right: it is accepted above one half. J =
P(accepted | right) - P(accepted | wrong) (Youden 1950). With a critic who is right with t, followed
with w by a judge who is right alone with j, the lift of J is 2 w (t - j). So where the critic
decides in private, its own J is audited: what it knows more than the judge is what a lift can come
from. Nothing is sent.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oversight.engine.analysis.catalogue import Analysis
from oversight.engine.analysis.findings.finding import Finding, Part, figure, word
from oversight.engine.analysis.rows import RunRows
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import Floats, Influences, mean_of
from oversight.engine.errors import UsageError
from oversight.engine.run.reader import RunReader
from oversight.protocols.datasets.loader import ACCEPT


class Graded(NamedTuple):
    """How proposals are graded."""

    right: Influences
    """Share of right proposals that are accepted."""
    wrong: Influences
    best: Influences
    """Whether the proposal that is likeliest to be right, of those for one problem, is right."""
    any: Influences
    """Share of right proposals of a problem."""

    @property
    def youden(self) -> Influences:
        return self.right - self.wrong


def graded(accepted: Floats, is_right: Floats, groups: list[str]) -> Graded | None:
    """Grades of probabilities that proposals are right. groups: the problem of each proposal. None
    unless there are right and wrong ones. A probability of one half accepts half."""
    positive = is_right > 0.5
    if positive.all() or not positive.any():
        return None
    taken = np.where(np.abs(accepted - 0.5) < 1e-9, 0.5, accepted > 0.5)
    keys = np.array(groups)
    right, wrong = (
        mean_of(taken[side], {"problem": keys[side]}, (0.0, 1.0)) for side in (positive, ~positive)
    )
    members = defaultdict(list)
    for n, group in enumerate(groups):
        members[group].append(n)
    likeliest = [
        is_right[at][accepted[at] >= accepted[at].max() - 1e-9].mean() for at in members.values()
    ]
    best, any_of = (
        mean_of(values, {"problem": np.array(list(members))}, (0.0, 1.0))
        for values in (likeliest, [is_right[at].mean() for at in members.values()])
    )
    return Graded(right, wrong, best, any_of)


def read(reader: RunReader) -> dict[tuple[str, str, str], tuple[Graded | None, Graded | None]]:
    """By row (protocol, agent, judge): grades of its verdicts, means over worlds and draws; and of
    its critic's private decisions, None without any. UsageError for a run on no proposals."""
    at = {}
    for problem in reader.problems:
        texts = [answer.text for answer in problem.question.answers]
        if ACCEPT not in texts:
            raise UsageError(f"{problem.id} is not a proposal: set proposals: true in the data set")
        at[problem.id] = (problem, texts.index(ACCEPT))
    verdicts = defaultdict(lambda: defaultdict(list))
    decided = defaultdict(lambda: defaultdict(list))
    for each in reader.outcomes():
        problem, place = at[each.problem]
        row = (each.protocol, each.agent, each.judge)
        if each.probs is not None:
            verdicts[row][each.problem].append(each.probs[place])
            if (chose := each.measures.get("critic_chose")) is not None:
                label = problem.question.answers[place].label
                decided[row][each.problem].append(float(chose == label))

    def grades(found: dict[str, list[float]]) -> Graded | None:
        problems = [at[id] for id in found]
        right = np.array([float(problem.values[place] > 0) for problem, place in problems])
        accepted = np.array([np.mean(each) for each in found.values()])
        groups = [problem.group or problem.id for problem, _ in problems]
        return graded(accepted, right, groups) if len(found) else None

    return {row: (grades(verdicts[row]), grades(decided[row])) for row in verdicts}


class Row(NamedTuple):
    """Figures of one row; None where it has no agent, or its critic decides nothing."""

    name: str
    right: Estimate
    wrong: Estimate
    youden: Estimate
    best: Estimate
    lift: Estimate | None
    critic: Estimate | None
    audited: Estimate | None


@dataclass(frozen=True)
class Proposals(Analysis):
    """Print how well the verdicts of each row of RUN tell right proposals from wrong ones."""

    title = "Proposals"
    lead = "How often right and wrong proposals are accepted, and what a critic's help is worth."

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        every = read(run.run)
        alone = {its[2]: found for its, (found, _) in every.items() if found and not its[1]}
        lines = []
        for row, (found, critic) in every.items():
            if found is None:
                continue
            base = alone.get(row[2]) if row[1] else None
            beside = (
                found.youden - base.youden if base else None,
                critic.youden if critic else None,
                critic.youden - base.youden if critic and base else None,
            )
            figures = found.right, found.wrong, found.youden, found.best - found.any, *beside
            told = (each.estimate() if each else None for each in figures)
            lines.append(Row(" · ".join(filter(None, row)), *told))
        columns = [
            word("row", "name"),
            figure("accepts right", "right", 2, sign=False),
            figure("accepts wrong", "wrong", 2, sign=False),
            figure("J", "youden", 2),
            figure("best of several, over any", "best", 2),
            figure("lift of J", "lift", 2),
            figure("critic's J", "critic", 2),
            figure("critic over judge", "audited", 2),
        ]
        return Finding((Part("rows", "proposals: right and wrong ones apart", columns, lines),))
