"""Debate as feedback (RLDF: Cheng et al. 2024, arXiv:2404.10160): several roles debate a response.

A model that plays several roles which discuss a text notices what it would not notice if it were
asked outright; and it is said to judge a text differently when it is told that the text is its own.
Scores given after the debate rank the responses, and such a ranking is what a reward model is
trained on.
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
from ..settings import ranged
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
    """Several roles debate each response of the agent; the one scored best goes before the judge.

    World a:
      1. the agent responds in favour of a, in `candidates` draws;
      2. for each response the roles speak in `rounds` rounds: in a round all at once, having heard
         the rounds before. They are told that the text is their own, or that it is not (`own`);
      3. the referee, who is the judge's model, scores each response after its debate;
      4. the judge reads the response with the best score, and its debate, and decides. Ties go to
         the lowest draw. A score that cannot be read may be any: then the judge decides on every
         response that may be the best, and the verdict is the worst of these for a.
    A single candidate is scored as well, since its score is measured.
    Shared: nothing, since every call quotes the response. Honest roles (`aux`) take no side, and
    are asked the same in both worlds. Rows that differ in `aux` share the responses, and more
    rounds begin with the calls of fewer.
    Reward: for the agent the judge's belief in a, as its prompt says; the referee's score, on which
    one would train, only selects.
    Measured: the best `score`, and the `spread` from there down to the lowest one: these two
    responses are a pair to train on.

    Where we differ: Cheng et al. rank responses by bias and train on the ranking; ours are ranked
    by how well they answer, and the judge takes the place of the training.
    """

    agent: Speaker
    participant: Speaker | None = None
    """Who plays the roles; None: a copy of the agent."""
    roles: tuple[str, ...] = ROLES
    """Each completes the sentence «You are Participant 1: …»."""
    rounds: int = ranged(1)
    candidates: int = ranged(2)
    """Responses that are ranked, at the agent's own temperature."""
    own: bool = False
    """Whether the participants are told that they wrote the response themselves."""
    aux: Aux = "honest"
    """Whose side the participants are on."""

    row: ClassVar[str] = "debate feedback {0.size}"
    sections: ClassVar[tuple[str, ...]] = ("debate_feedback",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.roles:
            raise ValueError("roles: there must be at least one")

    @property
    def size(self) -> str:
        own = " as their own" if self.own else ""
        return f"{len(self.roles)} roles {self.rounds} rounds best of {self.candidates}{own}"

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
        scored = await best(debates, 1, (self._score(each, side, ask) for each in debates))
        (shown,), *otherwise = scored.choices
        most, least = max(scored.ratings, default=0.0), min(scored.ratings, default=0.0)
        return Measured(
            shown,
            (("score", most), ("spread", most - least)) if scored.ratings else (),
            tuple(each for (each,) in otherwise),
            scored.doubts,
            tuple(turn for debate in debates for turn in debate.turns),
        )

    async def _debate(
        self, transcript: Transcript, side: Answer, draw: Ask, ask: Ask
    ) -> Transcript:
        """The transcript with one response, and all that the roles say of it."""
        response = await self.seat(self.agent, side, RESPONSE).speak(transcript, draw)
        transcript = transcript.then(response)
        seats = self._seats(transcript.question, side)
        for _ in range(self.rounds):
            said = await gather_deterministic(
                *(seat.speak_unlabelled(transcript, ask) for seat in seats)
            )
            transcript = laid_down(transcript, *said)
        return transcript

    def _seats(self, question: Question, side: Answer) -> list[Seat]:
        """One seat for each role, which is told who it is and whose the response is."""
        speaker = self.participant or self.agent
        origin = self.words.text(f"debate_feedback.{'own' if self.own else 'anothers'}")
        seats = []
        for number, role in enumerate(self.roles, 1):
            title = f"Participant {number}"
            # A role is a setting of the user's.
            told = {"participant": Words(title), "role": Words(role), "origin": origin}
            sided = self.aux_seats(speaker, question, side, title, "discuss", **told)
            seats.append(sided[(number - 1) % len(sided)])
        return seats

    async def _score(self, debate: Transcript, side: Answer, ask: Ask) -> Belief:
        """How likely the judge finds it that the response is sound."""
        sound = self.words.data("debate_feedback.sound", label=side)
        prompt = self.judging("referee")
        return await self.judge.believes(sound, debate, ask, prompt, side=side)
