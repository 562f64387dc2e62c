"""Critique and self-critique (Saunders et al. 2022, arXiv:2206.05802)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask, nth
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.errors import Unreadable
from oversight.protocols.gather import gather_in_order
from oversight.protocols.judges.judge import Judge
from oversight.protocols.mechanisms.auxiliary import Aux, aux_name, aux_seat, check_aux
from oversight.protocols.prompts.prompt_set import for_side
from oversight.protocols.protocol import Conversation, Measured
from oversight.protocols.question import Answer, Problem
from oversight.protocols.seat import Role, hear, readable_ones
from oversight.protocols.transcript import NamedMeasures, Scalar, Transcript, Verdict

PROPOSER = Role("critique.proposer", "Proposer")
REBUTTAL = Role("critique.rebuttal", "Proposer")
CRITIC = "Critic"


@dataclass(frozen=True)
class Critique(Conversation):
    """The agent proposes `side`; the judge reads the proposal and the best critiques of it.

    World a:
      1. the agent proposes a;
      2. the critic writes `critiques` draws of a critique, each blind to the others;
      3. the ranker says of each on its own how likely it is to be helpful: to point to a real flaw,
         or rightly to none; the `shown` best are kept, best first, of equals the lowest draw. If
         all are to be shown none is rated, and they stand in order of draw;
      4. with a `rebuttal` the agent answers the critiques that are shown;
      5. the judge reads all of this, and decides.
    A critique whose rating cannot be read is not shown.
    The critic has no side (`aux: honest`), argues for another answer (sided), or works for the
    proposer (adversarial); the rules say which.
    Shared: an honest critic's policy, which is asked alike in both worlds; but not its calls,
    which quote the proposal.
    Reward: for the agent the judge's belief in a; for the critic its rating, of which the best
    is measured as `helpfulness`, in [0, 1]. In self-critique one model plays for both.
    Of problems with planted flaws the ranker is asked more, once the verdict stands, about the
    critiques that were shown (McAleese et al. 2024, arXiv:2407.00215): how likely one of them
    points to the flaw in the work of a (`included`), or claims one that matters where a is sound
    (`hallucinated`), and how likely all are about what would not matter (`nitpick`).

    Where we differ: Saunders ranks critiques by the critic's own score of their helpfulness; ours
    are rated by the judge unless another is named, so that nobody stronger than the judge decides
    what the judge gets to read.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent criticises itself."""
    ranker: Judge | None = None
    """Who rates helpfulness; None: the judge."""
    critiques: int = 3
    """Drafts at the critic's own temperature; at 0 they would all be the same."""
    shown: int = 1
    aux: Aux = "honest"
    """Whose side the critic is on."""
    rebuttal: bool = False
    """Whether the agent answers the critiques before the judge decides."""

    sections: ClassVar[tuple[str, ...]] = ("critique",)

    def __post_init__(self) -> None:
        check_aux(self.aux)
        if not 1 <= self.shown <= self.critiques:
            raise ValueError(
                f"shown: {self.shown} of {self.critiques} critiques; "
                "show 1 or more, and no more than are written"
            )

    @property
    def name(self) -> str:
        kind = "critique" if self.critic else "self critique"
        rebuttal = " rebuttal" if self.rebuttal else ""
        return f"{kind} {self.shown} of {self.critiques}{rebuttal}{aux_name(self.aux)}"

    def rule_values(self) -> dict[str, str | int]:
        words = self.words
        conduct = words.text(f"critique.{self.aux}_conduct")
        if self.rebuttal:
            conduct = f"{conduct} {words.text('critique.rebutted')}"
        return {"conduct": conduct}

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript | Measured:
        said = await self._criticised(floor, side, ask)
        if not self.rebuttal:
            return said
        heard, measures = (said.floor, said.measures) if isinstance(said, Measured) else (said, ())
        return Measured(await hear(heard, self.seat(self.agent, side, REBUTTAL), ask=ask), measures)

    async def _criticised(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript | Measured:
        """The proposal and the critiques that are shown."""
        floor = await hear(floor, self.seat(self.agent, side, PROPOSER), ask=ask)
        critic = aux_seat(
            self, self.aux, self.critic or self.agent, floor.question, side, CRITIC, "critique"
        )
        drafts = await gather_in_order(
            *(critic.speak(floor, nth(ask, index)) for index in range(self.critiques))
        )
        # A seat with a side is called by it, and would tell the judge whom it serves.
        drafts = [replace(draft, speaker=CRITIC) for draft in drafts]
        if self.shown == self.critiques:
            return floor.then(*drafts)
        ratings = await readable_ones(
            *(self._rating(floor.then(draft), side, ask) for draft in drafts)
        )
        best = sorted(ratings, key=ratings.__getitem__, reverse=True)[: self.shown]
        floor = floor.then(*(drafts[place] for place in best))
        return Measured(floor, (("helpfulness", ratings[best[0]]),))

    async def appraise(
        self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask
    ) -> NamedMeasures:
        if not problem.flaws:
            return ()
        flaw = problem.flaws[problem.question.place(side)]
        wrong = ("included", {"flaw": flaw}) if flaw else ("hallucinated", {})
        floor = verdict.transcript
        shown = [
            replace(floor, turns=(floor.turns[0], turn))
            for turn in floor.turns
            if turn.speaker == CRITIC
        ]
        measures: list[tuple[str, Scalar]] = []
        for (name, values), most in ((wrong, max), (("nitpick", {}), min)):
            statement = self.words.fill(f"critique.{name}", **values)
            try:
                likely = await gather_in_order(
                    *(self._held(statement, each, ask) for each in shown)
                )
            except Unreadable:
                continue  # the verdict stands, whether or not this can be measured
            measures.append((name, most(likely)))
        return tuple(measures)

    async def _rating(self, floor: Transcript, side: Answer, ask: Ask) -> float:
        """How likely the last turn is to be helpful, in [0, 1]."""
        return await self._held(
            for_side(self.words.fill("critique.helpful"), side.label, ""), floor, ask
        )

    async def _held(self, statement: str, floor: Transcript, ask: Ask) -> float:
        """How likely the ranker finds a statement about the last turn."""
        ranker = self.ranker or self.judge
        return (await ranker.believes(statement, floor, ask, self.judging("rating"))).value
