"""What every protocol is held against: no voice, one voice, and blind trust."""

from dataclasses import dataclass
from typing import ClassVar

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Brief, Speaker
from oversight.protocols.prompts.forms import Filled, Form, choice_of
from oversight.protocols.prompts.prompt_set import PromptSet
from oversight.protocols.protocol import Conversation, Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Role, Seat, hear
from oversight.protocols.transcript import Transcript, Verdict

ADVOCATE_ROLE = Role("propaganda.advocate", "Advocate")


@dataclass(frozen=True)
class NaiveJudge(Conversation):
    """The judge answers alone.

    World a: one judge call. The worlds are the same call, so they share everything. The ASD of a
    judge who knows something is not zero; lift is measured from here.
    """

    sections: ClassVar[tuple[str, ...]] = ("naive_judge",)

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        return floor


@dataclass(frozen=True)
class Propaganda(Conversation):
    """One agent argues for `side`, unopposed.

    World a: the agent speaks once, the judge decides. The worlds share nothing.
    """

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("propaganda",)

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        return await hear(floor, self.seat(self.agent, side, ADVOCATE_ROLE), ask=ask)


CHOOSER = Role("open_trust.choose", "Agent")


@dataclass(frozen=True)
class OpenTrust(Protocol):
    """The agent picks an answer freely, and is believed.

    World a: the verdict is 1 on a, since whoever is trusted blindly is believed in both worlds;
    so ASD is 0 when the values are +1 and -1 (Sudhir et al. 2025, arXiv:2504.03731). What the
    agent would say of its own accord is asked once for both worlds, and measured as `chose`.
    """

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("open_trust",)
    ignores: ClassVar[frozenset[str]] = frozenset({"judge"})

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        brief = free_choice(self.words)
        chosen = await choose(self.agent, Transcript(question), ask, brief)
        probs = tuple(float(answer == side) for answer in question.answers)
        return Verdict(probs, Transcript(question), measures=(("chose", chosen.label),))


def free_choice(words: PromptSet) -> Brief:
    """What an agent reads that is asked for the answer it would give."""
    return Brief(
        CHOOSER.title, words.text("open_trust.rules"), words.text(CHOOSER.block), prompts=words
    )


async def choose(agent: Speaker, floor: Transcript, ask: Ask, brief: Brief) -> Answer:
    """The answer that the agent gives of its own accord. Unreadable if it names none."""
    return await Seat(agent, None, brief).fill(choice_form(floor.question), floor, ask)


def choice_form(question: Question) -> Form[Answer]:
    """One of the answers, by its label."""
    answers = {answer.label: answer for answer in question.answers}

    def read(said: Filled) -> Answer:
        return answers[said.one_of("answer", answers)]

    return Form("choice", {"answer": choice_of(answers)}, read)
