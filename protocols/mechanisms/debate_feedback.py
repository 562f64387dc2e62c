"""Debate as feedback (RLDF: Cheng et al. 2024, arXiv:2404.10160): several roles debate a response.

A model that plays several roles in a discussion notices flaws that it misses when asked directly.
It is also said to judge a text differently if it is told that it wrote the text. Scores given after
the debate rank the responses; such a ranking is used to train a reward model.
"""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask, nth
from ..agents.agent import Speaker
from ..gather import gather_deterministic
from ..judges.case import Belief
from ..prompts.words import Words
from ..protocol import Conversation, Measured, WithHorizon
from ..question import Answer, Question
from ..seat import Role, Seat, laid_down
from ..settings import Count
from ..transcript import Transcript
from .auxiliary import Assisted, Aux, best

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

    row: ClassVar[str] = "debate feedback {0.size}"
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
        debates = await gather_deterministic(
            *(
                self._debate(transcript, side, nth(ask, index), ask)
                for index in range(self.candidates)
            )
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
            turns = await gather_deterministic(
                *(seat.speak_unlabelled(transcript, ask) for seat in seats)
            )
            transcript = laid_down(transcript, *turns)
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
        prompt = self.judging("referee")
        return await self.judge.believes(sound, debate, ask, prompt, side=side)
