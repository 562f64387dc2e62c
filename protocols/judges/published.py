"""The judges of a published experiment, as a judge: what they believed, for a row beside ours."""

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
    """Returns what was believed of a recorded conversation after as many rounds as are heard.

    Asks no model. Before anything was said it returns the first beliefs, so that the naive judge's
    row is that of the same people. The mean, where several judged one conversation in this mode;
    NotRun where nobody did.
    """

    mode: str = "live"
    """How they judged: `live`, `stepped`, `timed`, …"""

    @property
    def name(self) -> str:
        return f"published {self.mode}"

    @property
    def reads_passage(self) -> bool:
        return False

    @property
    def base_agent(self) -> Agent:
        """Stands for them in names alone: there is no such provider, so nothing can be asked."""
        return Agent("published/judges")

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        question = case.transcript.question
        held = question.held if isinstance(question, DiscussedQuestion) else None
        if held is None or case.statement:
            raise NotRun("published judges decided recorded conversations alone")
        heard = held.until(0)[: len(case.transcript.turns)]
        rounds = max((turn.round for turn in heard), default=0)
        judged = [each for each in held.judged if each.mode == self.mode]
        last = None if heard and rounds == held.rounds else rounds
        found = [e.after(last) for e in judged if last is None or e.beliefs[0][0] <= last]
        if not found:
            raise NotRun(f"nobody judged this conversation {self.mode} after {rounds} rounds")
        return Verdict(average(found), case.transcript, tuple(map(Judgement, found)))
