"""Side check: a small model reads each speech and says which answer it argues for.

An agent told to argue for an answer that it believes to be wrong may argue for the other one, or
for none. Then the score of its world says little about the protocol; so such speeches are sent back
a few times, and those that stay off their side are marked, for the bounds under drop, keep and
worst.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from ...cache.call import Ask, nth
from ..agents.agent import Agent, Brief, Speaker
from ..errors import Unreadable
from ..prompts.forms import Form, choice_of
from ..prompts.prompt_set import PromptSet
from ..prompts.words import Words
from ..question import Answer, Question
from ..seat import Seat
from ..transcript import SideFinding, Transcript, Turn
from .wrapper import Wrapper

NO_SIDE = "none"
"""The checker's finding for a speech that argues for no answer, or for several."""


@dataclass(frozen=True)
class SideCheck(Wrapper):
    """A speaker whose speeches are read by a `checker`, and asked for again if off their side.

    The checker knows neither who speaks nor for which side. Every retry is a draw of its own that
    is told what the checker found. The last draft is spoken, whatever it is; the turn records the
    finding and the number of retries. A refusal, an empty reply and a concession are spoken as they
    are, unchecked: nobody is pressed until it complies.
    """

    agent: Speaker
    checker: Agent
    retries: int = 1
    """Maximum number of drafts sent back."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries: {self.retries} is negative; use 0 or more")

    @property
    def name(self) -> str:
        return f"{self.agent.name} side checked {self.retries}"

    @property
    def apart(self) -> int:
        return 1 + self.retries

    async def speak_for(self, side: Answer, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        agent = self.agent.share(self.apart)
        turn = await agent.speak(transcript, side, ask, brief)
        turn, argued_for = await self._checked(turn, side, transcript, ask, brief)
        for retry in range(1, self.retries + 1):
            if turn.check != "off side":
                break
            again = brief.also_told(_feedback(brief, argued_for), by="\n")
            sent_back = (*turn.drafts, replace(turn, drafts=(), check="unchecked"))
            turn = await agent.speak(transcript, side, nth(ask, retry), again)
            turn = replace(turn, retries=retry, drafts=(*sent_back, *turn.drafts))
            turn, argued_for = await self._checked(turn, side, transcript, ask, brief)
        return turn

    async def _checked(
        self, turn: Turn, side: Answer, transcript: Transcript, ask: Ask, brief: Brief
    ) -> tuple[Turn, str]:
        """The turn with what the checker found, and the label of the answer it argues for; an
        empty label for no answer or an unknown one."""
        if turn.outcome in ("refused", "empty") or not turn.text or turn.conceded:
            return turn, ""
        # The speaker's name would give the side away.
        speech = Transcript(transcript.question, (replace(turn, speaker="Speaker"),))
        try:
            said = await Seat(self.checker, None, reader(brief.words)).fill(
                side_form(transcript.question), speech, ask
            )
        except Unreadable:
            return replace(turn, check="unclear"), ""
        found: SideFinding = "on side" if said == side.label else "off side"
        return replace(turn, check=found), "" if said == NO_SIDE else said


def side_form(question: Question) -> Form[str]:
    """The label of the answer that a speech argues for, or NO_SIDE."""
    options = [*(answer.label for answer in question.answers), NO_SIDE]
    return Form(
        "side",
        {"argues_for": choice_of(options)},
        lambda said: said.one_of("argues_for", options),
    )


def reader(words: PromptSet) -> Brief:
    """What the checker reads beside the speech."""
    return Brief(
        "Reader",
        words.text("agent.reader_rules"),
        words.text("agent.reader"),
        reads_passage=False,
        prompts=words,
    )


def _feedback(brief: Brief, label: str) -> Words:
    """Instruction for a retry after a draft that argued for `label`, empty for no answer."""
    return brief.words.fill("agent.feedback", found=Words(f"({label})" if label else "no answer"))
