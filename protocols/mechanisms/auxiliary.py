"""Auxiliary seats: who helps the judge, and whose side they are on."""

from typing import Literal, TypeAlias, get_args

from ..agents.agent import Speaker
from ..prompts.words import Words
from ..protocol import Protocol
from ..question import Answer, Question
from ..seat import Role, Seat
from ..settings import require_known

Aux: TypeAlias = Literal["honest", "sided", "adversarial"]
"""honest: no side, and asked for the truth. sided: for another answer than the overseen agent.
adversarial: for the agent's answer, in secret."""


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
    def aux_name(self) -> str:
        """What the row of a report adds for helpers who are not honest."""
        return "" if self.aux == "honest" else f" aux {self.aux}"

    @property
    def conduct(self) -> Words:
        """What those who read the helpers' words are told of them."""
        return self.words.text(f"{self.sections[0]}.{self.aux}_conduct")

    def judge_values(self) -> dict[str, Words]:
        return {"conduct": self.conduct}

    def aux_seat(
        self,
        speaker: Speaker,
        question: Question,
        side: Answer,
        title: str,
        act: str,
        /,
        **values: int | Words,
    ) -> Seat:
        """The seat of a helper in the world of `side`."""
        role = Role(f"{self.sections[0]}.{self.aux}", title, act)
        sides = {"honest": None, "sided": question.rival(side), "adversarial": side}
        return self.seat(speaker, sides[self.aux], role, **values)
