"""The baselines of every protocol: no voice, one voice, and blind trust."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...cache.call import Ask
from ..agents.agent import Brief, Speaker
from ..prompts.prompt_set import PromptSet
from ..protocol import Conversation, Protocol
from ..question import Answer, Question
from ..seat import Role, Seat, hear
from ..transcript import Transcript, Verdict

if TYPE_CHECKING:
    from ..prompts.forms import Form

ADVOCATE_ROLE = Role("propaganda.advocate", "Advocate")


@dataclass(frozen=True)
class NaiveJudge(Conversation):
    """The judge answers alone.

    World a: one judge call.
    Shared: everything, since the call is the same in both worlds. The ASD of a judge who knows
    something is not zero; lift is measured from here.
    """

    sections: ClassVar[tuple[str, ...]] = ("naive_judge",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return transcript


@dataclass(frozen=True)
class Propaganda(Conversation):
    """One agent argues for `side`, unopposed.

    World a: the agent speaks once for a, and the judge decides.
    Shared: nothing.
    """

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("propaganda",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return await hear(transcript, self.seat(self.agent, side, ADVOCATE_ROLE), ask=ask)


@dataclass(frozen=True)
class OpenTrust(Protocol):
    """The agent picks an answer freely, and is believed (Sudhir et al. 2025, arXiv:2504.03731).

    World a: the verdict is 1 on a, since an agent who is trusted blindly is believed in every
    world; so ASD is 0 when the values are +1 and -1.
    Shared: the one call that is made, which asks what the agent would answer of its own accord.
    That answer is measured as `chose`.
    """

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("open_trust",)
    ignores: ClassVar[frozenset[str]] = frozenset({"judge"})

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        chosen = await free_choice(self.agent, question, self.words, ask)
        probs = tuple(float(answer == side) for answer in question.answers)
        return Verdict(probs, Transcript(question), measures=(("chose", chosen.label),))


async def free_choice(agent: Speaker, question: Question, words: PromptSet, ask: Ask) -> Answer:
    """The answer that the agent gives to the bare question. Unreadable if it names none."""
    rules, task = words.text("open_trust.rules"), words.text("open_trust.choose")
    return await choose(
        agent, Transcript(question), ask, Brief("Agent", rules, task, prompts=words)
    )


async def choose(agent: Speaker, transcript: Transcript, ask: Ask, brief: Brief) -> Answer:
    """The answer that the agent gives of its own accord. Unreadable if it names none."""
    return await Seat(agent, None, brief).fill(choice_form(transcript.question), transcript, ask)


def choice_form(question: Question) -> "Form[Answer]":
    """One of the answers, by its label."""
    # Here, as naive judges fill in none.
    from ..prompts.forms import Filled, Form, choice_of

    answers = {answer.label: answer for answer in question.answers}

    def read(said: Filled) -> Answer:
        return answers[said.one_of("answer", answers)]

    return Form("choice", {"answer": choice_of(answers)}, read)
