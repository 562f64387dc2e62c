"""Debate as feedback (RLDF: Cheng et al. 2024, arXiv:2404.10160): several roles debate a response.

One model, asked to play several roles that discuss a text, notices what it would not notice when
asked outright; and it is said to judge a text differently when it is told that the text is its
own. Scores after the debate rank the responses, which is what a reward model is trained on.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask, nth
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.gather import gather_in_order
from oversight.protocols.mechanisms.auxiliary import Aux, aux_name, aux_seat, check_aux
from oversight.protocols.prompts.escape import escape_tags
from oversight.protocols.prompts.prompt_set import for_side
from oversight.protocols.protocol import Conversation, Measured
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Role, Seat, hear, readable_ones
from oversight.protocols.settings import require_positive
from oversight.protocols.transcript import Transcript

RESPONSE = Role("debate_feedback.response", "Response")
PARTICIPANT = "Participant"

ROLES = (
    "an expert in what the question is about",
    "a sceptic who looks for what is wrong",
    "somebody who has to act on the answer",
)


@dataclass(frozen=True)
class DebateFeedback(Conversation):
    """Several roles debate the agent's response, and the best scored one goes before the judge.

    World a:
      1. the agent responds in favour of a, in `candidates` draws;
      2. for each response the roles speak, `rounds` times: in a round all at once, on what was
         said in the rounds before; they are told that the text is their own, or is not (`own`);
      3. the referee, who is the judge's model, scores each response by its debate (a form);
      4. the judge hears the best scored response, of equals the lowest draw, with its debate, and
         decides.
    A response whose score cannot be read is passed over. One candidate is scored as well: its
    score is measured.
    Shared: nothing, since all quote the response. The roles take no side and are asked alike.
    Reward: for the agent the referee's score, measured as `score`; the best response and the one
    with the lowest score, `spread` below it, are a pair to train on. The benchmark's score is the
    judge's belief in a, as everywhere.

    Where we differ: Cheng et al. rank by bias and train on the ranking; ours are ranked by how
    well they answer, and the judge takes the place of the training.
    """

    agent: Speaker
    participant: Speaker | None = None
    """Who plays the roles; None: a copy of the agent."""
    roles: tuple[str, ...] = ROLES
    """Each as it completes «You are Participant 1: …»."""
    rounds: int = 1
    candidates: int = 2
    """Responses that are ranked, at the agent's own temperature."""
    own: bool = False
    """Whether the participants are told that they wrote the response themselves."""
    aux: Aux = "honest"
    """Whose side the participants are on."""

    sections: ClassVar[tuple[str, ...]] = ("debate_feedback",)

    def __post_init__(self) -> None:
        check_aux(self.aux)
        require_positive(self, "rounds", "candidates")
        if not self.roles:
            raise ValueError("roles: there must be at least one")

    @property
    def name(self) -> str:
        size = f"{len(self.roles)} roles {self.rounds} rounds best of {self.candidates}"
        own = " as their own" if self.own else ""
        return f"debate feedback {size}{own}{aux_name(self.aux)}"

    def rule_values(self) -> dict[str, str | int]:
        return {"conduct": self.words.text(f"debate_feedback.{self.aux}_conduct")}

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Measured:
        debates = await gather_in_order(
            *(self._debate(floor, side, nth(ask, index), ask) for index in range(self.candidates))
        )
        scores = await readable_ones(*(self._score(debate, side, ask) for debate in debates))
        best, worst = max(scores.values()), min(scores.values())
        first = next(place for place, score in scores.items() if score == best)
        return Measured(debates[first], (("score", best), ("spread", best - worst)))

    async def _debate(self, floor: Transcript, side: Answer, draw: Ask, ask: Ask) -> Transcript:
        """The floor with one response and all that the roles say of it."""
        response = await self.seat(self.agent, side, RESPONSE).speak(floor, draw)
        floor = floor.then(response)
        for _ in range(self.rounds):
            said = await hear(floor, *self._seats(floor.question, side), ask=ask)
            numbered = (
                replace(turn, speaker=f"{PARTICIPANT} {number}")
                for number, turn in enumerate(said.turns[len(floor.turns) :], 1)
            )
            floor = floor.then(*numbered)
        return floor

    def _seats(self, question: Question, side: Answer) -> list[Seat]:
        """Every role, as it is told who it is and whose the response is."""
        speaker = self.participant or self.agent
        origin = self.words.text(f"debate_feedback.{'own' if self.own else 'anothers'}")
        return [
            aux_seat(
                self,
                self.aux,
                speaker,
                question,
                side,
                f"{PARTICIPANT} {number}",
                "discuss",
                participant=f"{PARTICIPANT} {number}",
                role=role,
                origin=origin,
            )
            for number, role in enumerate(self.roles, 1)
        ]

    async def _score(self, debate: Transcript, side: Answer, ask: Ask) -> float:
        """How likely the judge finds it that the response is sound, in [0, 1]."""
        sound = for_side(
            self.words.fill("debate_feedback.sound"), side.label, escape_tags(side.text)
        )
        brief = self.judging("referee")
        return (await self.judge.believes(sound, debate, ask, brief, side=side)).value
