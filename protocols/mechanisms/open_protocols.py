"""Open protocols, in which the agent picks its side, and recorded conversations.

Open protocols: Roger 2024; Kenton et al. 2024, arXiv:2407.04622.

An open run asks the agent for its answer. In every world the agent then argues for that answer. All
participants know that the agent chose its side. So an open run shares no speech with the closed
one, whose rules say that sides were assigned.

A recorded conversation is judged again; its agent is not asked."""

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import RolePrompt, Speaker
from ..errors import NotRun
from ..held import DiscussedQuestion
from ..prompts.forms import Filled, Form, choice_of
from ..prompts.prompt_set import PromptSet
from ..protocol import Conversation, Protocol
from ..question import Answer, Question
from ..seat import Role, Seat
from ..settings import CountFromZero
from ..tags import escape_and_count
from ..transcript import Transcript, Turn, Verdict
from .baselines import Consultancy
from .debate import Debate


@dataclass(frozen=True)
class OpenTrust(Protocol):
    """The agent picks an answer freely, and is believed (Sudhir et al. 2025, arXiv:2504.03731).

    World a: the verdict is 1 on a, since a blindly trusted agent is believed in every world. So ASD
    is always 0.
    Shared: the only call, which asks the agent for its own answer. That answer is measured as
    `chose`."""

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("open_trust",)
    ignores: ClassVar[frozenset[str]] = frozenset({"judge"})

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        chosen = await free_choice(self.agent, question, self.words, ask)
        probs = tuple(float(answer == side) for answer in question.answers)
        return Verdict(probs, Transcript(question), measures=(("chose", chosen.label),))


class Chosen(Conversation):
    """A conversation in which the agent argues for its own answer in every world. That answer is
    measured as `chose`."""

    agent: Speaker

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """Unreadable, or Declined, if the agent names no answer."""
        chosen = await free_choice(self.agent, question, self.words, ask)
        verdict = await super().play(question, chosen, ask)
        return replace(verdict, measures=(*verdict.measures, ("chose", chosen.label)))


@dataclass(frozen=True)
class OpenConsultancy(Chosen, Consultancy):
    """A consultancy whose consultant first chooses the answer it will argue for.

    World a: the consultant chooses an answer. Then the consultancy for that answer is held.
    Shared: everything, since nothing depends on a. So ASD measures the one verdict, as for the
    naive judge.
    Reward: the judge's belief in the chosen answer.
    Measured: the answer that the consultant `chose`. Reports split results by it."""

    row: ClassVar[str] = f"open {Consultancy.row}"
    sections: ClassVar[tuple[str, ...]] = ("open_consultancy", "consultancy", "open_trust")
    consulting: ClassVar[Role] = Role("open_consultancy.consultant", "Consultant")


@dataclass(frozen=True)
class OpenDebate(Chosen, Debate):
    """A debate whose agent first chooses its answer; opponents argue for the others.

    World a: the agent chooses an answer. Then the debate is held in which it argues for it.
    Shared: everything, since nothing depends on a. So ASD measures the one verdict, as for the
    naive judge.
    Reward: as in debate.
    Measured: the answer that the agent `chose`. Reports split results by it."""

    row: ClassVar[str] = f"open {Debate.row}"
    sections: ClassVar[tuple[str, ...]] = ("open_debate", "debate", "open_trust")
    speaking: ClassVar[Role] = Role("open_debate.debater", "Debater")
    opposing: ClassVar[Role] = Role("open_debate.opponent", "Debater")


async def free_choice(agent: Speaker, question: Question, words: PromptSet, ask: Ask) -> Answer:
    """The agent's answer to the bare question. Unreadable if it names none."""
    rules, task = words.text("open_trust.rules"), words.text("open_trust.choose")
    return await choose(
        agent, Transcript(question), ask, RolePrompt("Agent", rules, task, prompts=words)
    )


async def choose(agent: Speaker, transcript: Transcript, ask: Ask, prompt: RolePrompt) -> Answer:
    """The agent's own answer. Unreadable if it names none."""
    return await Seat(agent, None, prompt).fill(choice_form(transcript.question), transcript, ask)


def choice_form(question: Question) -> Form[Answer]:
    """The form for one of the answers, by its label."""
    answers = {answer.label: answer for answer in question.answers}

    def read(filled: Filled) -> Answer:
        return answers[filled.one_of("answer", answers)]

    return Form("choice", {"answer": choice_of(answers)}, read)


@dataclass(frozen=True)
class Recorded(Conversation):
    """A conversation from a published experiment, before one of our judges. No agent is asked.

    World a: the judge reads the recorded conversation on the question. If every answer was argued
    for, its verdict counts in every world. If only one was, it counts in that world, and the others
    were not run: neither failed nor missing.
    Shared: everything."""

    setting: str = ""
    """The setting of the experiment, such as `human debate`. Conversations of other settings are
    not run. Empty: all are."""
    rounds: CountFromZero = 0
    """Number of rounds after which the judge decides. 0: all. A shorter conversation is judged at
    its end."""

    @property
    def name(self) -> str:
        rounds = f" after {self.rounds}" if self.rounds else ""
        return f"recorded {self.setting}".rstrip() + rounds

    def check(self, question: Question) -> None:
        super().check(question)
        if not isinstance(question, DiscussedQuestion):
            raise ValueError(
                f"{self.name} needs recorded conversations: problems: {{study: FOLDER}}"
            )

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        question = transcript.question
        conversation = question.held if isinstance(question, DiscussedQuestion) else None
        if conversation is None:
            return transcript  # empty; sweeps of such questions are refused
        if self.setting not in ("", conversation.setting):
            raise NotRun("the conversation about it was held in another setting")
        if conversation.argued not in ("", side.label):
            raise NotRun(f"({conversation.argued}) alone was argued for in this conversation")
        sides = {answer.label: answer for answer in question.answers}
        for turn in conversation.until(self.rounds):
            text, forged = escape_and_count(turn.text)
            transcript = transcript.then(
                Turn(turn.speaker, text, sides.get(turn.side), forged=forged, quotes=turn.quotes)
            )
        return transcript
