"""Recursive reward modelling (Leike et al. 2018, arXiv:1811.07871).

A reward model must judge answers that it cannot judge unaided. So the judgement is split into
criteria, helpers assess each one, and the reward model reads their assessments. The agent is
optimised for that reward by best of N, which needs no training.
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
from ..settings import Count
from ..transcript import Transcript, Turn, Verdict
from .auxiliary import Assisted, Aux
from .listing import list_entries

CRITERIA = Role("recursive_reward_modelling.criteria", "Judge")
NARROWER = Role("recursive_reward_modelling.narrower", "Judge")
CANDIDATE = Role("recursive_reward_modelling.candidate", "Agent")


Assessment: TypeAlias = tuple[Turn, Turn, tuple[Turn, ...]]
"""A criterion, its assessment, and the turns below it, which only the helper read."""


@dataclass(frozen=True)
class RecursiveRewardModelling(Assisted):
    """The judge writes criteria, helpers assess by them, and the judge's belief is the reward.

    World a:
      1. the judge's model, which sees only the question, lists at most `criteria` criteria (a
         form);
      2. the agent argues for a, in `candidates` draws;
      3. a helper assesses each candidate by each criterion, blind to the other helpers. If `depth`
         allows, the judge's model first lists narrower criteria (a form), the candidate is assessed
         by those in the same way, and the helper reads the assessments;
      4. separately for each candidate, the judge reads it with its assessments by the criteria at
         the top, and states how likely its answer is to be right: the reward;
      5. the candidate with the highest reward wins. Ties go to the lowest draw. A candidate that is
         refused or empty, or has an empty assessment, wins only if all are. A candidate with an
         unread reward does not win; its reward could have been any, which gives the verdict its
         upper bound.
    The verdict is the judge's on that candidate, in which the reward is the probability of a.
    Shared: the criteria, which are written before anybody argues. Every other call quotes a
    candidate. Honest helpers (`aux`) take no side, and their prompts are the same in both worlds.
    Adversarial ones argue for a as well. Rows that differ in `aux` share the criteria and the
    candidates.
    Reward: for the agent, and for its adversarial helpers, that reward.
    Measured: `gained`, the increase of the reward by best of N over the first readable draw.

    Where we differ: Leike's helpers are trained by the same procedure, which is the recursion. Ours
    are not trained, and only the assessment recurs.
    """

    agent: Speaker
    helper: Speaker | None = None
    """None: a copy of the agent."""
    criteria: Count = 3
    """Maximum number of criteria in one list. Further ones are left out."""
    candidates: Count = 2
    """N of best of N, at the agent's own temperature."""
    aux: Aux = "honest"
    """The side of the helpers."""
    depth: Count = 1
    """Levels of criteria. At 1, helpers assess only by those at the top."""

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
        rewarded = await parse_all(
            *(self._verdict(transcript_read, side, ask) for transcript_read, _ in assessed)
        )
        verdicts, index = rewarded.read, question.place(side)
        rewards = {n: verdict.spans[index] for n, verdict in verdicts.items()}
        turns_by_draw = [transcript_read.turns + below for transcript_read, below in assessed]
        silent = {n for n, turns in enumerate(turns_by_draw) if any(turn.silent for turn in turns)}
        best = max(rewards, key=lambda n: (n not in silent, rewards[n][0]))
        doubts = (*rewarded.doubts, *(doubt for v in verdicts.values() for doubt in v.doubts))
        most = 1.0 if rewarded.doubts else max(high for _, high in rewards.values())
        low, first = rewards[best][0], next(iter(rewards.values()))[0]
        unread = doubts or any(verdict.bounds for verdict in verdicts.values())
        return replace(
            verdicts[best],
            measures=(*verdicts[best].measures, ("gained", low - first)),
            bounds=ranges_given((low, most), index, len(question.answers)) if unread else (),
            doubts=doubts,
            unheard=tuple(
                turn
                for n, (_, below) in enumerate(assessed)
                for turn in (below if n == best else turns_by_draw[n])
            ),
        )

    async def _assessed(
        self, transcript: Transcript, criteria: tuple[Turn, ...], side: Answer, index: int, ask: Ask
    ) -> tuple[Transcript, tuple[Turn, ...]]:
        """The transcript with candidate number `index` and its assessments, and the turns below
        them."""
        candidate = await self.seat(self.agent, side, CANDIDATE).speak(transcript, nth(ask, index))
        transcript = transcript.then(candidate)
        speaker = self.helper or self.agent
        helpers = self.aux_seats(speaker, transcript.question, side, "Helper", "assess")
        assessments = await gather_deterministic(
            *(
                self._found(transcript, criterion, helpers[n % len(helpers)], self.depth, ask)
                for n, criterion in enumerate(criteria)
            )
        )
        transcript = transcript.then(
            *(turn for assessment in assessments for turn in assessment[:2])
        )
        return transcript, tuple(turn for *_, below in assessments for turn in below)

    async def _found(
        self, transcript: Transcript, criterion: Turn, helper: Seat, depth: int, ask: Ask
    ) -> Assessment:
        """A helper's assessment by a criterion of the candidate on the transcript."""
        context = transcript.then(criterion)
        below: tuple[Turn, ...] = ()
        if depth > 1:
            judge = self.judge_seat(self.role_prompt(NARROWER, most=self.criteria))
            at_hand = Transcript(transcript.question, (criterion,))
            narrower = await list_entries("criteria", self.criteria, judge, at_hand, ask)
            assessments = await gather_deterministic(
                *(self._found(transcript, narrow, helper, depth - 1, ask) for narrow in narrower)
            )
            context = transcript.then(
                *(turn for assessment in assessments for turn in assessment[:2]), criterion
            )
            below = tuple(turn for *pair, under in assessments for turn in (*pair, *under))
        return criterion, await helper.speak_unlabelled(context, ask), below

    async def _verdict(self, assessed: Transcript, side: Answer, ask: Ask) -> Verdict:
        prompt = self.judging()
        prompt = replace(prompt, stance=for_side(prompt.stance, side.label))
        return await self.judge.judge(assessed, ask, prompt)

    def judging(self, block: str = "reward") -> RolePrompt:
        return self.role_prompt(Role(f"{self.sections[0]}.{block}", "Judge"), **self.judge_values())
