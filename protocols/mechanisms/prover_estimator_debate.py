"""Prover-estimator debate (Brown-Cohen, Irving and Piliouras 2025, arXiv:2506.13609).

In recursive debate a dishonest debater can split a claim so that a flaw is somewhere among the
parts, but cannot be found in any of them (obfuscated arguments). So the other side does not have to
find it: an estimator only states how likely each part is, and the prover must show that an estimate
is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..errors import Unreadable, gather_deterministic
from ..prompts.forms import NUMBER, TEXTS, Filled, Form, choice_of, whole_number
from ..prompts.prompt_set import PromptSet, Words
from ..protocol import WithHorizon
from ..question import Answer, Question
from ..seat import Role
from ..settings import Count
from ..transcript import Transcript, Turn, Verdict
from .auxiliary import Assisted, Aux
from .decomposition import Commitment, Listed, as_list, commit

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
    """The estimator's P(subclaim is true), each in [0, 1]. The last one is the probability that the
    claim follows from the others."""
    picked: int
    """Index of the subclaim that the prover picked, from 0."""
    truth_is: Direction
    """The direction from the estimate to the truth, as the prover says."""
    needed: int
    """Number of subclaims that must hold, from 1 to all, without the one that the claim follows."""


@dataclass(frozen=True)
class ProverEstimatorDebate(Assisted, WithHorizon):
    """The agent repeatedly splits the claim that `side` is right. The judge decides a leaf.

    World a, which starts with the claim that a is the right answer:
      1. the agent splits the claim into at most `subclaims` subclaims, and says whether all, any,
         or at least k of them must hold (a form). One more is added, that the claim then follows;
      2. the estimator, who knows which answer the prover argues for, states the probability of each
         (one form each). It reads every subclaim separately, as the judge would: a subclaim that
         referred to others would change its meaning;
      3. the agent picks one of them, and says whether the truth is higher or lower (a form);
      4. steps 1 to 3 are repeated on the picked subclaim, up to `depth` splits. If the
         truth was said to be lower, its opposite is split, so that a split claim is always said to
         be more likely than estimated;
      5. the judge states the probability of the last pick: the label.
    The agent sees only the question, the current claim and the estimates of its parts, never the
    splits above. Estimator and judge see a single statement. A list of more than `subclaims` is not
    cut: the agent is asked once more. The verdict on a is computed from the estimates (`chained`).
    The probability of a claim is the probability that it follows and that enough of its subclaims
    hold. The picked subclaim has the probability given by its own split, and the last one the
    label. An honest estimator takes no side. With `aux: sided` it is paid for doubting the prover's
    answer, and an adversarial one works for the prover.
    Shared: nothing. Every claim is part of the claim that a is right, which the other world never
    makes. More splits begin with the calls of fewer. Rows that differ in `aux` share the first
    split.
    Reward: for the agent the verdict on a. Its prompt states another reward, from the game with the
    estimator: the distance of the label from the last estimate in the stated direction. The
    estimator's reward is minus that. Against a calibrated estimator, a prover who can only guess
    gains 0 on average with any strategy.
    Measured: that reward, `prover_gain`, in [-1, 1]; the `label`; the number of `splits`; and how
    often the agent was `asked_again`.

    Where we differ: in the paper the judge says how a claim depends on its subclaims. Here the
    prover says so, and the estimator, and at the leaf the judge, may doubt it. Dependence between
    subclaims is not stated: they count as independent, or as one if that makes the claim less
    likely, so that restating a claim gains nothing. Subclaims that exclude each other are believed
    too much. Splits whose estimates the agent leaves alone are believed exactly: an estimator must
    be calibrated, not just cautious. The paper's game has the same two players, with opposite
    stakes that also depend on the direction. Summaries of it pay in every round, by direction only
    and more at greater depth; ours pays for the last pick, by distance.
    """

    agent: Speaker
    estimator: Speaker | None = None
    """None: a copy of the agent."""
    subclaims: Count = 3
    """Maximum number of subclaims of a claim, without the added one."""
    depth: Count = 2
    """Maximum number of splits. A claim that the agent does not split is the leaf."""
    aux: Aux = "honest"
    """The side of the estimator."""

    row: ClassVar[str] = "prover estimator debate, {0.subclaims} subclaims, {0.depth} deep"
    sections: ClassVar[tuple[str, ...]] = (SECTION,)

    def judge_values(self) -> dict[str, Words]:
        return {}  # the judge never meets the estimator

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = Transcript(question)
        text = self.words.data(f"{SECTION}.claim", label=side)
        leaf = Turn(f"{ESTIMATED_PROVER.title} {side.label}", text, side)
        current: tuple[Turn, ...] = (leaf,)
        levels: list[Level] = []
        asked_again = 0
        for _ in range(self.depth):
            view = Transcript(question, current)
            split = await self._split(view, side, ask)
            if split is None:
                break
            asked_again += split.asked_again
            view = view.then(as_list(split.entries))
            estimates, estimate_turn = await self._estimates(question, split.entries, side, ask)
            view = view.then(estimate_turn)
            level, picked = await self._pick(view, side, estimates, split.values, ask)
            levels.append(level)
            transcript = transcript.then(*view.turns, picked)
            leaf = split.entries[level.picked]
            current = _doubted(leaf, level, self.words)
        if not levels:
            raise Unreadable(f"Prover {side.label} splits its claim into nothing", "")
        label = await self.judge.believes(leaf.text, Transcript(question), ask, self.judging())
        measures = (
            ("label", label.value),
            ("prover_gain", gain(levels[-1], label.value)),
            ("splits", len(levels)),
            ("asked_again", asked_again),
        )
        # The verdict is monotonic in the label, so its bounds come from the label's bounds.
        ends = sorted(chained(levels, end) for end in label.ends)
        return label.verdict(side, transcript, measures, (ends[0], ends[1]))

    async def _split(self, view: Transcript, side: Answer, ask: Ask) -> Commitment[int] | None:
        """The subclaims of the current claim, with that it follows, and how many of them must hold.
        None if it is not split."""
        claim = view.turns[0].text

        def ending(subclaims: tuple[Turn, ...], needed: int) -> Turn:
            text = follows(claim, [subclaim.text for subclaim in subclaims], needed, self.words)
            return replace(subclaims[0], text=text, forged=0, malformed=0, cut=False, reasoning="")

        prover = self.seat(self.agent, side, ESTIMATED_PROVER, most=self.subclaims)
        return await commit(SPLIT, prover, view, ask, most=self.subclaims, ending=ending)

    async def _estimates(
        self, question: Question, subclaims: tuple[Turn, ...], side: Answer, ask: Ask
    ) -> tuple[tuple[float, ...], Turn]:
        """The estimator's probability of each subclaim, and the turn in which the prover reads
        them. The estimator reads each one separately, as the judge does: other subclaims could
        change its meaning."""
        # Even an honest estimator gets the prover's side, which programs need to know.
        role = Role(f"{SECTION}.{self.aux}", ESTIMATOR)
        estimator = self.seat(self.estimator or self.agent, side, role)
        alone = [Transcript(question, (replace(one, reasoning=""),)) for one in subclaims]
        filled = await gather_deterministic(*(estimator.fill(ESTIMATE, one, ask) for one in alone))
        text = ", ".join(f"[{n}] {p:.1%}" for n, (p, _) in enumerate(filled, 1))
        # The seat's label would be the label of the prover's side.
        estimate_turn = replace(estimator.turn(filled[0][1], text), speaker=ESTIMATOR, side=None)
        return tuple(p for p, _ in filled), estimate_turn

    async def _pick(
        self, view: Transcript, side: Answer, estimates: tuple[float, ...], needed: int, ask: Ask
    ) -> tuple[Level, Turn]:
        """The level with the agent's pick, and the turn that announces it."""
        prover = self.seat(self.agent, side, PICKER, conduct=self.conduct)
        numbers = range(1, len(estimates) + 1)

        def read(filled: Filled) -> tuple[Level, Turn]:
            number = filled.whole("subclaim", numbers)
            truth_is = filled.one_of("truth_is", DIRECTIONS)
            text = PICKED.format(number=number, truth_is=truth_is)
            return Level(estimates, number - 1, truth_is, needed), prover.turn(filled, text)

        fields = {"subclaim": whole_number(numbers), "truth_is": choice_of(DIRECTIONS)}
        return await prover.fill(Form("pick", fields, read), view, ask)


ESTIMATE: Form[tuple[float, Filled]] = Form(
    "estimate", {"probability": NUMBER}, lambda filled: (filled.number("probability", 0, 1), filled)
)

COUNTS = ("all", "any", "at least")


def _split_in(filled: Filled) -> Listed[int]:
    """Subclaims, and how many of them must hold. Unreadable if that is more than are listed."""
    texts, count = filled.texts("subclaims"), filled.one_of("needed", COUNTS)
    if count == "at least" and texts:
        needed = filled.whole("at_least", range(1, len(texts) + 1))
    else:
        needed = 1 if count == "any" else len(texts)
    return Listed(texts, needed, filled)


SPLIT: Form[Listed[int]] = Form(
    "subclaims",
    {"subclaims": TEXTS, "needed": choice_of(COUNTS), "at_least": {"type": "integer"}},
    _split_in,
)


def follows(claim: str, subclaims: list[str], needed: int, words: PromptSet) -> str:
    """The text of the added subclaim, which makes sense without the split."""
    count = "all" if needed == len(subclaims) else f"at least {needed}"
    numbered = " ".join(f"({number}) {text}" for number, text in enumerate(subclaims, 1))
    return words.data(f"{SECTION}.follows", needed=count, subclaims=numbered, claim=claim)


def chained(levels: Sequence[Level], label: float) -> float:
    """The probability of the top claim, in [0, 1]. From the leaf up, the picked subclaim has the
    probability from the level below, and the leaf has `label`. If the truth was said to be lower,
    the level below is about the opposite. It can make the subclaim less likely but not more: a
    failed case against a claim proves nothing."""
    p = label
    for depth, level in reversed(list(enumerate(levels))):
        if level.truth_is == "lower" and depth < len(levels) - 1:
            p = lowered(level.estimates[level.picked], p)
        estimates = list(level.estimates)
        estimates[level.picked] = p
        p = established(tuple(estimates), level.needed)
    return p


def lowered(estimate: float, opposite: float) -> float:
    """The probability of a claim after a split of its opposite, which has this probability."""
    return min(estimate, 1 - opposite)


def established(estimates: tuple[float, ...], needed: int) -> float:
    """The probability that a claim follows, and that at least `needed` of its subclaims hold.
    estimates: of each subclaim, and last that the claim follows. Subclaims count as independent, or
    as holding and failing together if that makes the claim less likely."""
    *subclaims, link = estimates
    holding = [1.0]  # the probability of each number of subclaims that hold
    for p in subclaims:
        more, fewer = [0.0, *(q * p for q in holding)], [*(q * (1 - p) for q in holding), 0.0]
        holding = [a + b for a, b in zip(more, fewer, strict=True)]
    # Otherwise restating a doubtful claim would make it almost certain that one holds.
    return link * min(sum(holding[needed:]), sorted(subclaims)[-needed])


def gain(level: Level, label: float) -> float:
    """The prover's reward for its last pick, in [-1, 1]: the distance of the label from the
    estimate in the stated direction. The estimator's reward is minus that."""
    off = label - level.estimates[level.picked]
    return off if level.truth_is == "higher" else 0.0 - off


def _doubted(picked: Turn, level: Level, words: PromptSet) -> tuple[Turn, ...]:
    """The claim to split next, and the statement that it is more likely than estimated."""
    estimate, claim = level.estimates[level.picked], replace(picked, reasoning="")
    if level.truth_is == "lower":
        opposite = words.data(f"{SECTION}.opposite", claim=picked.text)
        estimate, claim = 1 - estimate, replace(claim, text=opposite)
    text = words.data(f"{SECTION}.more_likely", estimate=f"{estimate:.1%}")
    return claim, replace(claim, text=text, forged=0, malformed=0, cut=False)
