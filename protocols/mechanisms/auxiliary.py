"""Auxiliary seats: who helps the judge, whose side they are on, and whose words are chosen."""

from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from ..agents.agent import Speaker
from ..doubts import ANYTHING, UnreadReply, choices, parse_all
from ..judges.case import Belief
from ..prompts.words import Words
from ..protocol import Protocol
from ..question import Answer, Question
from ..seat import Role, Seat
from ..settings import require_known

T = TypeVar("T")

Aux: TypeAlias = Literal["honest", "sided", "adversarial"]
"""honest: no side, and asked for the truth. sided: for another answer than the overseen agent, each
of several in turn, so that every lie has an advocate of the truth against it. adversarial: for the
agent's answer, in secret."""


class Assisted(Protocol):
    """A protocol with helpers, whose setting `aux` says whose side they are on.

    Its section of the prompt set has a block for each kind of helper that it allows, and one with
    what the judge is told of them, such as `honest` and `honest_conduct`. The rules do not say it:
    what is said before any helper speaks is the same whosever side they are on.
    """

    aux: Aux

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("aux", self.aux, get_args(Aux))

    @property
    def marks(self) -> tuple[str, ...]:
        return (*([] if self.aux == "honest" else [f"aux {self.aux}"]), *super().marks)

    @property
    def conduct(self) -> Words:
        """What those who read the helpers' words are told of them."""
        return self.words.text(f"{self.sections[0]}.{self.aux}_conduct")

    def judge_values(self) -> dict[str, Words]:
        return {"conduct": self.conduct}

    @property
    def helpers(self) -> int | None:
        """How many helpers of one kind speak in a world at most; None: one for each side that there
        is, or as many as it takes."""
        return None

    def check(self, question: Question) -> None:
        super().check(question)
        others = len(question.answers) - 1
        if self.aux == "sided" and self.helpers is not None and self.helpers < others:
            raise ValueError(
                f"{self.name}: sided helpers speak for the {others} other answers in turn, and "
                f"there are {self.helpers}: in some worlds nobody would speak for the truth. Set "
                f"{others} or more, or aux: honest"
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
        """The seats that a helper may have in the world of `side`: one, or where helpers are sided
        one for every other answer. Helper n takes the n-th, and over again."""
        role = Role(f"{self.sections[0]}.{self.aux}", title, act)
        sides: tuple[Answer | None, ...]
        sides = {"honest": (None,), "sided": question.others(side), "adversarial": (side,)}[
            self.aux
        ]
        return tuple(self.seat(speaker, each, role, **values) for each in sides)


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """The best of several candidates by somebody's ratings."""

    choices: tuple[tuple[T, ...], ...]
    """Every choice that the ratings allow, in their order; several where a rating is unread."""
    ratings: tuple[float, ...]
    """Those that could be read."""
    doubts: tuple[UnreadReply, ...]
    """The unread replies behind the ratings."""


async def best(
    candidates: Sequence[T], most: int, ratings: Iterable[Coroutine[Any, Any, Belief]]
) -> Selection[T]:
    """The `most` best candidates. Ties go to the first; an unread rating may be any."""
    rated = await parse_all(*ratings, needed=False)
    read = rated.read
    spans = [read[n].ends if n in read else ANYTHING for n in range(len(candidates))]
    return Selection(
        tuple(tuple(candidates[n] for n in chosen) for chosen in choices(spans, most)),
        tuple(each.value for each in read.values()),
        (*rated.doubts, *(doubt for each in read.values() for doubt in each.doubts)),
    )
