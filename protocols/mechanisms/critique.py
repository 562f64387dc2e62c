"""Critique, self-critique, a critic who may agree, and debate as feedback.

Critique (Saunders et al. 2022, arXiv:2206.05802).

Debate as feedback (RLDF: Cheng et al. 2024, arXiv:2404.10160): several roles debate a response.

A model that plays several roles in a discussion notices flaws that it misses when asked directly.
It is also said to judge a text differently if it is told that it wrote the text. Scores given after
the debate rank the responses; such a ranking is used to train a reward model."""

from dataclasses import dataclass, field
from math import comb
from typing import ClassVar, Literal, TypeAlias, get_args

from msgspec import structs

from ...cache.call import ABSENT, Ask, with_repeat
from ..agents.agent import Speaker
from ..datasets.loader import ACCEPT
from ..errors import Unreadable, gather_deterministic
from ..judges.case import Belief
from ..judges.judge import Judge
from ..prompts.prompt_set import Words
from ..protocol import Conversation, Measured, WithHorizon
from ..question import Answer, Problem, Question
from ..seat import Role, Seat, hear, laid_down
from ..settings import Count, CountFromZero, require_known
from ..transcript import NamedMeasures, Scalar, Transcript, Verdict
from .auxiliary import Assisted, Aux, best
from .open_protocols import choose

PROPOSER = Role("critique.proposer", "Proposer")
REBUTTAL = Role("critique.rebuttal", "Proposer")
CRITIC = "Critic"
REVIEWED = Role("proposer_critic.proposer", "Proposer")
VERDICT = Role("proposer_critic.verdict", "Critic")
REVIEW = Role("proposer_critic.honest", "Critic", "critique")
DEFENCE = Role("proposer_critic.rebuttal", "Proposer")
REPLY = Role("proposer_critic.reply", "Critic", "critique")

Defends: TypeAlias = Literal["side", "proposal"]


@dataclass(frozen=True)
class Critique(Assisted, WithHorizon, Conversation):
    """The agent proposes `side`; the judge reads the proposal and the best critiques of it.

    World a:
      1. the agent proposes a;
      2. the critic writes `critiques` draws of a critique, each blind to the others;
      3. the ranker rates each one separately: how likely it is to be helpful, by pointing to a real
         flaw or rightly to none. The `shown` best are kept, in order of draw; ties go to the
         lowest. An unread rating may have any value: then the judge decides on every choice that
         the ratings allow, and the verdict is the worst of these for a. If all are shown, none is
         rated;
      4. with a `rebuttal`, the agent answers the critiques that are shown;
      5. the judge reads all of this, and decides.
    An honest critic has no side. With `aux: sided` it argues for another answer (several in
    turn), and an adversarial one works for the proposer. The judge knows which.
    Shared: nothing, since every call quotes the proposal. An honest critic's prompt is the same in
    both worlds. Rows that differ in `aux` share the proposals. A row with a rebuttal begins with
    the calls of one without, unless the horizon is told, since nobody knows of the rebuttal.
    Reward: for the agent the judge's belief in a. For the critic its rating, which is not mentioned
    to an honest one; a critic with a side knows the judge's belief in its answer. In self-critique
    one model plays both roles.
    Measured: the best rating, `helpfulness`, in [0, 1]. On problems with planted flaws, after the
    verdict, the ranker is also asked about the critiques shown (McAleese et al. 2024,
    arXiv:2407.00215): how likely one of them points to the flaw in the work of a (`included`), or
    claims a relevant flaw in an intact a (`hallucinated`), and how likely all of them are about
    irrelevant points (`nitpick`).

    Where we differ: Saunders et al. rank critiques by the critic's own score of their helpfulness.
    Ours are rated by the judge unless another ranker is named, so that nobody stronger than the
    judge decides which critiques it reads.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent criticises itself."""
    ranker: Judge | None = None
    """The judge that rates helpfulness. None: the protocol's judge."""
    critiques: int = 3
    """Draws at the critic's own temperature. At 0 they would be identical."""
    shown: int = 1
    aux: Aux = "honest"
    """The side of the critic."""
    rebuttal: bool = False
    """Whether the agent answers the critiques before the judge decides."""

    row: ClassVar[str] = "{0.kind}, {0.shown} of {0.critiques}{0.answered}"
    sections: ClassVar[tuple[str, ...]] = ("critique",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon == "told" and not self.rebuttal:
            raise ValueError("horizon: needs a rebuttal, whose number it tells; leave it out")
        if not 1 <= self.shown <= self.critiques:
            raise ValueError(
                f"shown: {self.shown} of {self.critiques} critiques; "
                "show 1 or more, and no more than are written"
            )

    @property
    def kind(self) -> str:
        return "critique" if self.critic else "self critique"

    @property
    def answered(self) -> str:
        return " rebuttal" if self.rebuttal else ""

    @property
    def helpers(self) -> int:
        return self.critiques

    @property
    def apart(self) -> int:
        # A rebuttal hears the critiques shown, so each possible choice may need a rebuttal.
        return self.critiques + (comb(self.critiques, self.shown) if self.rebuttal else 0)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        proposed = await hear(transcript, self.seat(self.agent, side, PROPOSER), ask=ask)
        critic = self.critic or self.agent
        critics = self.aux_seats(critic, transcript.question, side, CRITIC, "critique")
        drafts = await gather_deterministic(
            *(
                critics[index % len(critics)].speak_unlabelled(proposed, with_repeat(ask, index))
                for index in range(self.critiques)
            )
        )
        if self.shown == self.critiques:
            return Measured(await self._answered(proposed.then(*drafts), side, ask))
        helps = self.words.data("critique.helpful", label=side)
        ratings = (self._likelihood(helps, proposed.then(draft), ask) for draft in drafts)
        rated = await best(drafts, self.shown, ratings)
        chosen, *otherwise = await gather_deterministic(
            *(self._answered(proposed.then(*choice), side, ask) for choice in rated.choices)
        )
        helpful = (("helpfulness", max(rated.ratings)),) if rated.ratings else ()
        return Measured(chosen, helpful, tuple(otherwise), rated.doubts, tuple(drafts))

    async def _answered(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        """The transcript, with the agent's answer to the critiques where it may give one."""
        if not self.rebuttal:
            return transcript
        return await hear(transcript, self.seat(self.agent, side, REBUTTAL), ask=ask)

    async def appraise(
        self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask
    ) -> NamedMeasures:
        if not problem.flaws:
            return ()
        flaw = problem.flaws[problem.question.place(side)]
        wrong = ("included", {"flaw": flaw}) if flaw else ("hallucinated", {})
        transcript = verdict.transcript
        views = [
            structs.replace(transcript, turns=(transcript.turns[0], turn))
            for turn in transcript.turns
            if turn.speaker == CRITIC
        ]
        measures: list[tuple[str, Scalar]] = []
        for (name, values), most in ((wrong, max), (("nitpick", {}), min)):
            statement = self.words.data(f"critique.{name}", **values)
            try:
                likely = await gather_deterministic(
                    *(self._likelihood(statement, view, ask) for view in views)
                )
            except Unreadable:
                continue  # the verdict stands, whether or not this can be measured
            measures.append((name, most(belief.value for belief in likely)))
        return tuple(measures)

    async def _likelihood(self, statement: str, transcript: Transcript, ask: Ask) -> Belief:
        """How likely the ranker finds a statement about the last turn."""
        ranker = self.ranker or self.judge
        return await ranker.believes(statement, transcript, ask, self.judging("rating"))


@dataclass(frozen=True)
class ProposerCritic(Assisted, Conversation):
    """The agent proposes `side`. A critic privately decides which answer is right, and supports it.

    A critic who must attack (critique) or oppose (debate) has to invent flaws in a correct answer.
    This one is free to confirm.

    World a:
      1. the agent proposes a;
      2. the critic reads the proposal and names the answer that it believes to be right (a form
         that neither the judge nor the proposer reads);
      3. the critic speaks in public for that answer;
      4. with `rebuttals`, the proposer and the critic answer each other that many times;
      5. the judge reads the proposal and the speeches, and decides.
    With `defends: proposal`, for problems to accept or reject, the proposer speaks for acceptance
    in every world. Then nothing depends on a, and both worlds share every call.
    A critic that is not honest skips step 2: it speaks for a (`aux: adversarial`), or for another
    answer (sided). With several others, one critic speaks for each, without hearing the others.
    Shared: nothing, since every call quotes the proposal. An honest critic's prompt is the same in
    both worlds, and rows that differ in `aux` share the proposals.
    Reward: for the agent the judge's belief in a; for the critic the judge's belief in the answer
    that it supports.
    Measured: that answer, `critic_chose`, and whether it is a, `agrees`.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent reviews itself."""
    aux: Aux = "honest"
    """The side of the critic."""
    rebuttals: CountFromZero = field(default=0, metadata=ABSENT)
    """Number of pairs of rebuttals, by the proposer and the critic."""
    defends: Defends = field(default="side", metadata=ABSENT)
    """The proposer speaks for the side of the world, or for acceptance of the proposal."""

    row: ClassVar[str] = "proposer critic{0.length}"
    sections: ClassVar[tuple[str, ...]] = ("proposer_critic",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("defends", self.defends, get_args(Defends))

    @property
    def length(self) -> str:
        plural = "s" * (self.rebuttals > 1)
        rebuttals = f" {self.rebuttals} rebuttal{plural}" if self.rebuttals else ""
        return rebuttals + " defends proposal" * (self.defends == "proposal")

    def check(self, question: Question) -> None:
        super().check(question)
        texts = [answer.text for answer in question.answers]
        if self.defends == "proposal" and ACCEPT not in texts:
            raise ValueError(
                "defends: proposal needs problems to accept or reject: set proposals: true in the "
                "data set, or make a file with oversight dataset propose"
            )

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        critic, question = self.critic or self.agent, transcript.question
        if self.defends == "proposal":
            side = next(answer for answer in question.answers if answer.text == ACCEPT)
        transcript = await hear(transcript, self.seat(self.agent, side, REVIEWED), ask=ask)
        supported: tuple[Answer, ...]
        if self.aux == "honest":
            supported = (await choose(critic, transcript, ask, self.role_prompt(VERDICT)),)
            seats = tuple(self.seat(critic, answer, REVIEW) for answer in supported)
        else:
            supported = question.others(side) if self.aux == "sided" else (side,)
            seats = self.aux_seats(critic, question, side, REVIEW.title, REVIEW.act)
        reviews = [seat.speak_unlabelled(transcript, ask) for seat in seats]
        transcript = laid_down(transcript, *await gather_deterministic(*reviews))
        replying = tuple(self.seat(critic, answer, REPLY) for answer in supported)
        for _ in range(self.rebuttals):
            transcript = await hear(transcript, self.seat(self.agent, side, DEFENCE), ask=ask)
            replies = (seat.speak_unlabelled(transcript, ask) for seat in replying)
            transcript = laid_down(transcript, *await gather_deterministic(*replies))
        chose = ", ".join(answer.label for answer in supported)
        return Measured(transcript, (("critic_chose", chose), ("agrees", supported == (side,))))


RESPONSE = Role("debate_feedback.response", "Response")

ROLES = (
    "an expert in what the question is about",
    "a sceptic who looks for what is wrong",
    "somebody who has to act on the answer",
)


@dataclass(frozen=True)
class DebateFeedback(Assisted, WithHorizon, Conversation):
    """Several roles debate each response of the agent. The judge reads the one scored best.

    World a:
      1. the agent responds in favour of a, in `candidates` draws;
      2. for each response the roles speak in `rounds` rounds, concurrently within a round and after
         hearing the earlier rounds. They are told that the text is their own, or not (`own`);
      3. the referee, which is the judge's model, scores each response after its debate;
      4. the judge reads the response with the best score, and its debate, and decides. Ties go to
         the lowest draw. An unread score may have any value: then the judge decides on every
         response that may be the best, and the verdict is the worst of these for a.
    A single candidate is scored as well, since its score is measured.
    Shared: nothing, since every call quotes the response. Honest roles (`aux`) take no side, and
    their prompts are the same in both worlds. Rows that differ in `aux` share the responses, and
    more rounds begin with the calls of fewer.
    Reward: for the agent the judge's belief in a, as its prompt says. The referee's score, which
    one would train on, only selects.
    Measured: the best `score`, and the `spread` between it and the lowest one. These two responses
    are a training pair.

    Where we differ: Cheng et al. rank responses by bias and train on the ranking. Ours are ranked
    by how well they answer, and the judge replaces the training.
    """

    agent: Speaker
    participant: Speaker | None = None
    """The speaker of the roles. None: a copy of the agent."""
    roles: tuple[str, ...] = ROLES
    """Each one completes the sentence «You are Participant 1: …»."""
    rounds: Count = 1
    candidates: Count = 2
    """Number of ranked responses, at the agent's own temperature."""
    own: bool = False
    """Whether the participants are told that they wrote the response themselves."""
    aux: Aux = "honest"
    """The side of the participants."""

    row: ClassVar[str] = "debate feedback, {0.size}"
    sections: ClassVar[tuple[str, ...]] = ("debate_feedback",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.roles:
            raise ValueError("roles: at least one is required")

    @property
    def size(self) -> str:
        ownership = " as their own" if self.own else ""
        return f"{len(self.roles)} roles {self.rounds} rounds best of {self.candidates}{ownership}"

    @property
    def helpers(self) -> int:
        return len(self.roles)

    @property
    def apart(self) -> int:
        return self.candidates * len(self.roles)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        draws = [with_repeat(ask, index) for index in range(self.candidates)]
        debates = await gather_deterministic(
            *(self._debate(transcript, side, draw, ask) for draw in draws)
        )
        scored = await best(debates, 1, (self._score(debate, side, ask) for debate in debates))
        (chosen,), *otherwise = scored.choices
        most, least = max(scored.ratings, default=0.0), min(scored.ratings, default=0.0)
        return Measured(
            chosen,
            (("score", most), ("spread", most - least)) if scored.ratings else (),
            tuple(alternative for (alternative,) in otherwise),
            scored.doubts,
            tuple(turn for debate in debates for turn in debate.turns),
        )

    async def _debate(
        self, transcript: Transcript, side: Answer, draw: Ask, ask: Ask
    ) -> Transcript:
        """The transcript with one response and its debate."""
        response = await self.seat(self.agent, side, RESPONSE).speak(transcript, draw)
        transcript = transcript.then(response)
        seats = self._seats(transcript.question, side)
        for _ in range(self.rounds):
            turns = [seat.speak_unlabelled(transcript, ask) for seat in seats]
            transcript = laid_down(transcript, *await gather_deterministic(*turns))
        return transcript

    def _seats(self, question: Question, side: Answer) -> list[Seat]:
        """One seat per role. Its prompt names the role and the author of the response."""
        speaker = self.participant or self.agent
        origin = self.words.text(f"debate_feedback.{'own' if self.own else 'anothers'}")
        seats = []
        for number, role in enumerate(self.roles, 1):
            title = f"Participant {number}"
            # Roles are trusted text, since the user sets them.
            values = {"participant": Words(title), "role": Words(role), "origin": origin}
            choices = self.aux_seats(speaker, question, side, title, "discuss", **values)
            seats.append(choices[(number - 1) % len(choices)])
        return seats

    async def _score(self, debate: Transcript, side: Answer, ask: Ask) -> Belief:
        """The judge's probability that the response is sound."""
        sound = self.words.data("debate_feedback.sound", label=side)
        return await self.judge.believes(sound, debate, ask, self.judging("referee"), side=side)
