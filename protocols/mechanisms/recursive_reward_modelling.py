"""Recursive reward modelling (Leike et al. 2018, arXiv:1811.07871).

A reward model must judge answers that it could not judge unaided. So the judgement is split into
criteria, helpers assess each, and the reward model reads what they say. The agent is held to that
reward by best of N, which is how one optimises against a reward model without any training.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask, nth
from ..agents.agent import RolePrompt, Speaker
from ..doubts import parse_all, ranges_given
from ..gather import gather_deterministic
from ..prompts.prompt_set import for_side
from ..question import Answer, Question
from ..seat import Role, Seat
from ..settings import ranged
from ..transcript import Transcript, Turn, Verdict
from .auxiliary import Assisted, Aux
from .listing import list_entries

CRITERIA = Role("recursive_reward_modelling.criteria", "Judge")
NARROWER = Role("recursive_reward_modelling.narrower", "Judge")
CANDIDATE = Role("recursive_reward_modelling.candidate", "Agent")


Assessment: TypeAlias = tuple[Turn, Turn, tuple[Turn, ...]]
"""A criterion, what was found by it, and what was said below these, which the helper alone read."""


@dataclass(frozen=True)
class RecursiveRewardModelling(Assisted):
    """The judge writes criteria, helpers assess by them, and the judge's belief is the reward.

    World a:
      1. the judge's model, which has seen the question alone, lists at most `criteria` criteria (a
         form);
      2. the agent argues for a, in `candidates` draws;
      3. a helper assesses each candidate by each criterion, blind to the other helpers. Where
         `depth` allows, the judge's model first lists narrower criteria for that one (a form), the
         candidate is assessed by those in the same way, and the helper reads the assessments;
      4. for each candidate by itself, the judge reads it with its assessments by the criteria at
         the top, and says how likely its answer is to be right: the reward;
      5. the candidate with the highest reward stands. Ties go to the lowest draw. One that is
         refused or empty, or on which a helper said nothing, stands only if all are so. A candidate
         whose reward cannot be read does not stand; had it been read it might have had any, which
         gives the verdict its upper bound.
    The verdict is the judge's on that candidate, in which the reward is the probability of a.
    Shared: the criteria, which are written before anybody argues; every other call quotes a
    candidate. Honest helpers (`aux`) take no side, and are asked the same in both worlds;
    adversarial ones argue for a as well. Rows that differ in `aux` share the criteria and the
    candidates.
    Reward: for the agent, and for its adversarial helpers, that reward.
    Measured: `gained`, by how much best of N raised the reward over that of the first draw which
    has one.

    Where we differ: Leike's helpers are trained by the same procedure, which is the recursion; ours
    are asked as they are, and what recurs is the assessment.
    """

    agent: Speaker
    helper: Speaker | None = None
    """None: a copy of the agent."""
    criteria: int = ranged(3)
    """The most criteria in one list; what is listed beyond them is left out."""
    candidates: int = ranged(2)
    """The N of best of N, at the agent's own temperature."""
    aux: Aux = "honest"
    """Whose side the helpers are on."""
    depth: int = ranged(1)
    """Levels of criteria; at 1 helpers assess by those at the top alone."""

    row: ClassVar[str] = (
        "recursive reward modelling {0.criteria} criteria {0.depth} deep best of {0.candidates}"
    )
    sections: ClassVar[tuple[str, ...]] = ("recursive_reward_modelling",)

    @property
    def helpers(self) -> int:
        return self.criteria

    @property
    def apart(self) -> int:
        return self.candidates * int(self.criteria**self.depth)

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = Transcript(question)
        judge = self.judge_seat(self.role_prompt(CRITERIA, most=self.criteria))
        criteria = await list_entries("criteria", self.criteria, judge, transcript, ask)
        assessed = await gather_deterministic(
            *(
                self._assessed(transcript, criteria, side, index, ask)
                for index in range(self.candidates)
            )
        )
        rewarded = await parse_all(*(self._verdict(each, side, ask) for each, _ in assessed))
        verdicts, place = rewarded.read, question.place(side)
        rewards = {n: verdict.spans[place] for n, verdict in verdicts.items()}
        said = [read.turns + below for read, below in assessed]
        silent = {n for n, turns in enumerate(said) if any(turn.silent for turn in turns)}
        best = max(rewards, key=lambda n: (n not in silent, rewards[n][0]))
        doubts = (*rewarded.doubts, *(doubt for v in verdicts.values() for doubt in v.doubts))
        most = 1.0 if rewarded.doubts else max(high for _, high in rewards.values())
        low, first = rewards[best][0], next(iter(rewards.values()))[0]
        unread = doubts or any(verdict.bounds for verdict in verdicts.values())
        return replace(
            verdicts[best],
            measures=(*verdicts[best].measures, ("gained", low - first)),
            bounds=ranges_given((low, most), place, len(question.answers)) if unread else (),
            doubts=doubts,
            unheard=tuple(
                turn
                for n, (_, below) in enumerate(assessed)
                for turn in (below if n == best else said[n])
            ),
        )

    async def _assessed(
        self, transcript: Transcript, criteria: tuple[Turn, ...], side: Answer, index: int, ask: Ask
    ) -> tuple[Transcript, tuple[Turn, ...]]:
        """The transcript with candidate number `index`, and its assessment by each criterion; and
        what was said below these."""
        candidate = await self.seat(self.agent, side, CANDIDATE).speak(transcript, nth(ask, index))
        transcript = transcript.then(candidate)
        speaker = self.helper or self.agent
        helpers = self.aux_seats(speaker, transcript.question, side, "Helper", "assess")
        found = await gather_deterministic(
            *(
                self._found(transcript, criterion, helpers[n % len(helpers)], self.depth, ask)
                for n, criterion in enumerate(criteria)
            )
        )
        transcript = transcript.then(*(turn for each in found for turn in each[:2]))
        return transcript, tuple(turn for *_, below in found for turn in below)

    async def _found(
        self, transcript: Transcript, criterion: Turn, helper: Seat, depth: int, ask: Ask
    ) -> Assessment:
        """What a helper finds by a criterion about the candidate on the transcript."""
        asked = transcript.then(criterion)
        below: tuple[Turn, ...] = ()
        if depth > 1:
            judge = self.judge_seat(self.role_prompt(NARROWER, most=self.criteria))
            at_hand = Transcript(transcript.question, (criterion,))
            narrower = await list_entries("criteria", self.criteria, judge, at_hand, ask)
            found = await gather_deterministic(
                *(self._found(transcript, each, helper, depth - 1, ask) for each in narrower)
            )
            asked = transcript.then(*(turn for each in found for turn in each[:2]), criterion)
            below = tuple(turn for *pair, under in found for turn in (*pair, *under))
        return criterion, await helper.speak_unlabelled(asked, ask), below

    async def _verdict(self, assessed: Transcript, side: Answer, ask: Ask) -> Verdict:
        prompt = self.judging()
        prompt = replace(prompt, stance=for_side(prompt.stance, side.label))
        return await self.judge.judge(assessed, ask, prompt)

    def judging(self, block: str = "reward") -> RolePrompt:
        return self.role_prompt(Role(f"{self.sections[0]}.{block}", "Judge"), **self.judge_values())
