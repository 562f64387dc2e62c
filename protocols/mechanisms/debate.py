"""Debate (Irving, Christiano and Amodei 2018, arXiv:1805.00899), also with a judge who questions
the debaters (Khan et al. 2024, arXiv:2402.06782)."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Interval

from ...cache.cached_attribute import memoized
from ...cache.call import Ask
from ..agents.agent import RolePrompt, Speaker
from ..protocol import Conversation, WithHorizon
from ..question import Answer, Question
from ..seat import Role, Seat, hear
from ..settings import Count
from ..transcript import Transcript

DEBATER = Role("debate.debater", "Debater")
QUESTIONER = Role("interactive_debate.questioner", "Judge", "ask")


@dataclass(frozen=True)
class Debate(WithHorizon, Conversation):
    """A debater argues for each answer, and the judge hears them all.

    World a: the agent argues for a, and an opponent for each other answer, for `rounds` rounds.
    Then the judge decides. Simultaneous: in each round all speak on the same transcript, blind to
    each other, and their speeches are placed in answer order. Sequential: the agent speaks first,
    and the opponents reply in answer order.
    Shared: in simultaneous debate with one policy in all seats, everything, since no call depends
    on a. In sequential debate nothing, since another side speaks first in each world. A longer
    debate begins with the calls of a shorter one, and both orders with the same opening speech:
    only readers of a simultaneous round are told that it is one.
    Reward: for each debater the judge's belief in its own answer.

    Where we differ: the sequential debate of Khan et al. opens with two concurrent speeches. Ours
    is sequential from the start, like SOlib's. SOlib holds a debate of one policy once, with the
    first answer's side speaking first, and counts it in both worlds even if it is sequential. Ours
    is held in each world. With two policies, SOlib places the agent's speech first; ours are in
    answer order."""

    agent: Speaker
    opponent: Speaker | None = None
    """None: the agent debates a copy of itself."""
    rounds: Count = 2
    """Rounds of two speeches. (SOlib counts speeches: its 2 turns are one round.)"""
    simultaneous: bool = True

    row: ClassVar[str] = "debate, {0.manner}, {0.length}"
    sections: ClassVar[tuple[str, ...]] = ("debate",)
    speaking: ClassVar[Role] = DEBATER
    """The agent's role."""
    opposing: ClassVar[Role] = DEBATER
    """The role of its opponents."""

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        for number in range(1, self.rounds + 1):
            transcript = await self.open_round(number, transcript, ask)
            for seats in self.order(transcript.question, side, number):
                transcript = await hear(transcript, *seats, ask=ask)
        return transcript

    @property
    def manner(self) -> str:
        return "simultaneous" if self.simultaneous else "sequential"

    @property
    def length(self) -> str:
        return "1 round" if self.rounds == 1 else f"{self.rounds} rounds"

    def order(self, question: Question, side: Answer, number: int) -> tuple[tuple[Seat, ...], ...]:
        """The speakers of a round, step by step. The seats of one step speak concurrently."""
        (agent, speaking), (opponent, opposing) = self._debaters(number)
        sides = question.answers if self.simultaneous else (side, *question.others(side))
        seats = [
            Seat(agent, side, speaking) if answer == side else Seat(opponent, answer, opposing)
            for answer in sides
        ]
        return (tuple(seats),) if self.simultaneous else tuple(zip(seats))

    @memoized
    def _debaters(self, number: int) -> tuple[tuple[Speaker, RolePrompt], ...]:
        """The agent and an opponent, each with its prompt in a round."""
        debaters = []
        for speaker, role in (self.agent, self.speaking), (self.opponent, self.opposing):
            # A prompt set may describe the role in this round separately.
            block = f"{role.block}_{'first' if number == 1 else 'later'}"
            role = replace(role, block=block) if self.words.has(block) else role
            seat = self.seat(speaker or self.agent, None, role, round=number)
            debaters.append((seat.speaker, seat.prompt))
        return tuple(debaters)

    async def open_round(self, number: int, transcript: Transcript, ask: Ask) -> Transcript:
        """Add turns before the speeches of round `number`, from 1. A plain debate adds none."""
        return transcript


@dataclass(frozen=True)
class InteractiveDebate(Debate):
    """A debate in which the judge opens every round but the first with questions to both sides.

    World a: round 1 of the debate. In each further round, the judge's model, which has heard the
    transcript, asks questions in one turn, and the speeches answer them. After the last round the
    judge decides.
    Shared: all calls that the plain debate shares. Questions depend only on the transcript, so if
    both worlds have the same transcript (simultaneous, one policy in both seats), they have the
    same questions. No call is shared with a plain debate, since the rules say that the judge will
    ask. A longer interactive debate begins with the calls of a shorter one.
    Reward: as in debate.

    In the paper the judge asks at the end of a round. In its authors' code, as here, it asks at the
    start of the next one, so that every question is answered."""

    rounds: Annotated[int, Interval(ge=2)] = 2
    """At least 2, since questions precede the second round."""

    row: ClassVar[str] = f"interactive {Debate.row}"
    sections: ClassVar[tuple[str, ...]] = ("interactive_debate", "debate")

    def judging(self, block: str = "judge") -> RolePrompt | None:
        return self.role_prompt(Role("debate.judge", "Judge"))

    async def open_round(self, number: int, transcript: Transcript, ask: Ask) -> Transcript:
        if number == 1:
            return transcript
        prompt = self.role_prompt(QUESTIONER, round=number)
        return await hear(transcript, self.judge_seat(prompt), ask=ask)
