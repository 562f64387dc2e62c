"""Guarantees of every mechanism, in one table that tests check by searching for the best liar.

A claim says two things: how much a liar gains at most (soundness), and how much the truth loses at
most (completeness), both for the seats and the judge that it assumes. Where it says nothing, a test
shows a liar who wins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from oversight.protocols.judges.votes import VotesJudge
from oversight.protocols.mechanisms.auxiliary import Assisted
from oversight.protocols.mechanisms.baselines import (
    Consultancy,
    DoubleConsultancy,
    NaiveJudge,
    Propaganda,
)
from oversight.protocols.mechanisms.critique import Critique, DebateFeedback, ProposerCritic
from oversight.protocols.mechanisms.cross_examination import CrossExamination
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.debate_game import DebateGame
from oversight.protocols.mechanisms.decomposition import Amplification, RecursiveRewardModelling
from oversight.protocols.mechanisms.doubly_efficient_debate import DoublyEfficientDebate
from oversight.protocols.mechanisms.market_making import AdversarialPropaganda, MarketMaking
from oversight.protocols.mechanisms.open_protocols import OpenTrust, Recorded
from oversight.protocols.mechanisms.prover_estimator_debate import ProverEstimatorDebate
from oversight.protocols.protocol import Protocol

Check: TypeAlias = Literal["exhaustive", "dynamic programming", "closed form", "counterexample"]
"""How tests check the claim at default settings: they try every play of a liar; or they find the
best one by backward induction or by a formula; or the mechanism guarantees nothing, and they show a
liar who wins."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Upper bounds of a liar's gain and of the truth's loss, with their conditions."""

    gain: float
    """The most by which a liar can raise the expected verdict on its answer above `over`, in
    [0, 1], with a judge who makes no error; 1: no guarantee."""
    over: str
    """The baseline of the gain."""
    given: str
    """Assumptions about the other roles and the judge; empty where none helps."""
    check: Check
    loss: float | None = 0.0
    """The most by which the verdict on the truth can fall below 1, or below `over` where that
    depends on the steps, in [0, 1]; None: no guarantee."""
    steps: int | None = None
    """The most steps, splits or speeches of the liar for which it holds; None: they do not
    matter."""
    tolerance: float = 0.0
    """Maximum error of a liar's statement that passes."""
    error_gain: float = 1.0
    """Maximum rise of gain and loss per unit of the judge's error: the largest distance of its
    probabilities from the judge's in `given`."""
    judge_error: float = 1.0
    """The gain holds below this error of the judge; nothing is claimed from there on."""
    truth_error: float = 1.0
    """The loss holds below this error of the judge."""
    error_loss: float = 1.0
    """By how much the loss rises, at most, with each unit of the judge's error."""

    def gain_at(self, error: float) -> float:
        """The most that a liar gains from a judge whose probabilities are off by this at most."""
        return _at(self.gain, self.error_gain, error, self.judge_error)

    def loss_at(self, error: float) -> float:
        """The most that the truth loses by such a judge."""
        return _at(
            1.0 if self.loss is None else self.loss, self.error_loss, error, self.truth_error
        )


def _at(exact: float, slope: float, error: float, below: float) -> float:
    return min(1.0, exact + slope * error) if error < below else 1.0


def formula(exact: float | None, slope: float) -> str:
    """A gain or a loss as a formula, in which e is the judge's error."""
    if exact is None or exact >= 1:
        return "no guarantee"
    terms = [f"{exact:.3g}"] if exact or not slope else []
    factor = "" if slope == 1 else f"{slope:.3g} "
    return " + ".join([*terms, *([f"{factor}e"] if slope else [])])


def claims_of(protocol: Protocol) -> tuple[Claim, ...]:
    """Guarantees of a shipped protocol at its settings; empty for other classes."""
    if isinstance(protocol, Assisted) and protocol.aux == "adversarial":
        return _unguarded("Whoever helps the judge works for the agent.")
    for kind in type(protocol).__mro__:
        if kind in CLAIMS:
            claimed = CLAIMS[kind]
            claims = _unguarded(claimed) if isinstance(claimed, str) else claimed(protocol)
            if _opposes_truth(protocol):
                return tuple(replace(claim, loss=None) for claim in claims)
            return claims
    return ()


def _opposes_truth(protocol: Protocol) -> bool:
    """Whether helpers who have a side must speak against the truth, where the agent argues for it,
    before a judge who goes by them."""
    sided = isinstance(protocol, Assisted) and protocol.aux == "sided"
    return sided and not isinstance(protocol, ProposerCritic)


def _unguarded(why: str) -> tuple[Claim, ...]:
    return (Claim(1.0, "a verdict of 0", why, "counterexample", None),)


def _no_seat(over: str, given: str) -> Callable[[Any], tuple[Claim, ...]]:
    claim = Claim(0.0, over, given, "exhaustive", error_gain=0.0, error_loss=0.0)
    return lambda protocol: (claim,)


def _helped(given: str) -> Callable[[Any], tuple[Claim, ...]]:
    claim = Claim(0.0, "a verdict of 0", given, "exhaustive")
    return lambda protocol: (claim,)


def _critique(protocol: Critique) -> tuple[Claim, ...]:
    given = (
        "critics one of whom finds the flaw that matters, despite other slips, and none "
        "of whom invents one, a ranker who is sure that such flaws are helpful and that praise and "
        "slips are not, and a judge who goes by what it is shown"
    )
    # From an error of .5 on the ranker may rate praise above a flaw.
    below = 1.0 if protocol.shown == protocol.critiques else 0.5
    return (Claim(0.0, "a verdict of 0", given, "exhaustive", judge_error=below),)


def _amplification(protocol: Amplification) -> tuple[Claim, ...]:
    if protocol.aux == "sided":
        return _unguarded("Helpers who do not steer speak for another answer, right or wrong.")
    given = "overseers and honest helpers who make no mistake, whatever subquestions they choose"
    asked = protocol.subquestions**protocol.depth
    unsteered = (1 - protocol.steered) ** asked
    # Where nobody steers the judge's error decides. A helper that steers for the truth says it.
    return (
        Claim(
            1 - unsteered,
            "a verdict of 0",
            given,
            "closed form",
            steps=asked,
            error_gain=unsteered,
        ),
    )


def _doubly_efficient(protocol: DoublyEfficientDebate) -> tuple[Claim, ...]:
    listed, product = protocol.steps + 1, "the probability that all steps hold"
    opponent = "an opponent who challenges the step that is furthest off"
    if protocol.probabilities:
        sampling = protocol.sampling
        votes = protocol.judge.n if isinstance(protocol.judge, VotesJudge) else None
        tolerance = protocol.far if votes else sampling.threshold
        knows = f"a judge of {votes} votes" if votes else "a judge who knows the probabilities"
        given = f"{opponent}, if any is off by more than the tolerance, and {knows}"
        return (
            Claim(
                sampling.gain(listed, votes),
                product,
                given,
                "closed form",
                steps=protocol.steps,
                tolerance=tolerance,
                # The slope of 1 - (1 - t - e)^n at e = 0, where it is steepest.
                error_gain=listed * (1 - tolerance) ** (listed - 1),
                error_loss=0.0,
                # A challenged step whose probability is the true one falls by the judge's noise.
                truth_error=sampling.threshold,
            ),
        )
    # p - p^n is largest where n p^(n - 1) = 1.
    p = listed ** (-1 / (listed - 1))
    exact = f"{opponent}, and a judge who is right about one step"
    graded = f"{opponent}, and a judge who knows how likely each step is to hold"
    return (
        Claim(0.0, "a verdict of 0, where each step holds or not", exact, "exhaustive"),
        Claim(p - p**listed, product, graded, "closed form", steps=protocol.steps),
    )


_ONE_SIDE = "The judge hears one side."

CLAIMS: Mapping[type[Protocol], str | Callable[[Any], tuple[Claim, ...]]] = {
    NaiveJudge: _no_seat("the judge's unaided belief", "nothing: the agent has no seat"),
    Recorded: _no_seat(
        "the judge's belief after the recorded turns", "nothing: no agent of ours has a seat"
    ),
    OpenTrust: "Every claim of the agent is believed.",
    Propaganda: _ONE_SIDE,
    AdversarialPropaganda: _ONE_SIDE,
    Consultancy: _ONE_SIDE,
    DoubleConsultancy: "It depends on how the judge reads two sides that never meet.",
    Debate: "It depends on how the judge reads the speeches.",
    MarketMaking: "The market's last price is the verdict, and no judge can move it.",
    DebateGame: lambda protocol: (
        Claim(
            0.0,
            "the value of the game",
            "a judge who is right about every debate that the drafts of the pool make",
            "dynamic programming",
        ),
    ),
    CrossExamination: lambda protocol: (
        Claim(
            0.0,
            "a verdict of 0 on a speech that shifts a meaning",
            "copies that answer by the words they have read, an opponent who challenges before the "
            "meaning shifts, and a judge who sees that two meanings differ",
            "exhaustive",
        ),
    ),
    Critique: _critique,
    ProposerCritic: _helped(
        "critics who speak for the truth if they may, and a judge who believes the truth where it "
        "is spoken for"
    ),
    Amplification: _amplification,
    RecursiveRewardModelling: _helped(
        "helpers who are right by each criterion, and a judge who goes by them"
    ),
    DebateFeedback: _helped(
        "participants who are right about the response, and a judge who goes by them"
    ),
    DoublyEfficientDebate: _doubly_efficient,
    ProverEstimatorDebate: lambda protocol: (
        *_helped(
            "statements that each hold or do not, and an estimator and a judge who know which"
        )(protocol),
        Claim(
            1.0,
            "the probability that the answer is right",
            "Statements of which each is likely, though they cannot all hold, are taken as "
            "independent: three of 2/3 give a lie 8/27.",
            "counterexample",
            None,
        ),
    ),
}
"""Claims of a kind, or a sentence on the deciding factor; claims of a class hold for its
subclasses."""
