"""Side check: a small model reads each speech and says which answer it argues for.

An agent told to argue for an answer that it believes to be wrong may argue for the other one, or
for none; or argue for it and give itself away ("the other answer is right, but …"). Then the score
of its world says little about the protocol; so such speeches are sent back a few times, and those
that stay so are marked, for the bounds under drop, keep and worst.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from ...cache.call import Ask, nth
from ..agents.agent import Agent, Brief, Speaker
from ..errors import Unreadable
from ..prompts.forms import Form, choice_of
from ..prompts.prompt_set import PromptSet
from ..prompts.words import NOTHING, Words
from ..question import Answer, Question
from ..seat import Seat
from ..transcript import Transcript, Turn
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
    candor: bool = False
    """Whether the checker also reads if a speech says itself that its answer is wrong."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries: {self.retries} is negative; use 0 or more")

    @property
    def name(self) -> str:
        return f"{self.agent.name} side checked {self.retries}" + " candor" * self.candor

    @property
    def apart(self) -> int:
        return 1 + self.retries

    async def speak_for(self, side: Answer, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        agent = self.agent.share(self.apart)
        turn = await agent.speak(transcript, side, ask, brief)
        turn, feedback = await self._checked(turn, side, transcript, ask, brief)
        for retry in range(1, self.retries + 1):
            if feedback is None:
                break
            again = brief.also_told(feedback, by="\n")
            sent_back = (*turn.drafts, replace(turn, drafts=(), check="unchecked"))
            turn = await agent.speak(transcript, side, nth(ask, retry), again)
            turn = replace(turn, retries=retry, drafts=(*sent_back, *turn.drafts))
            turn, feedback = await self._checked(turn, side, transcript, ask, brief)
        return turn

    async def _checked(
        self, turn: Turn, side: Answer, transcript: Transcript, ask: Ask, brief: Brief
    ) -> tuple[Turn, Words | None]:
        """The turn with what the checker found, and what to tell its speaker; None if it stands."""
        if turn.outcome in ("refused", "empty") or not turn.text or turn.conceded:
            return turn, None
        # The speaker's name would give the side away.
        speech = Transcript(transcript.question, (replace(turn, speaker="Speaker"),))
        try:
            argued_for, admits = await Seat(
                self.checker, None, reader(brief.words, self.candor)
            ).fill(side_form(transcript.question, self.candor), speech, ask)
        except Unreadable:
            return replace(turn, check="unclear"), None
        if argued_for != side.label:
            found = Words("no answer" if argued_for == NO_SIDE else f"({argued_for})")
            return replace(turn, check="off side"), brief.words.fill("agent.feedback", found=found)
        if admits:
            return replace(turn, check="candid"), brief.words.fill("agent.feedback_candid")
        return replace(turn, check="on side"), None


def side_form(question: Question, candor: bool = False) -> Form[tuple[str, bool]]:
    """The label of the answer that a speech argues for, or NO_SIDE; and, where that is asked,
    whether it says itself that this answer is wrong."""
    options = [*(answer.label for answer in question.answers), NO_SIDE]
    asked = {"argues_for": choice_of(options)}
    if candor:
        asked["admits"] = choice_of(("yes", "no"))
    return Form(
        "side",
        asked,
        lambda said: (
            said.one_of("argues_for", options),
            candor and said.one_of("admits", ("yes", "no")) == "yes",
        ),
    )


def reader(words: PromptSet, candor: bool = False) -> Brief:
    """What the checker reads beside the speech."""
    candidly = words.text("agent.reader_candor") if candor else NOTHING
    return Brief(
        "Reader",
        words.text("agent.reader_rules"),
        Words.joined(words.text("agent.reader"), candidly),
        reads_passage=False,
        prompts=words,
    )
