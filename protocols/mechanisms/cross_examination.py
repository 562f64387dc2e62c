"""Cross-examination (Barnes and Christiano 2020): a copy of the speaker stands by a statement.

A debater who may shift its meaning as the debate goes on can never be pinned down. So the opponent
may question a copy of the speaker that has the context up to a statement and no more: the copy
cannot suit its reply to what was said later, and the judge sees where the two disagree.
(«Writeup: progress on AI safety via debate», AI Alignment Forum, February 2020.)
"""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..prompts.forms import TEXT, Filled, Form, whole_number
from ..protocol import Conversation, Lasting
from ..question import Answer
from ..seat import Role
from ..settings import require_positive
from ..transcript import Transcript, Turn
from .listing import numbered

SPEAKER = Role("cross_examination.speaker", "Debater")
CHALLENGER = Role("cross_examination.challenger", "Debater")
WITNESS = Role("cross_examination.witness", "Copy of Debater", "answer")

MAX_STATEMENT_WORDS = 40
"""A longer sentence is several statements; otherwise a speaker who writes a single sentence gives
its copy the whole speech, and can never be pinned down."""

_SENTENCE = re.compile(
    r"(?:\d+[.)][ \t]+)?"  # the number of a list belongs to what it counts
    r"\S.*?(?:[.!?…]+[\"'”\u2019)\]*]*(?=\s|\Z)|(?=[^\S\n]*(?:\n|\Z)))"
)

_PIECE = re.compile(rf"\S+(?:\s+\S+){{0,{MAX_STATEMENT_WORDS - 1}}}")


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    up_to: str
    """The speech from its start to the end of this statement."""


@dataclass(frozen=True)
class CrossExamination(Lasting, Conversation):
    """The agent argues for `side`; its opponent challenges statements, and a copy answers.

    World a:
      1. the agent speaks for a;
      2. an opponent, who argues for another answer, picks a statement of that speech and asks a
         question about it (a form);
      3. a copy of the agent, which has only the question and the speech up to that statement,
         answers;
      4. steps 2 and 3 are repeated, `challenges` times in all, by the opponents in turn; then the
         judge reads everything and decides.
    A statement is a sentence or a line, of MAX_STATEMENT_WORDS at most. No copy hears of another
    challenge. A speech without any statement is not challenged.
    Shared: nothing, since all rests on the agent's speech for a, which the other world never hears.
    More challenges begin with the calls of fewer.
    Reward: the judge's belief in one's own answer, for the agent, its copies and the opponent.

    Where we differ: in the paper this is one move in a longer debate, and either side may be
    questioned; ours is that move alone, put to the overseen agent, so that its worth shows.
    """

    agent: Speaker
    opponent: Speaker | None = None
    """Who challenges; None: a copy of the agent."""
    challenges: int = 1

    sections: ClassVar[tuple[str, ...]] = ("cross_examination",)
    horizon_block: ClassVar[str] = "cross_examination.horizon"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "challenges")

    def horizon_values(self) -> dict[str, int]:
        return {"challenges": self.challenges}

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        speech = await self.seat(self.agent, side, SPEAKER).speak(floor, ask)
        said = statements(speech.text)
        exchanges: tuple[Turn, ...] = ()
        rivals = floor.question.others(side)
        for number in range(self.challenges if said else 0):
            heard = floor.then(as_statements(speech, said), *exchanges)
            against = rivals[number % len(rivals)]
            place, challenge = await self._challenge(heard, side, against, said, ask)
            pinned = floor.then(replace(speech, text=said[place].up_to), challenge)
            answer = await self.seat(self.agent, side, WITNESS).speak(pinned, ask)
            exchanges += (challenge, answer)
        return floor.then(speech, *exchanges)

    async def _challenge(
        self,
        floor: Transcript,
        side: Answer,
        against: Answer,
        said: tuple[Statement, ...],
        ask: Ask,
    ) -> tuple[int, Turn]:
        """The place of the statement that the opponent challenges, from 0, and its challenge."""
        seat = self.seat(self.opponent or self.agent, against, CHALLENGER)
        numbers = range(1, len(said) + 1)

        def read(filled: Filled) -> tuple[int, Turn]:
            place = filled.whole("statement", numbers) - 1
            turn = seat.turn(filled, filled.text("question"))
            text = self.words.data(
                "cross_examination.challenge",
                label=side,
                statement=said[place].text,
                question=turn.text,
            )
            return place, replace(turn, text=text)

        properties = {"statement": whole_number(numbers), "question": TEXT}
        return await seat.fill(Form("challenge", properties, read), floor, ask)


def statements(speech: str) -> tuple[Statement, ...]:
    """The sentences and lines of a speech, in order; none if it is blank.

    A sentence of more than MAX_STATEMENT_WORDS is cut into several.
    """
    return tuple(
        Statement(piece.group(), speech[: piece.end()])
        for sentence in _SENTENCE.finditer(speech)
        for piece in _PIECE.finditer(speech, sentence.start(), sentence.end())
    )


def as_statements(speech: Turn, said: tuple[Statement, ...]) -> Turn:
    """The speech as a numbered list of its statements."""
    return replace(speech, text=numbered(statement.text for statement in said))
