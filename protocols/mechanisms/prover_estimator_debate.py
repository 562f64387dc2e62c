"""Prover-estimator debate (Brown-Cohen, Irving and Piliouras 2025, arXiv:2506.13609).

In recursive debate a dishonest debater can split a claim so that a flaw is somewhere among the
parts, but cannot be found in any of them (obfuscated arguments). So the other side need not find
it: an estimator only says how likely each part is, and the prover must show an estimate wrong.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges.case import probs_of
from oversight.protocols.mechanisms.auxiliary import Aux, aux_name, check_aux
from oversight.protocols.mechanisms.commitment import Commitment, Listed, commit
from oversight.protocols.mechanisms.listing import as_list
from oversight.protocols.prompts.escape import escape_tags
from oversight.protocols.prompts.forms import (
    NUMBER,
    TEXTS,
    Filled,
    Form,
    choice_of,
    whole_number,
)
from oversight.protocols.prompts.prompt_set import PromptSet, for_side
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Role
from oversight.protocols.settings import require_positive
from oversight.protocols.transcript import Transcript, Turn, Verdict

Direction: TypeAlias = Literal["higher", "lower"]
Needed: TypeAlias = tuple[str, int]
"""How many of its subclaims a claim needs: `all`, `any` or `at least`, and the number then."""

SECTION = "prover_estimator_debate"
ESTIMATED_PROVER = Role(f"{SECTION}.prover", "Prover")
PICKER = Role(f"{SECTION}.picker", "Prover")
ESTIMATOR = "Estimator"
PICKED = "Of [{number}] the truth is {truth_is}."


@dataclass(frozen=True, slots=True)
class Level:
    """One split of a claim."""

    estimates: tuple[float, ...]
    """P(subclaim is true) as the estimator states it, each in [0, 1]; the last one is that the
    claim follows from the others."""
    picked: int
    """Place of what the prover picked, from 0."""
    truth_is: Direction
    """On which side of the estimate the prover says that the truth is."""
    needed: int
    """How many of the subclaims must hold; from 1 to all of them, that it follows aside."""


@dataclass(frozen=True)
class ProverEstimatorDebate(Protocol):
    """The agent splits the claim that `side` is right, again and again; the judge decides a leaf.

    World a, from the claim that a is the right answer:
      1. the agent splits the claim into at most `subclaims` subclaims, and says whether all, any,
         or at least k of them must hold (a form); to these is added the subclaim that the claim
         then follows;
      2. the estimator, who is told the prover's side, states the probability of each (a form);
      3. the agent picks one of them, and says whether the truth is higher or lower (a form);
      4. 1 to 3 again, on what was picked, until there are `depth` splits; on its opposite where
         the truth was said to be lower, so that what is split is always said to be more likely
         than estimated;
      5. the judge says how likely it finds the last pick: the label.
    At every step only the question, the claim at hand and the estimate that the agent doubts are
    shown, never the splits above it, and to the judge the last pick alone. A list of more than
    `subclaims` is not cut: the agent is told and asked again, once.
    The verdict on a is the estimator's, but for what was picked (`chained`): a claim is as likely
    as that it follows, and that as many of its subclaims hold as are needed; in this the picked one
    counts as its own split says, and the last one as the label says.
    The estimator takes no side (`aux: honest`), is paid for doubting the prover's answer (sided),
    or works for the prover (adversarial).
    Shared: nothing. Every claim is part of the claim that a is right, which the other world never
    makes.
    Reward: the verdict on a for the agent. Its prompt tells it another, that of the game with the
    estimator: how far the label is from the last estimate in the direction it said, and for the
    estimator minus that. This is measured as `prover_gain`, in [-1, 1], beside the `label`, the
    number of `splits`, and how often the agent was `asked_again`. Against a calibrated estimator a
    prover who can only guess gains 0 in the mean, whatever it picks and says.

    Where we differ: in the paper the judge says how a claim depends on its subclaims; here the
    prover says so, and the estimator and at the leaf the judge doubt it. Nobody says how subclaims
    hang together: they are taken as independent, or as one where that makes the claim less likely,
    so that to restate a claim gains nothing. Subclaims that exclude each other are believed too
    far. Splits whose estimates the agent leaves alone are believed to the letter: an estimator must
    be calibrated, not just cautious. The paper's game is between the same two, for opposite stakes
    and by the direction as well; summaries of it pay every round, by the direction alone and more
    the deeper it is, where ours pays for the last pick, by distance.
    """

    agent: Speaker
    estimator: Speaker | None = None
    """None: a copy of the agent."""
    subclaims: int = 3
    """The most a claim is split into, that it follows aside."""
    depth: int = 2
    """How many splits; a claim that the agent no longer splits is the leaf."""
    aux: Aux = "honest"
    """Whose side the estimator is on."""

    sections: ClassVar[tuple[str, ...]] = (SECTION,)

    def __post_init__(self) -> None:
        check_aux(self.aux)
        require_positive(self, "subclaims", "depth")

    @property
    def name(self) -> str:
        size = f"{self.subclaims} subclaims {self.depth} deep"
        return f"prover estimator debate {size}{aux_name(self.aux)}"

    def rule_values(self) -> dict[str, str | int]:
        return {"conduct": self.words.text(f"{SECTION}.{self.aux}_conduct")}

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        floor, levels, leaf, asked_again = await self._split(Transcript(question), side, ask)
        label = await self.judge.believes(
            leaf.text, Transcript(question), ask, self.judging(), side=side
        )
        measures = (
            ("label", label.value),
            ("prover_gain", gain(levels[-1], label.value)),
            ("splits", len(levels)),
            ("asked_again", asked_again),
        )
        probs = probs_of(chained(levels, label.value), side, question)
        return Verdict(probs, floor, label.of(side, question), measures)

    async def _split(
        self, floor: Transcript, side: Answer, ask: Ask
    ) -> tuple[Transcript, tuple[Level, ...], Turn, int]:
        """The floor with every split, the splits, what was picked last, and how often the agent
        listed too much."""
        claim = self.words.fill(f"{SECTION}.claim")
        text = for_side(claim, side.label, escape_tags(side.text))
        leaf = Turn(f"{ESTIMATED_PROVER.title} {side.label}", text, side)
        at_hand: tuple[Turn, ...] = (leaf,)
        levels: list[Level] = []
        asked_again = 0
        for _ in range(self.depth):
            shown = Transcript(floor.question, at_hand)
            split = await self._subclaims(at_hand[0], side, shown, ask)
            if split is None:
                break
            asked_again += split.asked_again
            shown = shown.then(as_list(split.entries))
            estimates, stated = await self._estimates(shown, side, len(split.entries), ask)
            shown = shown.then(stated)
            needed = at_least(split.stated, len(split.entries) - 1)
            level, picked = await self._pick(shown, side, estimates, needed, ask)
            levels.append(level)
            floor = floor.then(*shown.turns, picked)
            leaf = split.entries[level.picked]
            at_hand = _doubted(leaf, level, self.words)
        if not levels:
            raise Unreadable(f"Prover {side.label} splits its claim into nothing", "")
        return floor, tuple(levels), leaf, asked_again

    async def _subclaims(
        self, claim: Turn, side: Answer, shown: Transcript, ask: Ask
    ) -> Commitment[Needed] | None:
        """What the claim is split into, and that it follows; None for a claim that is not split."""

        def ending(subclaims: tuple[Turn, ...], stated: Needed) -> Turn:
            needed = at_least(stated, len(subclaims))
            text = follows(claim.text, [each.text for each in subclaims], needed, self.words)
            return replace(subclaims[0], text=text, forged=0, cut=False, reasoning="")

        prover = self.seat(self.agent, side, ESTIMATED_PROVER, most=self.subclaims)
        return await commit(SPLIT, prover, shown, ask, most=self.subclaims, ending=ending)

    async def _estimates(
        self, shown: Transcript, side: Answer, subclaims: int, ask: Ask
    ) -> tuple[tuple[float, ...], Turn]:
        """The estimator's probability of each subclaim, and the turn in which it states them."""
        # Of every kind: programs are told whose claim it is, and {answer} is the prover's.
        role = Role(f"{SECTION}.{self.aux}", ESTIMATOR)
        estimator = self.seat(self.estimator or self.agent, side, role)

        def read(said: Filled) -> tuple[tuple[float, ...], Turn]:
            stated = {n: said.number(str(n), 0, 1) for n in range(1, subclaims + 1)}
            text = ", ".join(f"[{number}] {p:.1%}" for number, p in stated.items())
            # A seat with a side is called by it, which is the prover's.
            turn = replace(estimator.turn(said, text), speaker=ESTIMATOR, side=None)
            return tuple(stated.values()), turn

        numbers = {str(number): NUMBER for number in range(1, subclaims + 1)}
        return await estimator.fill(Form("estimates", numbers, read), shown, ask)

    async def _pick(
        self, shown: Transcript, side: Answer, estimates: tuple[float, ...], needed: int, ask: Ask
    ) -> tuple[Level, Turn]:
        """The split with what the agent picks of it, and the turn in which it says so."""
        prover, numbers = self.seat(self.agent, side, PICKER), range(1, len(estimates) + 1)

        def read(said: Filled) -> tuple[Level, Turn]:
            number = said.whole("subclaim", numbers)
            truth_is: Direction = (
                "higher" if said.one_of("truth_is", DIRECTIONS) == "higher" else "lower"
            )
            text = PICKED.format(number=number, truth_is=truth_is)
            return Level(estimates, number - 1, truth_is, needed), prover.turn(said, text)

        fields = {"subclaim": whole_number(numbers), "truth_is": choice_of(DIRECTIONS)}
        return await prover.fill(Form("pick", fields, read), shown, ask)


DIRECTIONS = ("higher", "lower")
COUNTS = ("all", "any", "at least")


def _split_in(said: Filled) -> Listed[Needed]:
    """Subclaims, and how many of them must hold; Unreadable if there are fewer than must."""
    texts, count = said.texts("subclaims"), said.one_of("needed", COUNTS)
    least = said.whole("at_least", range(1, len(texts) + 1)) if count == "at least" else 0
    return Listed(texts, (count, least), said)


SPLIT: Form[Listed[Needed]] = Form(
    "subclaims",
    {"subclaims": TEXTS, "needed": choice_of(COUNTS), "at_least": {"type": "integer"}},
    _split_in,
)


def at_least(stated: Needed, subclaims: int) -> int:
    """How many of so many subclaims a split says must hold, from 1."""
    count, least = stated
    return {"all": subclaims, "any": 1}.get(count, least)


def follows(claim: str, subclaims: list[str], needed: int, words: PromptSet) -> str:
    """The subclaim that a claim follows, in words that make sense without the split."""
    count = "all" if needed == len(subclaims) else f"at least {needed}"
    listed = " ".join(f"({number}) {text}" for number, text in enumerate(subclaims, 1))
    return words.fill(f"{SECTION}.follows", needed=count, subclaims=listed, claim=claim)


def chained(levels: tuple[Level, ...], label: float) -> float:
    """The probability of the claim at the top, in [0, 1].

    From the leaf up: what was picked counts as the level below it says, at last as `label`. Where
    it was said to be less likely than estimated, the level below is about its opposite, and can
    make it less likely but not more: a case against a claim that comes to nothing proves nothing.
    """
    p = label
    for place, level in reversed(list(enumerate(levels))):
        if level.truth_is == "lower" and place < len(levels) - 1:
            p = lowered(level.estimates[level.picked], p)
        estimates = list(level.estimates)
        estimates[level.picked] = p
        p = established(tuple(estimates), level.needed)
    return p


def lowered(estimate: float, opposite: float) -> float:
    """The probability of a claim whose opposite a split makes so likely."""
    return min(estimate, 1 - opposite)


def established(estimates: tuple[float, ...], needed: int) -> float:
    """The probability that a claim follows, and that at least `needed` of its subclaims hold.

    estimates: of each subclaim, and last that the claim follows. Subclaims count as independent, or
    as holding and failing together where that makes the claim less likely.
    """
    *subclaims, link = estimates
    holding = [1.0]  # the probability of each number of subclaims that hold
    for p in subclaims:
        more, fewer = [0.0, *(q * p for q in holding)], [*(q * (1 - p) for q in holding), 0.0]
        holding = [a + b for a, b in zip(more, fewer, strict=True)]
    # Else a prover could restate a doubtful claim until it is almost sure that any of them holds.
    return link * min(sum(holding[needed:]), sorted(subclaims)[-needed])


def gain(level: Level, label: float) -> float:
    """What the prover earns by its last pick, in [-1, 1]: how much higher, or lower, than the
    estimate the label is. The estimator loses as much."""
    off = label - level.estimates[level.picked]
    return off if level.truth_is == "higher" else 0.0 - off


def _doubted(picked: Turn, level: Level, words: PromptSet) -> tuple[Turn, ...]:
    """The claim to be split next, and that it is said to be more likely than estimated."""
    estimate, claim = level.estimates[level.picked], replace(picked, reasoning="")
    if level.truth_is == "lower":
        opposite = words.fill(f"{SECTION}.opposite", claim=picked.text)
        estimate, claim = 1 - estimate, replace(claim, text=opposite)
    said = words.fill(f"{SECTION}.more_likely", estimate=f"{estimate:.1%}")
    return claim, replace(claim, text=said, forged=0, cut=False)
