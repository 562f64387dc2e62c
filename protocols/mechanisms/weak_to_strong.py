"""Weak-to-strong supervision with debate (Burns et al. 2023, arXiv:2312.09390; Lang, Huang and Li
2025, arXiv:2501.13124).

Weak models label the data that strong models will be trained on. Two strong debaters give them
evidence, and the labels of several weak judges, whose errors are partly independent, are averaged.
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
from ..settings import Count
from ..transcript import Transcript, Verdict
from .debate import Debate
from .market_making import distance


@dataclass(frozen=True)
class WeakToStrong(Debate):
    """A debate whose transcript is read by several weak judges. Their mean is the label.

    World a: the debate. Then every weak judge reads it and states its probabilities, blind to the
    others. The verdict is their mean. The weak judges are `size` draws of the row's judge at
    temperature 1, or that judge and the `weak` ones, each asked once.
    Shared: all calls that the debate shares. The speeches are shared with the plain debate, and
    named judges share the calls of their rows.
    Reward: as in debate, with the mean as the judge's belief.
    Measured: `spread`, the mean distance of a judgement from the verdict, in [0, 1]. It is 0 if all
    agree; then one judge would have been enough.

    Where we differ: in the papers weak labels train a strong student, and the result is the
    recovered fraction of the performance gap. Ours are only the labels, as the row's name says.
    `examples/training.py` writes them to a file.
    """

    weak: tuple[Judge, ...] = ()
    """Judges in addition to the row's judge. (): that judge alone, in several draws."""
    size: Count = 5
    """Number of draws, if no weak judges are named."""

    row: ClassVar[str] = f"weak to strong labels {Debate.row} {{0.judges}}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.panel()

    @property
    def judges(self) -> str:
        return f"{len({self.judge, *self.weak})} judges" if self.weak else f"{self.size} draws"

    def panel(self) -> Judge:
        """All weak judges as one. ValueError if they cannot be averaged."""
        if not self.weak:
            return Ensemble(self.judge, self.size)
        return Jury(tuple(dict.fromkeys((self.judge, *self.weak))))

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = await self.converse(Transcript(question), side, ask)
        verdict = await self.panel().judge(transcript, ask, self.judging())
        spread = fmean(distance(judgement.probs, verdict.probs) for judgement in verdict.judgements)
        return replace(verdict, measures=(*verdict.measures, ("spread", spread)))
