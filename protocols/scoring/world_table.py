"""Table of a row's worlds by question, and its measures: ASD, JSE, EAS and bounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..scores import RANGES, applicable
from .arrays import Flags, Floats, Places, codes_of
from .bounds import Bounds, bounds, over_draws, world_bounds
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
    """Their indices among all questions of the table, ascending."""
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


@dataclass(frozen=True, slots=True, eq=False)
class WorldTable:
    """The worlds of one row's questions, one block per number of answers."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    """One per question, as in Sample."""
    blocks: tuple[WorldBlock, ...]

    def samples(self, score: str, betas: Sequence[float]) -> RowSamples | None:
        """Measures of the questions with a verdict in every world of some draw, each the mean over
        such draws; None if no such question admits the score."""
        places, columns, asd_widths, chosen_widths = [], [], [], []
        for block in self.admitting(score):
            worlds, whole = block.worlds, block.whole
            there = whole.any(axis=1)
            if not there.any():
                continue
            chosen = [worlds.propensity(beta) for beta in betas]
            judged, earned = worlds.judge_scores(score), worlds.agent_scores(score)
            measures = [worlds.asd(score)]
            for scores in (judged, earned):
                measures += [(propensity * scores).sum(axis=-1) for propensity in chosen]
            places.append(block.questions[there])
            columns.append(np.stack([over_draws(each, whole)[there] for each in measures]))
            low, high = asd_ends(worlds.values, RANGES[score], worlds.compat)
            low, high = (
                np.broadcast_to(end, worlds.values.shape[:-1])[:, 0] for end in (low, high)
            )
            asd_widths.append(np.stack((low[there], high[there])))
            ends = chosen_ends(worlds.verdicts.shape[-1], RANGES[score], worlds.compat)
            chosen_widths.append(np.tile(np.array(ends)[:, None], int(there.sum())))
        if not places:
            return None
        every = np.concatenate(places)
        order = np.argsort(every)
        asd, *chosen = np.concatenate(columns, axis=1)[:, order].tolist()
        questions = every[order].tolist()
        ids = tuple(self.ids[n] for n in questions)
        groups = tuple(self.groups[n] for n in questions)
        ends = _averaged(chosen_widths)
        samples = tuple(Sample(ids, tuple(values), groups, ends) for values in chosen)
        count = len(betas)
        return RowSamples(
            Sample(ids, tuple(asd), groups, _averaged(asd_widths)), samples[:count], samples[count:]
        )

    def extremes(self, score: str) -> tuple[Sample, Sample] | None:
        """Least and most ASD of each question with all worlds of some draw run, over all that its
        failed and doubtful worlds could have been; None without such a question."""
        places, columns, widths = [], [], []
        for block in self.admitting(score):
            low, high = (e.sum(axis=-1) for e in world_bounds(block.worlds, block.doubtful, score))
            ran = ~np.isnan(low)
            there = ran.any(axis=1)
            places.append(block.questions[there])
            columns.append(np.stack([over_draws(each, ran)[there] for each in (low, high)]))
            ends = asd_ends(block.worlds.values, RANGES[score], block.worlds.compat)
            widths.append(np.stack([np.broadcast_to(end, low.shape)[:, 0][there] for end in ends]))
        if not places or not len(every := np.concatenate(places)):
            return None
        order = np.argsort(every)
        ids = tuple(self.ids[n] for n in every[order].tolist())
        groups = tuple(self.groups[n] for n in every[order].tolist())
        least, most = np.concatenate(columns, axis=1)[:, order].tolist()
        both = _averaged(widths)
        return Sample(ids, tuple(least), groups, both), Sample(ids, tuple(most), groups, both)

    def bounds(self, score: str) -> Bounds | None:
        """Bounds of the mean ASD over the questions with all worlds of some draw run; None if there
        is none."""
        keys = [group or (id,) for id, group in zip(self.ids, self.groups, strict=True)]
        blocks = ((b.worlds, b.doubtful, b.questions) for b in self.admitting(score))
        return bounds(blocks, score, codes_of(keys))

    def admitting(self, score: str) -> Iterator[WorldBlock]:
        """The blocks that admit a score: log odds are for two answers only."""
        for block in self.blocks:
            if score in applicable(block.worlds.values.shape[-1]):
                yield block


def _averaged(ends: Sequence[Floats]) -> tuple[float, float]:
    """Lowest and highest possible mean of questions, each with its own ends."""
    low, high = np.concatenate(ends, axis=1).mean(axis=1).tolist()
    return low, high
