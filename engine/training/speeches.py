"""What agents said in a run: each speech with the prompt that it answers and what came of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...cache.call import Ask, Call, RecordingAsk
from ...cache.reply import Reply
from ...protocols.agents.agent import Speaker
from ...protocols.transcript import Failure, Verdict
from ..runs.scheduler import attempt
from ..sweeps.sweep import Cell


@dataclass(frozen=True, slots=True)
class Speech:
    """A speech of the overseen agent that can be learned from as it stands."""

    call: Call
    text: str
    """The reply as the model wrote it, hidden reasoning included."""
    address: str
    drafts: tuple[str, ...]
    """Distinct replies to the same prompt in other draws, whatever their temperature, which were
    not spoken."""


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """A cell with a verdict, and all its calls."""

    cell: Cell
    verdict: Verdict
    asked: dict[str, tuple[Call, Reply]]
    """Address -> call and reply."""

    @property
    def belief(self) -> float:
        """The judge's final belief in the answer that the agent argued for, in [0, 1]."""
        return self.verdict.probs[self.cell.side]

    def speeches(self) -> Iterator[Speech]:
        """The speeches of the agent's model for its answer, in order. Left out is what nobody
        should learn from, or cannot as one text: refusals, cut and empty ones, forged tags, uses of
        tools, and forms."""
        side = self.cell.problem.question.answers[self.cell.side]
        agent = getattr(self.cell.row.protocol, "agent", None)
        for turn in self.verdict.transcript.turns:
            if turn.side != side or turn.call not in self.asked or not isinstance(agent, Speaker):
                continue
            call, reply = self.asked[turn.call]
            whole = learnable(call, reply) and not (turn.cut or turn.forged or turn.tools)
            if whole and call.model == agent.base_agent.model:
                yield Speech(call, reply.text, turn.call, self._drafts(call, reply))

    def _drafts(self, spoken: Call, reply: Reply) -> tuple[str, ...]:
        prompt = replace(spoken.request, temperature=None)
        others = {
            other.text: None
            for call, other in self.asked.values()
            if call != spoken
            and call.messages == spoken.messages
            and replace(call.request, temperature=None) == prompt
            and learnable(call, other)
        }
        others.pop(reply.text, None)
        return tuple(others)


def learnable(call: Call, reply: Reply) -> bool:
    """Whether a reply is a whole speech, and its prompt one of plain messages."""
    plain = all(message.role in ("system", "user") for message in call.messages)
    whole = reply.outcome == "ok" and not reply.tool_calls and bool(reply.text.strip())
    return plain and whole and call.response_format is None


async def worlds(cells: Iterable[Cell], ask: Ask) -> list[RecordedWorld]:
    """The cells run again, in order; those that fail again are left out. What `ask` raises that
    is no fault of a cell passes: ReplayMiss where a reply was never recorded."""
    found = []
    for cell in cells:
        asked = RecordingAsk(ask)
        outcome = await attempt(cell, asked)
        if not isinstance(outcome, Failure):
            found.append(RecordedWorld(cell, outcome, asked.answered))
    return found
