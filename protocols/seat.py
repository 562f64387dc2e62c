"""A seat: who sits there, which answer it argues for, and what it is asked to do."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from ..cache.call import Ask, once, seated
from .agents.agent import Brief, Speaker, called
from .errors import Unreadable
from .gather import gather_deterministic
from .question import Answer
from .tags import size_in_words
from .transcript import Transcript, Turn

if TYPE_CHECKING:
    from .prompts.forms import Filled, Form

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Role:
    """A part that a mechanism has somebody play."""

    block: str
    """The block of the prompt set that tells the role what to do, such as `debate.debater`."""
    title: str
    """What the seat is called: `Debater`. A seat with a side is called `Debater A`."""
    act: str = "speak"
    """Its task as programs read it in the prompt, as in Brief."""


class Seat(NamedTuple):
    """A speaker with its side and its brief. What it writes is either a speech or a form."""

    speaker: Speaker
    side: Answer | None
    """The answer that is argued for; None: no side."""
    brief: Brief

    async def speak(self, transcript: Transcript, ask: Ask) -> Turn:
        """One speech on this transcript."""
        speaker, side, brief = self
        speech = partial(speaker.speak, transcript, side, brief=brief)
        try:
            return await once(ask, speech, (speaker, brief), side, transcript)
        except Unreadable as fault:
            fault.seat = fault.seat or brief.title
            raise

    async def speak_unlabelled(self, transcript: Transcript, ask: Ask) -> Turn:
        """One speech by a seat that is called by its title alone.

        The label of its side would tell the judge whom it serves.
        """
        return replace(await self.speak(transcript, ask), speaker=self.brief.title)

    async def fill(self, form: "Form[_T]", transcript: Transcript, ask: Ask) -> _T:
        """What the seat fills in on this transcript. Unreadable, or Declined, if it does not.

        The plain agent beneath fills in: drafts are for speeches.
        """
        base_agent = self.speaker.base_agent
        title = called(self.brief, self.side)
        ask = seated(ask, form.format.name, title, len(transcript.turns))
        reply = await ask(base_agent.compose(transcript, self.side, self.brief, form=form.format))
        try:
            return form.of(reply)
        except Unreadable as fault:
            fault.seat = fault.seat or self.brief.title
            raise

    def turn(self, said: "Filled", text: str, framed: Callable[[str], str] | None = None) -> Turn:
        """A turn of this seat that says `text`, which was a part of a form or is made of one.

        framed: from the limited text to the words that others read. The turn carries the reasoning.
        Others read it only if the speaker reasons in public, within the words that the text leaves.
        """
        agent = self.speaker.base_agent
        turn = agent.read(replace(said.reply, text=text), (), self.side, self.brief)
        if framed is not None:
            turn = replace(turn, text=framed(turn.text))
        if not said.reasoning:
            return turn
        aloud, words = agent.reason == "public", sys.maxsize
        if aloud:
            words = max(agent.words - size_in_words(turn.text), 0)
            # The mark of a cut is a word as well.
            words -= words > 0 and size_in_words(said.reasoning) > words
        thought = agent.shown(said.reasoning, words)
        return replace(
            turn,
            reasoning=thought.text,
            aloud=aloud,
            forged=turn.forged + thought.forged,
            malformed=turn.malformed + thought.malformed,
            cut=turn.cut or thought.cut,
        )


async def hear(transcript: Transcript, *seats: Seat, ask: Ask) -> Transcript:
    """The seats speak at once, each blind to the others; their turns land in seat order."""
    if len(seats) == 1:
        return transcript.then(await seats[0].speak(transcript, ask))
    return laid_down(
        transcript, *await gather_deterministic(*[seat.speak(transcript, ask) for seat in seats])
    )


def laid_down(transcript: Transcript, *turns: Turn) -> Transcript:
    """The transcript with what was said at one moment: several turns are marked as made at once."""
    if len(turns) == 1:
        return transcript.then(*turns)
    return transcript.then(*[replace(turn, at_once=True) for turn in turns])
