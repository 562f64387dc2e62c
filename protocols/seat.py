"""A seat: a role filled for one conversation, with the answer it argues for and its prompt."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from ..cache.call import Ask, for_role, run_once
from .agents.agent import RolePrompt, Speaker, called
from .errors import Unreadable, gather_deterministic
from .question import Answer
from .tags import size_in_words
from .transcript import Transcript, Turn

if TYPE_CHECKING:
    from .prompts.forms import Filled, Form

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Role:
    """A role of a protocol."""

    block: str
    """The block of the prompt set with the role's instructions, such as `debate.debater`."""
    title: str
    """The name of the role: `Debater`. A speaker with a side is called `Debater A`."""
    act: str = "speak"
    """Name of the turn's task, as in `RolePrompt.act`: `ask` for a role that asks questions."""


class Seat(NamedTuple):
    """A speaker with its side and its role prompt. It writes a speech or fills in a form."""

    speaker: Speaker
    side: Answer | None
    """The answer to argue for. None: no side."""
    prompt: RolePrompt

    async def speak(self, transcript: Transcript, ask: Ask) -> Turn:
        """One speech on this transcript."""
        speaker, side, prompt = self
        speech = partial(speaker.speak, transcript, side, prompt=prompt)
        try:
            return await run_once(ask, speech, (speaker, prompt), side, transcript)
        except Unreadable as fault:
            fault.seat = fault.seat or prompt.title
            raise

    async def speak_unlabelled(self, transcript: Transcript, ask: Ask) -> Turn:
        """One speech under the title alone. A label would tell the judge whom it serves."""
        return replace(await self.speak(transcript, ask), speaker=self.prompt.title)

    async def fill(self, form: "Form[_T]", transcript: Transcript, ask: Ask) -> _T:
        """The form as filled in on this transcript. Unreadable, or Declined, if that fails. The
        plain agent fills in forms; wrappers such as drafting are for speeches."""
        base_agent = self.speaker.base_agent
        title = called(self.prompt, self.side)
        ask = for_role(ask, form.format.name, title, len(transcript.turns))
        reply = await ask(base_agent.compose(transcript, self.side, self.prompt, form=form.format))
        try:
            return form.of(reply)
        except Unreadable as fault:
            fault.seat = fault.seat or self.prompt.title
            raise

    def turn(self, filled: "Filled", text: str, framed: Callable[[str], str] | None = None) -> Turn:
        """A turn of this seat that says `text`, which comes from a form. framed: from the cut text
        to the words that others read. The turn carries the reasoning; others read it only if the
        speaker reasons in public, within the words that are left."""
        agent = self.speaker.base_agent
        turn = agent.read(replace(filled.reply, text=text), (), self.side, self.prompt)
        if framed is not None:
            turn = replace(turn, text=framed(turn.text))
        if not filled.reasoning:
            return turn
        aloud, words = agent.reason == "public", sys.maxsize
        if aloud:
            words = max(agent.words - size_in_words(turn.text), 0)
            # The mark of a cut counts as a word.
            words -= words > 0 and size_in_words(filled.reasoning) > words
        reasoning = agent.shown(filled.reasoning, words)
        return replace(
            turn,
            reasoning=reasoning.text,
            aloud=aloud,
            forged=turn.forged + reasoning.forged,
            malformed=turn.malformed + reasoning.malformed,
            cut=turn.cut or reasoning.cut,
        )


async def hear(transcript: Transcript, *seats: Seat, ask: Ask) -> Transcript:
    """Let the seats speak concurrently, unseen by each other. The turns are in seat order."""
    if len(seats) == 1:
        return transcript.then(await seats[0].speak(transcript, ask))
    return laid_down(
        transcript, *await gather_deterministic(*[seat.speak(transcript, ask) for seat in seats])
    )


def laid_down(transcript: Transcript, *turns: Turn) -> Transcript:
    """The transcript with turns made at one moment. Several turns are marked as concurrent."""
    if len(turns) == 1:
        return transcript.then(*turns)
    return transcript.then(*[replace(turn, at_once=True) for turn in turns])
