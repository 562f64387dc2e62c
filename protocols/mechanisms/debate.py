"""Debate (Irving, Christiano and Amodei 2018, arXiv:1805.00899)."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..protocol import Conversation
from ..question import Answer, Question
from ..seat import Role, Seat, hear
from ..settings import require_positive
from ..transcript import Transcript

DEBATER = Role("debate.debater", "Debater")


@dataclass(frozen=True)
class Debate(Conversation):
    """A debater argues for each answer; the judge hears them all.

    World a: the agent argues for a, and an opponent for each other answer, for `rounds` rounds;
    then the judge decides. Simultaneous: in each round all speak on the same floor, blind to each
    other, and their speeches are laid down in answer order. Sequential: the agent speaks first, and
    the opponents reply in answer order.
    Shared: in simultaneous debate with one policy in all seats, everything, since no call depends
    on a. In sequential debate nothing: in each world another side speaks first.
    Reward: for each debater the judge's belief in its own answer.
    """

    agent: Speaker
    opponent: Speaker | None = None
    """None: the agent debates a copy of itself."""
    rounds: int = 2
    """Two speeches each. (SOlib counts speeches: its 2 turns are one round.)"""
    simultaneous: bool = True

    sections: ClassVar[tuple[str, ...]] = ("debate",)

    def __post_init__(self) -> None:
        require_positive(self, "rounds")

    @property
    def name(self) -> str:
        return f"debate {'simultaneous' if self.simultaneous else 'sequential'} {self.rounds}"

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        for number in range(1, self.rounds + 1):
            floor = await self.open_round(number, floor, ask)
            for seats in self.order(floor.question, side, number):
                floor = await hear(floor, *seats, ask=ask)
        return floor

    def rule_values(self) -> dict[str, str | int]:
        order = "simultaneous" if self.simultaneous else "sequential"
        return {"rounds": self.rounds, "order": self.words.text(f"debate.{order}")}

    def order(self, question: Question, side: Answer, number: int) -> tuple[tuple[Seat, ...], ...]:
        """Who speaks in a round, step by step; the seats of one step speak at once."""
        told = {"round": number, "rounds": self.rounds}
        seats = {
            answer: self.seat(
                self.agent if answer == side else self.opponent or self.agent,
                answer,
                DEBATER,
                **told,
            )
            for answer in question.answers
        }
        if self.simultaneous:
            return (tuple(seats.values()),)
        return tuple((seats[answer],) for answer in (side, *question.others(side)))

    async def open_round(self, number: int, floor: Transcript, ask: Ask) -> Transcript:
        """What comes before the speeches of round `number`, from 1; in a plain debate nothing."""
        return floor
