"""Weak-to-strong supervision with debate (Burns et al. 2023, arXiv:2312.09390; Lang, Huang and Li
2025, arXiv:2501.13124).

Weak models are to label what strong models will be trained on. Two strong debaters give them
something to go by, and the labels of several weak judges, whose errors are partly their own, are
averaged.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..judges.judge import Judge
from ..judges.jury import Jury
from ..judges.repeated import Ensemble
from ..question import Answer, Question
from ..settings import ranged
from ..transcript import Transcript, Verdict
from .debate import Debate
from .market_making import distance


@dataclass(frozen=True)
class WeakToStrong(Debate):
    """A debate whose transcript is the context of several weak judges; their mean is the label.

    World a: the debate; then every weak judge reads it and states its probabilities, blind to the
    others; the verdict is their mean. The weak judges are `size` draws of the judge of the row at
    temperature 1, or that judge and the `weak` ones, each asked once.
    Shared: what the debate shares. With the plain debate it shares the speeches, and named judges
    are asked what they would be asked in rows of their own.
    Reward: as in debate, with the mean in place of the judge's belief.
    Measured: `spread`, the mean distance of a judgement from the verdict, in [0, 1]; 0 if all
    agree, in which case one judge would have been enough.

    Where we differ: in the papers weak labels train a strong student, and what counts is how much
    of the performance gap it recovers. Ours are the labels, as the name of the row says: no student
    is trained and no gap is measured. `examples/training.py` writes the labels out.
    """

    weak: tuple[Judge, ...] = ()
    """Who judges beside the judge of the row; (): that judge alone, in several draws."""
    size: int = ranged(5)
    """How many draws, if no weak judges are named."""

    row: ClassVar[str] = f"weak to strong labels {Debate.row} {{0.judges}}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.panel()

    @property
    def judges(self) -> str:
        return f"{len({self.judge, *self.weak})} judges" if self.weak else f"{self.size} draws"

    def panel(self) -> Judge:
        """All weak judges as one. ValueError if there are none that could be averaged."""
        if not self.weak:
            return Ensemble(self.judge, self.size)
        return Jury(tuple(dict.fromkeys((self.judge, *self.weak))))

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = await self.converse(Transcript(question), side, ask)
        verdict = await self.panel().judge(transcript, ask, self.judging())
        spread = fmean(distance(each.probs, verdict.probs) for each in verdict.judgements)
        return replace(verdict, measures=(*verdict.measures, ("spread", spread)))
