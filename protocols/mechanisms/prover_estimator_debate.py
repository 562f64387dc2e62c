"""Prover-estimator debate (Brown-Cohen, Irving and Piliouras 2025, arXiv:2506.13609).

In recursive debate a dishonest debater can split a claim so that a flaw is somewhere among the
parts, but cannot be found in any of them (obfuscated arguments). So the other side need not find
it: an estimator only says how likely each part is, and the prover must show that an estimate is
wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..errors import Unreadable
from ..gather import gather_deterministic
from ..prompts.forms import NUMBER, TEXTS, Filled, Form, choice_of, whole_number
from ..prompts.prompt_set import PromptSet
from ..prompts.words import Words
from ..protocol import WithHorizon
from ..question import Answer, Question
from ..seat import Role
from ..settings import ranged
from ..transcript import Transcript, Turn, Verdict
from .auxiliary import Assisted, Aux
from .listing import Commitment, Listed, as_list, commit

Direction: TypeAlias = Literal["higher", "lower"]
DIRECTIONS: tuple[Direction, ...] = ("higher", "lower")

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
    """Place of the subclaim that the prover picked, from 0."""
    truth_is: Direction
    """On which side of the estimate the truth is, as the prover says."""
    needed: int
    """How many of the subclaims must hold; from 1 to all of them, not counting that the claim
    follows."""


@dataclass(frozen=True)
class ProverEstimatorDebate(Assisted, WithHorizon):
    """The agent splits the claim that `side` is right, again and again; the judge decides a leaf.

    World a, which starts with the claim that a is the right answer:
      1. the agent splits the claim into at most `subclaims` subclaims, and says whether all, any,
         or at least k of them must hold (a form); one more is added to these, that the claim then
         follows;
      2. the estimator, who is told which answer the prover argues for, states the probability of
         each (a form for each). It reads every subclaim by itself, as the judge would: one that
         pointed beyond itself would mean one thing here and another there;
      3. the agent picks one of them, and says whether the truth is higher or lower (a form);
      4. steps 1 to 3 are repeated on what was picked, until there are `depth` splits; on its
         opposite if the truth was said to be lower, so that what is split is always said to be more
         likely than estimated;
      5. the judge says how likely it finds the last pick: the label.
    The agent is shown only the question, the claim at hand and the estimates of its parts, never
    the splits above; estimator and judge are shown one statement alone. A list of more than
    `subclaims` is not cut: the agent is told so, and asked once more. The verdict on a is made of
    the estimates (`chained`). The probability of a claim is that of its following and of as many of
    its subclaims holding as are needed; the subclaim that was picked counts as its own split says,
    and the last one as the label says. An honest estimator takes no side; with `aux: sided` it is
    paid for doubting the prover's answer, and an adversarial one works for the prover.
    Shared: nothing. Every claim is part of the claim that a is right, which the other world never
    makes. More splits begin with the calls of fewer; rows that differ in `aux` share the first
    split.
    Reward: for the agent the verdict on a. Its prompt states another reward, that of the game with
    the estimator: how far the label is from the last estimate in the direction that the agent said;
    for the estimator, minus that. Against a calibrated estimator a prover who can only guess gains
    0 on average, whatever it picks and says.
    Measured: that reward, `prover_gain`, in [-1, 1]; the `label`; the number of `splits`; and how
    often the agent was `asked_again`.

    Where we differ: in the paper the judge says how a claim depends on its subclaims; here the
    prover says so, and the estimator, and at the leaf the judge, may doubt it. Nobody says how
    subclaims depend on each other: they are taken as independent, or as one where that makes the
    claim less likely, so that nothing is gained by restating a claim. Subclaims that exclude each
    other are believed too much. Splits whose estimates the agent leaves alone are believed to the
    letter: an estimator must be calibrated, not just cautious. The paper's game has the same two
    players, with opposite stakes that depend on the direction as well; summaries of it pay in every
    round, by the direction alone and more the deeper it is, whereas ours pays for the last pick, by
    distance.
    """

    agent: Speaker
    estimator: Speaker | None = None
    """None: a copy of the agent."""
    subclaims: int = ranged(3)
    """The most a claim is split into, not counting that it follows."""
    depth: int = ranged(2)
    """The most splits; a claim that the agent no longer splits is the leaf."""
    aux: Aux = "honest"
    """Whose side the estimator is on."""

    row: ClassVar[str] = "prover estimator debate {0.subclaims} subclaims {0.depth} deep"
    sections: ClassVar[tuple[str, ...]] = (SECTION,)

    def judge_values(self) -> dict[str, Words]:
        return {}  # the judge never meets the estimator

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = Transcript(question)
        text = self.words.data(f"{SECTION}.claim", label=side)
        leaf = Turn(f"{ESTIMATED_PROVER.title} {side.label}", text, side)
        at_hand: tuple[Turn, ...] = (leaf,)
        levels: list[Level] = []
        asked_again = 0
        for _ in range(self.depth):
            shown = Transcript(question, at_hand)
            split = await self._split(shown, side, ask)
            if split is None:
                break
            asked_again += split.asked_again
            shown = shown.then(as_list(split.entries))
            estimates, stated = await self._estimates(question, split.entries, side, ask)
            shown = shown.then(stated)
            level, picked = await self._pick(shown, side, estimates, split.stated, ask)
            levels.append(level)
            transcript = transcript.then(*shown.turns, picked)
            leaf = split.entries[level.picked]
            at_hand = _doubted(leaf, level, self.words)
        if not levels:
            raise Unreadable(f"Prover {side.label} splits its claim into nothing", "")
        label = await self.judge.believes(leaf.text, Transcript(question), ask, self.judging())
        measures = (
            ("label", label.value),
            ("prover_gain", gain(levels[-1], label.value)),
            ("splits", len(levels)),
            ("asked_again", asked_again),
        )
        # It rises or falls with the label, and has its ends where that has them.
        ends = sorted(chained(levels, end) for end in label.ends)
        return label.verdict(side, transcript, measures, (ends[0], ends[1]))

    async def _split(self, shown: Transcript, side: Answer, ask: Ask) -> Commitment[int] | None:
        """The subclaims of the claim at hand, with that it follows, and how many of them must hold;
        None if it is not split."""
        claim = shown.turns[0].text

        def ending(subclaims: tuple[Turn, ...], needed: int) -> Turn:
            text = follows(claim, [each.text for each in subclaims], needed, self.words)
            return replace(subclaims[0], text=text, forged=0, malformed=0, cut=False, reasoning="")

        prover = self.seat(self.agent, side, ESTIMATED_PROVER, most=self.subclaims)
        return await commit(SPLIT, prover, shown, ask, most=self.subclaims, ending=ending)

    async def _estimates(
        self, question: Question, subclaims: tuple[Turn, ...], side: Answer, ask: Ask
    ) -> tuple[tuple[float, ...], Turn]:
        """The estimator's probability of each subclaim, and the turn in which the prover reads
        them.

        The estimator reads each by itself, as the judge does: what it read beside one could give it
        another meaning.
        """
        # Even an honest one has the prover's side: programs are told whose claim it is.
        role = Role(f"{SECTION}.{self.aux}", ESTIMATOR)
        estimator = self.seat(self.estimator or self.agent, side, role)
        alone = [Transcript(question, (replace(each, reasoning=""),)) for each in subclaims]
        filled = await gather_deterministic(
            *(estimator.fill(ESTIMATE, each, ask) for each in alone)
        )
        text = ", ".join(f"[{n}] {p:.1%}" for n, (p, _) in enumerate(filled, 1))
        # Here the label would be that of the prover's side.
        stated = replace(estimator.turn(filled[0][1], text), speaker=ESTIMATOR, side=None)
        return tuple(p for p, _ in filled), stated

    async def _pick(
        self, shown: Transcript, side: Answer, estimates: tuple[float, ...], needed: int, ask: Ask
    ) -> tuple[Level, Turn]:
        """The level with the agent's pick, and the turn in which the agent says so."""
        prover = self.seat(self.agent, side, PICKER, conduct=self.conduct)
        numbers = range(1, len(estimates) + 1)

        def read(said: Filled) -> tuple[Level, Turn]:
            number = said.whole("subclaim", numbers)
            truth_is = said.one_of("truth_is", DIRECTIONS)
            text = PICKED.format(number=number, truth_is=truth_is)
            return Level(estimates, number - 1, truth_is, needed), prover.turn(said, text)

        fields = {"subclaim": whole_number(numbers), "truth_is": choice_of(DIRECTIONS)}
        return await prover.fill(Form("pick", fields, read), shown, ask)


ESTIMATE: Form[tuple[float, Filled]] = Form(
    "estimate", {"probability": NUMBER}, lambda said: (said.number("probability", 0, 1), said)
)

COUNTS = ("all", "any", "at least")


def _split_in(said: Filled) -> Listed[int]:
    """Subclaims, and how many of them must hold; Unreadable if there are not that many."""
    texts, count = said.texts("subclaims"), said.one_of("needed", COUNTS)
    if count == "at least" and texts:
        needed = said.whole("at_least", range(1, len(texts) + 1))
    else:
        needed = 1 if count == "any" else len(texts)
    return Listed(texts, needed, said)


SPLIT: Form[Listed[int]] = Form(
    "subclaims",
    {"subclaims": TEXTS, "needed": choice_of(COUNTS), "at_least": {"type": "integer"}},
    _split_in,
)


def follows(claim: str, subclaims: list[str], needed: int, words: PromptSet) -> str:
    """The subclaim that a claim follows, in words that make sense without the split."""
    count = "all" if needed == len(subclaims) else f"at least {needed}"
    listed = " ".join(f"({number}) {text}" for number, text in enumerate(subclaims, 1))
    return words.data(f"{SECTION}.follows", needed=count, subclaims=listed, claim=claim)


def chained(levels: Sequence[Level], label: float) -> float:
    """The probability of the claim at the top, in [0, 1].

    From the leaf up, what was picked counts as the level below says, and the leaf as `label`. If
    the truth was said to be lower, the level below is about the opposite of what was picked, and
    can make it less likely but not more: a case against a claim that fails proves nothing.
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
    """The probability of a claim after a split of its opposite, which is this likely."""
    return min(estimate, 1 - opposite)


def established(estimates: tuple[float, ...], needed: int) -> float:
    """The probability that a claim follows, and that at least `needed` of its subclaims hold.

    estimates: of each subclaim, and last that the claim follows. Subclaims count as independent, or
    as holding and failing together if that makes the claim less likely.
    """
    *subclaims, link = estimates
    holding = [1.0]  # the probability of each number of subclaims that hold
    for p in subclaims:
        more, fewer = [0.0, *(q * p for q in holding)], [*(q * (1 - p) for q in holding), 0.0]
        holding = [a + b for a, b in zip(more, fewer, strict=True)]
    # Otherwise a prover could restate a doubtful claim until it is almost sure that one holds.
    return link * min(sum(holding[needed:]), sorted(subclaims)[-needed])


def gain(level: Level, label: float) -> float:
    """What the prover earns by its last pick, in [-1, 1]: how far the label is from the estimate in
    the direction that the prover said. The estimator loses as much."""
    off = label - level.estimates[level.picked]
    return off if level.truth_is == "higher" else 0.0 - off


def _doubted(picked: Turn, level: Level, words: PromptSet) -> tuple[Turn, ...]:
    """The claim to be split next, and the statement that it is more likely than estimated."""
    estimate, claim = level.estimates[level.picked], replace(picked, reasoning="")
    if level.truth_is == "lower":
        opposite = words.data(f"{SECTION}.opposite", claim=picked.text)
        estimate, claim = 1 - estimate, replace(claim, text=opposite)
    said = words.data(f"{SECTION}.more_likely", estimate=f"{estimate:.1%}")
    return claim, replace(claim, text=said, forged=0, malformed=0, cut=False)
