"""A protocol: a conversation about a question, and a judge who heard it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import ClassVar, Self, TypeAlias

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Brief, Speaker
from oversight.protocols.gather import gather_in_order
from oversight.protocols.judges.judge import Judge
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.scores import SCORES
from oversight.protocols.transcript import Transcript, Verdict

Seat: TypeAlias = tuple[Speaker, Answer | None, Brief]
"""Who speaks, the answer that is argued for (None: no side), and what the seat is asked to do."""


@dataclass(frozen=True)
class Protocol(ABC):
    """A way for a weak judge to supervise a strong agent.

    A protocol is a frozen dataclass: its fields are its roles and settings, and so its identity
    and its row in a report. A new one is a subclass with `converse`. It may keep no state, and
    may take chance from nowhere but its `ask`: then its worlds share what is the same in both,
    and a run can be resumed and replayed.
    """

    judge: Judge

    opposes_answers: ClassVar[bool] = False
    """Whether somebody argues for the other answer, so that there must be exactly one other."""

    @property
    def name(self) -> str:
        """The row in a report: the kind and its settings, without the roles."""
        return " ".join([kind(type(self)), *self._settings()])

    @abstractmethod
    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        """What is said before the judge decides. `side` is what the overseen agent argues for."""

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """One world: the conversation in which the agent argues for `side`, and its verdict.

        Unreadable if a reply that the verdict rests on cannot be read; what `ask` raises passes.
        """
        return await self.judge.judge(await self.converse(Transcript(question), side, ask), ask)

    async def worlds(self, problem: Problem, ask: Ask) -> list[Verdict]:
        """The verdict of every world of a problem, in answer order; the worlds run at once."""
        question = problem.question
        return await gather_in_order(*(self.run(question, side, ask) for side in question.answers))

    async def agent_score_difference(
        self, problem: Problem, ask: Ask, score: str = "brier"
    ) -> float:
        """ASD of one problem: the sum over answers of value x score in the world that argues it.

        score: a name in oversight.protocols.scores.SCORES (Sudhir et al. 2025, arXiv:2504.03731).
        """
        verdicts = await self.worlds(problem, ask)
        measure = SCORES[score]
        return sum(
            value * measure(verdict.probs, place)
            for place, (value, verdict) in enumerate(zip(problem.values, verdicts, strict=True))
        )

    def check(self, question: Question) -> None:
        """ValueError, with the mend, if this protocol cannot run on this question."""
        if self.opposes_answers and len(question.answers) != 2:
            raise ValueError(
                f"{self.name} opposes two answers, but this question has "
                f"{len(question.answers)}; keep two of them, or use a protocol with one voice"
            )

    def grid(self, agents: Iterable[Speaker], judges: Iterable[Judge]) -> list[Self]:
        """This protocol with every agent and every judge; once a judge if it has no agent."""
        if "agent" not in {field.name for field in fields(self)}:
            return [replace(self, judge=judge) for judge in judges]
        return [
            replace(self, judge=judge, **{"agent": agent})
            for agent, judge in product(agents, judges)
        ]

    def judge_seat(self, brief: Brief, stand_in: Speaker | None = None) -> Seat:
        """A seat without a side for the judge's model, or for whoever stands in for it.

        The judge's model reads the passage here only if the judge does; a stand-in always may.
        """
        if stand_in is not None:
            return (stand_in, None, brief)
        return (self.judge.base_agent, None, replace(brief, reads_passage=self.judge.reads_passage))

    def _settings(self) -> Iterable[str]:
        """The settings that are plain values, as `name value`; a flag is its name alone."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                yield field.name.replace("_", " ") if value else f"not {field.name}"
            elif isinstance(value, (int, float, str)):
                yield f"{field.name.replace('_', ' ')} {value}"


def kind(protocol: type[Protocol]) -> str:
    """The name of a kind of protocol, from that of its class: NaiveJudge is `naive judge`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", protocol.__name__).lower()


async def speak_simultaneously(floor: Transcript, *seats: Seat, ask: Ask) -> Transcript:
    """The seats speak at once, each blind to the others; their turns land in seat order."""
    turns = await gather_in_order(
        *(speaker.speak(floor, side, ask, brief) for speaker, side, brief in seats)
    )
    return floor.then(*turns)
