"""Critique and refine: a draft of a speech is criticised and rewritten before it is spoken."""

from dataclasses import dataclass, replace

from msgspec import structs

from ...cache.call import Ask, nth, used_as
from ..agents.agent import Brief, Speaker
from ..errors import Unreadable
from ..gather import gather_in_order
from ..judges.judge import Judge
from ..prompts.forms import Form, whole_number
from ..question import Answer
from ..seat import Seat
from ..settings import require_positive
from ..transcript import Transcript, Turn
from .wrapper import Wrapper, heard_as


@dataclass(frozen=True)
class Refine(Wrapper):
    """A draft, critiques of it, and a rewrite after the most useful one (Khan et al. 2024,
    arXiv:2402.06782; Saunders et al. 2022, arXiv:2206.05802).

    The rewrite is spoken only if the judge then believes `side` more than after the draft. A
    speaker without a side speaks its draft, since nothing tells the better of two speeches. The
    draft is also spoken if it refuses, concedes or is cut short, or if the critiques, their ranking
    or the judge's belief cannot be read.
    """

    agent: Speaker
    judge: Judge
    """Ranks the critiques, and decides between draft and rewrite."""
    critiques: int = 2
    """Draws of a critique, each blind to the others."""
    temperature: float | None = 0.8
    """Sampling temperature of the critiques; at 0 they would all be identical."""

    def __post_init__(self) -> None:
        require_positive(self, "critiques")

    @property
    def name(self) -> str:
        return f"{self.agent.name} refined {self.critiques}"

    async def speak_for(self, side: Answer, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The rewrite, or the draft where that is no better."""
        draft = await self.agent.speak(transcript, side, used_as(ask, "draft"), brief)
        if draft.outcome != "ok" or draft.conceded:
            return draft
        drafted, unchanged = transcript.then(structs.replace(draft, speaker="Draft")), draft
        try:
            critique = await self._critique(drafted, side, ask, brief)
            rewriting = brief.also_told(brief.words.text("agent.rewrite"), by="\n")
            heard = drafted.then(critique)
            rewrite = await self.base_agent.speak(heard, side, used_as(ask, "rewrite"), rewriting)
            # The rewrite may rest on what the draft computed.
            rewrite = structs.replace(
                rewrite, tools=draft.tools + rewrite.tools, drafts=draft.drafts
            )
            unchanged = structs.replace(draft, drafts=(*draft.drafts, rewrite))
            if rewrite.outcome != "ok" or rewrite.conceded or not rewrite.text:
                return unchanged
            rating = used_as(ask, "rate")
            before, after = await gather_in_order(
                *(
                    self.judge.belief(transcript.then(turn), side, rating, heard_as(brief, side))
                    for turn in (draft, rewrite)
                )
            )
        except Unreadable:
            return unchanged
        return rewrite if after > before else unchanged

    async def _critique(self, drafted: Transcript, side: Answer, ask: Ask, brief: Brief) -> Turn:
        """The critique that is ranked first. Unreadable if there is none or no ranking."""
        critic = replace(
            self.base_agent,
            temperature=self.temperature,
            tools=(),
            claims=(),
            quotes=False,
            may_concede=False,
        )
        stance = brief.words.fill("agent.criticise")
        criticising = structs.replace(brief, title="Critique", stance=stance, act="criticise")
        turns = await gather_in_order(
            *(critic.speak(drafted, side, nth(ask, i), criticising) for i in range(self.critiques))
        )
        usable = [turn for turn in turns if turn.outcome == "ok" and turn.text]
        if not usable:
            raise Unreadable("no critique was written", turns[0].text, turns[0].call)
        best = await self._ranked_first(drafted, usable, ask, brief) if len(usable) > 1 else 0
        return structs.replace(usable[best], speaker="Critique")

    async def _ranked_first(
        self, drafted: Transcript, critiques: list[Turn], ask: Ask, brief: Brief
    ) -> int:
        """Index of the most useful critique, from 0."""
        listed = (
            structs.replace(critique, speaker=f"Critique {n}")
            for n, critique in enumerate(critiques, 1)
        )
        words = brief.words
        ranking = Brief(
            "Judge",
            words.text("agent.ranking_rules"),
            words.text("agent.rank"),
            reads_passage=self.judge.reads_passage,
            prompts=brief.prompts,
        )
        numbers = range(1, len(critiques) + 1)
        form: Form[int] = Form(
            "ranking", {"best": whole_number(numbers)}, lambda said: said.whole("best", numbers)
        )
        ranker = Seat(self.judge.base_agent, None, ranking)
        return await ranker.fill(form, drafted.then(*listed), ask) - 1
