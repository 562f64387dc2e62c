"""Drafts of a speech, which are selected or sent back before one is spoken.

**Best of N**: a judge picks the draft that is spoken. **Side check**: a small model reads each
speech and says which answer it argues for. An agent told to argue for an answer that it believes to
be wrong may argue for another one or for none, or give itself away ("the other answer is right, but
…"). Then the score of its world says little about the protocol. Such speeches are sent back a few
times. Those that remain are marked, for the bounds under drop, keep and worst."""

from abc import abstractmethod
from dataclasses import Field, dataclass, replace
from typing import Any, ClassVar, Self

from msgspec import structs

from ..cache.cached_attribute import cached_attribute, memoized
from ..cache.call import Ask, for_purpose, with_repeat
from .agents.agent import ADVOCATE, Agent, RolePrompt, Speaker
from .doubts import ANYTHING, UnreadReply, parse_all
from .errors import Unreadable, gather_deterministic
from .judges.judge import Judge
from .prompts.forms import Form, choice_of
from .prompts.prompt_set import NOTHING, PromptSet, Words, for_side
from .question import Answer, Question
from .seat import Seat
from .settings import Count, CountFromZero, check_ranges
from .transcript import Transcript, Turn


class Wrapper(Speaker):
    """A speaker whose drafts are selected or sent back before one is spoken. Only speeches for a
    side are drafted, since others have no measure of quality."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    agent: Speaker

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def apart(self) -> int:
        """Number of drafts of a speech that do not hear each other."""
        return 1

    @property
    def base_agent(self) -> Agent:
        return self.agent.base_agent.share(self.apart)

    def share(self, parts: int) -> Self:
        return replace(self, agent=self.agent.share(parts))

    async def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, prompt: RolePrompt = ADVOCATE
    ) -> Turn:
        if side is None:
            return await self.agent.speak(transcript, None, ask, prompt)
        return await self.speak_for(side, transcript, ask, prompt)

    @abstractmethod
    async def speak_for(
        self, side: Answer, transcript: Transcript, ask: Ask, prompt: RolePrompt
    ) -> Turn:
        """The turn for a side, made from drafts of the inner agent."""


@dataclass(frozen=True)
class BestOf(Wrapper):
    """N drafts of a speech. The draft that makes a judge believe `side` most is spoken.

    The judge reads the transcript with each draft as its last turn (Khan et al. 2024,
    arXiv:2402.06782), with the protocol's prompt for its judge. Draft 0 is the agent's plain speech
    at its own temperature, shared with rows without drafts unless the agent has a budget, which is
    divided among the drafts. The spoken draft's score is never below draft 0's. Ties go to the
    lowest draft, so a larger N changes a speech only for a better one."""

    n: Count
    agent: Agent
    judge: Judge
    temperature: float | None = 0.8
    """Sampling temperature of the drafts after the first. At 0 they would be identical."""

    @property
    def name(self) -> str:
        return f"{self.agent.name} best of {self.n}"

    @property
    def apart(self) -> int:
        return self.n

    async def speak_for(
        self, side: Answer, transcript: Transcript, ask: Ask, prompt: RolePrompt
    ) -> Turn:
        """The draft after which the judge believes `side` most. Unread beliefs count as 0. They are
        recorded in the turn if they could have changed the choice."""
        first, drafter = self._drafters
        call = drafter.compose(transcript, side, prompt)
        calls = [first.compose(transcript, side, prompt), *map(call.drawn, range(1, self.n))]
        drafting, rating = for_purpose(ask, "draft"), for_purpose(ask, "rate")
        turns = await gather_deterministic(
            *(drafter.deliver(call, transcript, side, drafting, prompt) for call in calls)
        )
        # The judge who hears the speech gets the same prompt. If it hears the speech last, its
        # verdict is the call that picked the speech.
        hearing = self._hearing(prompt, side.label)
        base = transcript.of_sides if prompt.judge_hears_sides else transcript
        verdicts = await parse_all(
            *(self.judge.judge(base.then(turn), rating, hearing) for turn in turns), needed=False
        )
        index = transcript.question.place(side)
        # Beliefs that differ only by rounding tie.
        ends = {n: [round(p, 9) for p in v.spans[index]] for n, v in verdicts.read.items()}
        # A silent draft is spoken only if all are silent.
        best = max(range(self.n), key=lambda n: (not turns[n].silent, ends.get(n, ANYTHING)[0]))
        doubts = [*verdicts.doubts]
        for n, verdict in verdicts.read.items():
            # With other replies, for example of a judge with votes, it might have won.
            if n != best and (ends[n][1], best) > (ends.get(best, ANYTHING)[0], n):
                doubts += verdict.unread_replies
        others = tuple(turn for n, turn in enumerate(turns) if n != best)
        return structs.replace(turns[best], drafts=others, doubts=tuple(doubts))

    @cached_attribute
    def _drafters(self) -> tuple[Agent, Agent]:
        """The agents of the first draft and of the others."""
        first = self.agent.share(self.n)
        return first, replace(first, temperature=self.temperature)

    @memoized
    def _hearing(self, prompt: RolePrompt, label: str) -> RolePrompt:
        """The prompt of the judge who hears a draft for this side."""
        stance = for_side(prompt.judging or prompt.words.text("judge.role"), label)
        return structs.replace(prompt, title="Judge", stance=stance)


NO_SIDE = "none"
"""The checker's finding for a speech that argues for no answer, or for several."""


@dataclass(frozen=True)
class SideCheck(Wrapper):
    """A speaker whose speeches are read by a `checker`, and repeated if they are off their side.

    The checker knows neither the speaker nor its side. Every retry is a separate repeat whose
    prompt states the finding. The last draft is spoken in any case; the turn records the finding
    and the number of retries. Refusals, empty replies and concessions are spoken unchecked, so that
    nobody is pressed to comply. An unread checker is asked once more; if that reply is unread as
    well, it is recorded."""

    agent: Speaker
    checker: Agent
    retries: CountFromZero = 1
    """Maximum number of drafts sent back."""
    candor: bool = False
    """Whether the checker also reports whether a speech says that its answer is wrong."""

    @property
    def name(self) -> str:
        return f"{self.agent.name} side checked {self.retries}" + " candor" * self.candor

    @property
    def apart(self) -> int:
        return 1 + self.retries

    async def speak_for(
        self, side: Answer, transcript: Transcript, ask: Ask, prompt: RolePrompt
    ) -> Turn:
        agent = self.agent.share(self.apart)
        turn = await agent.speak(transcript, side, ask, prompt)
        turn, feedback = await self.checked(turn, side, transcript, ask, prompt)
        for retry in range(1, self.retries + 1):
            if feedback is None:
                break
            again = prompt.also_told(feedback, by="\n")
            prior, sent_back = turn, structs.replace(turn, drafts=(), check="unchecked")
            turn = await agent.speak(transcript, side, with_repeat(ask, retry), again)
            drafts, doubts = (*prior.drafts, sent_back, *turn.drafts), (*prior.doubts, *turn.doubts)
            turn = structs.replace(turn, retries=retry, drafts=drafts, doubts=doubts)
            turn, feedback = await self.checked(turn, side, transcript, ask, prompt)
        return turn

    async def checked(
        self, turn: Turn, side: Answer, transcript: Transcript, ask: Ask, prompt: RolePrompt
    ) -> tuple[Turn, Words | None]:
        """The turn with the finding, and feedback for its speaker, or None if it may stand."""
        if turn.outcome in ("refused", "empty") or not turn.text or turn.conceded:
            return turn, None
        # The speaker's name would reveal the side.
        speech = Transcript(transcript.question, (structs.replace(turn, speaker="Speaker"),))
        form = side_form(transcript.question, self.candor)
        seat = Seat(self.checker, None, reader(prompt.words, self.candor))
        try:
            argued_for, admits = await seat.fill(form, speech, ask)
        except Unreadable:
            try:
                argued_for, admits = await seat.fill(form, speech, with_repeat(ask, 1))
            except Unreadable as fault:
                doubts = (*turn.doubts, UnreadReply.of(fault))
                return structs.replace(turn, check="unclear", doubts=doubts), None
        if argued_for != side.label:
            argued = Words("no answer" if argued_for == NO_SIDE else f"({argued_for})")
            feedback = prompt.words.fill("agent.feedback", found=argued)
            return structs.replace(turn, check="off side"), feedback
        if admits:
            return structs.replace(turn, check="candid"), prompt.words.fill("agent.feedback_candid")
        return structs.replace(turn, check="on side"), None


def side_form(question: Question, candor: bool = False) -> Form[tuple[str, bool]]:
    """The label of the answer that a speech argues for, or NO_SIDE. With `candor` also whether the
    speech says that this answer is wrong."""
    options = [*(answer.label for answer in question.answers), NO_SIDE]
    questions = {"argues_for": choice_of(options)}
    if candor:
        questions["admits"] = choice_of(("yes", "no"))
    return Form(
        "side",
        questions,
        lambda filled: (
            filled.one_of("argues_for", options),
            candor and filled.one_of("admits", ("yes", "no")) == "yes",
        ),
    )


def reader(words: PromptSet, candor: bool = False) -> RolePrompt:
    """The checker's prompt for a speech."""
    candidly = words.text("agent.reader_candor") if candor else NOTHING
    return RolePrompt(
        "Reader",
        words.text("agent.reader_rules"),
        Words.joined(words.text("agent.reader"), candidly),
        reads_passage=False,
        prompts=words,
    )
