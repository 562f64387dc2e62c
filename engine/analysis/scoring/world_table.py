"""Table of a row's worlds by question, and its measures: ASD, JSE, EAS and bounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ....protocols.scores import RANGES, applicable
from .arrays import Flags, Floats, Places
from .bounds import Bounds, bounded, over_draws, world_bounds
from .inference import estimate, estimates
from .sample import Sample
from .worlds import Worlds, asd_ends, chosen_ends


@dataclass(frozen=True, slots=True)
class RowSamples:
    """The measures of one row of a report, question by question."""

    asd: Sample
    jse: tuple[Sample, ...]
    """One per beta."""
    eas: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WorldBlock:
    """The worlds of questions with equally many answers."""

    questions: Places
    """Indices of the questions in the table, ascending."""
    worlds: Worlds
    """Questions × draws × worlds × answers; NaN without a verdict."""
    doubtful: Flags
    """Worlds that failed or whose verdict is in doubt, questions × draws × worlds."""

    @property
    def whole(self) -> Flags:
        """Whether a draw has a verdict in every world; questions × draws."""
        there = ~np.isnan(self.worlds.verdicts[..., 0])
        found: Flags = np.logical_and.reduce(there, axis=-1)
        return found


_Ends: TypeAlias = tuple[Floats | float, Floats | float]
_Measured: TypeAlias = tuple[WorldBlock, Flags, Sequence[Floats], Sequence[_Ends]]
"""Questions, which of their draws count, measures (questions × draws), and the ends of each."""


@dataclass(frozen=True, slots=True, eq=False)
class WorldTable:
    """The worlds of one row's questions, one block per number of answers."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    """One per question, as in Sample."""
    blocks: tuple[WorldBlock, ...]
    certain: bool = False
    """Whether its verdicts are so by definition."""

    def samples(self, score: str, betas: Sequence[float]) -> RowSamples | None:
        """Measures of the questions with a verdict in every world of some draw, each the mean over
        such draws; None if no such question admits the score."""
        parts = []
        for block in self.admitting(score):
            worlds = block.worlds
            chosen = [worlds.propensity(beta) for beta in betas]
            measures = [worlds.asd(score)]
            for scores in (worlds.judge_scores(score), worlds.agent_scores(score)):
                measures += [(propensity * scores).sum(axis=-1) for propensity in chosen]
            ends = chosen_ends(worlds.verdicts.shape[-1], RANGES[score], worlds.compat)
            both: list[_Ends] = [_asd_ends(block, score), *[ends] * (2 * len(betas))]
            parts.append((block, block.whole, measures, both))
        if not (found := self._sampled(parts)):
            return None
        asd, *chosen_ones = found
        count = len(betas)
        return RowSamples(asd, tuple(chosen_ones[:count]), tuple(chosen_ones[count:]))

    def extremes(self, score: str) -> tuple[Sample, Sample] | None:
        """Least and most ASD of each question with all worlds of some draw run, over all that its
        failed and doubtful worlds could have been; None without such a question."""
        parts = []
        for block in self.admitting(score):
            both = [e.sum(axis=-1) for e in world_bounds(block.worlds, block.doubtful, score)]
            parts.append((block, ~np.isnan(both[0]), both, [_asd_ends(block, score)] * 2))
        found = self._sampled(parts)
        return (found[0], found[1]) if found else None

    def bounds(self, score: str) -> Bounds | None:
        """Bounds of the mean ASD over the questions with all worlds of some draw run, each the mean
        over such draws; None if there is none."""
        if not (extremes := self.extremes(score)):
            return None
        sure, doubtful = [], 0
        for block in self.admitting(score):
            doubts: Flags = np.logical_or.reduce(block.doubtful, axis=-1)
            ran = ~np.isnan(world_bounds(block.worlds, block.doubtful, score)[0].sum(axis=-1))
            doubtful += int((ran & doubts).any(axis=1).sum())
            ends = [_asd_ends(block, score)]
            sure.append((block, block.whole & ~doubts, [block.worlds.asd(score)], ends))
        keep, drop = self.samples(score, ()), self._sampled(sure)
        worst, best = estimates(extremes)
        return Bounds(
            worst.n,
            doubtful,
            estimate(drop[0]) if drop else None,
            estimate(keep.asd) if keep else None,
            worst.value,
            best.value,
            bounded(worst, best),
        )

    def admitting(self, score: str) -> Iterator[WorldBlock]:
        """The blocks that admit a score: log odds are for two answers only."""
        for block in self.blocks:
            if score in applicable(block.worlds.values.shape[-1]):
                yield block

    def _sampled(self, parts: Sequence[_Measured]) -> list[Sample]:
        """A sample of each measure, over the questions with a draw that counts; [] without any."""
        places, columns, widths = [], [], []
        for block, counting, measures, ends in parts:
            there = counting.any(axis=1)
            places.append(block.questions[there])
            columns.append(np.stack([over_draws(each, counting)[there] for each in measures]))
            both = [np.broadcast_to(end, there.shape)[there] for each in ends for end in each]
            widths.append(np.stack(both))
        if not places or not len(every := np.concatenate(places)):
            return []
        order = np.argsort(every)
        questions = every[order].tolist()
        ids = tuple(self.ids[n] for n in questions)
        groups = tuple(self.groups[n] for n in questions)
        reach = np.concatenate(widths, axis=1).mean(axis=1).reshape(-1, 2).tolist()
        found = [
            Sample(ids, tuple(values), groups, (low, high))
            for values, (low, high) in zip(
                np.concatenate(columns, axis=1)[:, order].tolist(), reach, strict=True
            )
        ]
        return [each.settled() for each in found] if self.certain else found


def _asd_ends(block: WorldBlock, score: str) -> tuple[Floats, Floats]:
    """Lowest and highest possible ASD of each question."""
    worlds, shape = block.worlds, block.doubtful.shape[:2]
    low, high = asd_ends(worlds.values, RANGES[score], worlds.compat)
    return np.broadcast_to(low, shape)[:, 0], np.broadcast_to(high, shape)[:, 0]
