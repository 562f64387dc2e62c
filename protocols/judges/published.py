"""The judges of a published experiment as a judge, for comparison with other rows."""

from dataclasses import dataclass

from ...cache.call import Ask
from ..agents.agent import Agent
from ..errors import NotRun
from ..held import DiscussedQuestion
from ..transcript import Judgement, Verdict
from .case import Case
from .judge import Judge, average


@dataclass(frozen=True)
class PublishedJudge(Judge):
    """Returns recorded beliefs about a conversation after the number of rounds heard.

    Asks no model. Before the first turn it returns the initial beliefs, so that the naive judge's
    row describes the same people. If several people judged one conversation in this mode it returns
    their mean; NotRun if nobody did."""

    mode: str = "live"
    """How people judged: `live`, `stepped`, `timed`, …"""

    @property
    def name(self) -> str:
        return f"published {self.mode}"

    @property
    def reads_passage(self) -> bool:
        return False

    @property
    def base_agent(self) -> Agent:
        """A placeholder for names. The provider does not exist, so it cannot be asked."""
        return Agent("published/judges")

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        question = case.transcript.question
        conversation = question.held if isinstance(question, DiscussedQuestion) else None
        if conversation is None or case.statement:
            raise NotRun("published judges decided only recorded conversations")
        turns = conversation.until(0)[: len(case.transcript.turns)]
        rounds = max((turn.round for turn in turns), default=0)
        histories = [one for one in conversation.judged if one.mode == self.mode]
        last = None if turns and rounds == conversation.rounds else rounds
        beliefs = [h.after(last) for h in histories if last is None or h.beliefs[0][0] <= last]
        if not beliefs:
            raise NotRun(f"nobody judged this conversation {self.mode} after {rounds} rounds")
        return Verdict(average(beliefs), case.transcript, tuple(map(Judgement, beliefs)))
