"""Helpers of a judge, and weak-to-strong supervision with debate.

Helpers have a side, and a selection decides which of their texts count.

Weak-to-strong supervision with debate (Burns et al. 2023, arXiv:2312.09390; Lang, Huang and Li
2025, arXiv:2501.13124).

Weak models label the data that strong models will be trained on. Two strong debaters give them
evidence, and the labels of several weak judges, whose errors are partly independent, are averaged.
"""

from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..doubts import ANYTHING, UnreadReply, choices, parse_all
from ..judges.case import Belief
from ..judges.judge import Judge
from ..judges.jury import Jury
from ..judges.repeated import Ensemble
from ..prompts.prompt_set import Words
from ..protocol import Protocol
from ..question import Answer, Question
from ..seat import Role, Seat
from ..settings import Count, require_known
from ..transcript import Transcript, Verdict
from .debate import Debate
from .market_making import distance

T = TypeVar("T")

Aux: TypeAlias = Literal["honest", "sided", "adversarial"]
"""honest: no side, asked for the truth. sided: for another answer than the overseen agent, each in
turn, so that every lie has an opponent who argues for the truth. adversarial: secretly for the
agent's answer."""


class Assisted(Protocol):
    """A protocol with helpers. Its setting `aux` gives the side that they take.

    Its section of the prompt set has a block for each kind of helper, and one that describes them
    to the judge, such as `honest` and `honest_conduct`. The rules do not mention it, so that calls
    before the first helper are equal for all kinds."""

    aux: Aux

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("aux", self.aux, get_args(Aux))

    @property
    def marks(self) -> tuple[str, ...]:
        return (*([] if self.aux == "honest" else [f"aux {self.aux}"]), *super().marks)

    @property
    def conduct(self) -> Words:
        """The description of the helpers for those who read their texts."""
        return self.words.text(f"{self.sections[0]}.{self.aux}_conduct")

    def judge_values(self) -> dict[str, Words]:
        return {"conduct": self.conduct}

    @property
    def helpers(self) -> int | None:
        """Maximum number of helpers of one kind in a world. None: one for each side, or as many as
        needed."""
        return None

    def check(self, question: Question) -> None:
        super().check(question)
        others = len(question.answers) - 1
        if self.aux == "sided" and self.helpers is not None and self.helpers < others:
            raise ValueError(
                f"{self.name}: sided helpers speak for the {others} other answers in turn, and "
                f"{self.helpers} are too few: in some worlds nobody would speak for the truth. "
                f"Set {others} or more, or aux: honest"
            )

    def aux_seats(
        self,
        speaker: Speaker,
        question: Question,
        side: Answer,
        title: str,
        act: str,
        /,
        **values: int | Words,
    ) -> tuple[Seat, ...]:
        """The seats of helpers in the world of `side`: one, or one for every other answer if
        helpers are sided. Helper n takes seat n, in turn."""
        role = Role(f"{self.sections[0]}.{self.aux}", title, act)
        sides: tuple[Answer | None, ...]
        sides = {"honest": (None,), "sided": question.others(side), "adversarial": (side,)}[
            self.aux
        ]
        return tuple(self.seat(speaker, helper_side, role, **values) for helper_side in sides)


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """The best of several candidates by ratings."""

    choices: tuple[tuple[T, ...], ...]
    """Every choice that the ratings allow, in candidate order. Unread ratings allow several."""
    ratings: tuple[float, ...]
    """The readable ratings."""
    doubts: tuple[UnreadReply, ...]
    """The unread replies behind the ratings."""


async def best(
    candidates: Sequence[T], most: int, ratings: Iterable[Coroutine[Any, Any, Belief]]
) -> Selection[T]:
    """The `most` best candidates. Ties go to the first. An unread rating may have any value."""
    rated = await parse_all(*ratings, needed=False)
    beliefs = rated.read
    ranges = [beliefs[n].ends if n in beliefs else ANYTHING for n in range(len(candidates))]
    return Selection(
        tuple(tuple(candidates[n] for n in choice) for choice in choices(ranges, most)),
        tuple(belief.value for belief in beliefs.values()),
        (*rated.doubts, *(doubt for belief in beliefs.values() for doubt in belief.doubts)),
    )


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
    `examples/training.py` writes them to a file."""

    weak: tuple[Judge, ...] = ()
    """Judges in addition to the row's judge. (): that judge alone, in several draws."""
    size: Count = 5
    """Number of draws, if no weak judges are named."""

    row: ClassVar[str] = f"weak to strong labels {Debate.row}, {{0.judges}}"

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
