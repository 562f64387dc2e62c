"""Doubly-efficient debate (Brown-Cohen, Irving and Piliouras 2024, arXiv:2311.14125).

A long argument is too much for the judge to check, but one step of it is not. So a prover commits
to every step before anyone reads them. An opponent, who can afford to read them all, points at one
step, and the judge checks that one. A prover with a correct argument wins for every choice of the
opponent. A prover without one must have a wrong step, at least where the argument meets its claim.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from msgspec import structs

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..doubts import ProbabilityRange
from ..errors import Unreadable, unreadable
from ..judges.case import Belief
from ..judges.votes import VotesJudge
from ..prompts.forms import NUMBER, TEXT, TEXTS, Filled, Form, object_of, whole_number
from ..prompts.prompt_set import Words
from ..protocol import Protocol
from ..question import Answer, Question
from ..seat import Role
from ..settings import Count
from ..transcript import Transcript, Turn, Verdict
from .decomposition import Commitment, Listed, as_list, commit

Odds: TypeAlias = tuple[float, ...]
"""The probabilities that the prover commits to, one per step; empty if not requested."""

MOST_GAIN = 0.5
"""Maximum gain of a liar with `probabilities`. Above it, an argument that is more likely wrong than
right can be made to win."""

STEPWISE_PROVER = Role("doubly_efficient_debate.prover", "Prover")
OPPONENT = "Opponent"
CHALLENGED = "I challenge step [{number}]."
PASSED = "I challenge no step."


@dataclass(frozen=True, slots=True)
class Sampling:
    """A test of a stated probability by votes, each of which is true with the true probability. The
    constants are from the published Lean proof (google-deepmind/debate).

    A statement within `close` of the truth passes, and one that is off by `far` or more fails, each
    with probability at least 1 - `failure`."""

    close: float
    far: float
    failure: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.close < self.far <= 1:
            raise ValueError(f"close: {self.close} must be below far: {self.far}, both from 0 to 1")
        if not 0 < self.failure < 1:
            raise ValueError(f"failure: {self.failure} is not between 0 and 1")

    @property
    def threshold(self) -> float:
        """Maximum distance from the fraction of votes: halfway between close and far."""
        return (self.close + self.far) / 2

    @property
    def votes(self) -> int:
        """Number of votes required by Hoeffding's inequality."""
        return math.ceil(math.log(2 / self.failure) / (2 * self._error**2))

    def failure_of(self, votes: int) -> float:
        """Maximum probability of a wrong outcome with this many votes, in [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * votes * self._error**2))

    def gain(self, statements: int, votes: int | None = None) -> float:
        """Maximum gain from overstating the product of this many probabilities. votes: of the
        judge. None for a judge that states probabilities: it accepts errors below `threshold`. With
        votes, nearly all errors below `far` may pass, and larger ones pass with probability at most
        `failure_of`. Both bounds are reached if each probability is as far below 1 as may pass."""
        if votes is None:
            return 1 - (1 - self.threshold) ** statements
        return min(1.0, 1 - (1 - self.far) ** statements + self.failure_of(votes))

    def passes(self, claimed: float, share: float) -> bool:
        """Whether a stated probability agrees with the fraction of votes."""
        # Both are usually decimals: 0.6 against 0.5 must count as exactly 0.1 off.
        return round(abs(claimed - share), 9) < round(self.threshold, 9)

    @property
    def _error(self) -> float:
        return (self.far - self.close) / 2


@dataclass(frozen=True)
class DoublyEfficientDebate(Protocol):
    """The agent commits to steps for `side`. The judge checks the step that the opponent picks.

    World a:
      1. the agent commits to at most `steps` steps for a (a form). One more is added, that a
         follows from them;
      2. the opponent, who argues for the other answer, names one step (a form). An honest one may
         also pass;
      3. the judge sees the steps up to that one, and says how likely that step is to hold.
    The verdict on a is that belief, or 1 if the opponent passed: the probability of the weakest
    step, not of all steps. Nine steps that hold with .9 each score .9, though all hold with .39. If
    steps are uncertain, use `probabilities`. The judge reads neither the rest of the argument nor
    the opponent. (In the paper the judge votes, as a judge with votes does here.) A list of more
    than `steps` is not cut: the agent is asked once more.

    With `probabilities` this is the stochastic protocol. The agent also commits to a probability
    that each step holds, and the opponent contests a wrong one, or none. If one is contested, the
    verdict is 1 if the judge's belief is near it, and 0 otherwise. If none is, the verdict is the
    product of the probabilities, which is the probability that every step holds. `Sampling.votes`
    is the number of votes that a judge needs to separate `close` from `far`. A prover may overstate
    every step by the threshold halfway between the two, so a liar's gain grows with the number of
    steps (`Sampling.gain`): at most .22 with the default settings. Settings with a gain above
    `MOST_GAIN` are refused.

    Shared: nothing, since every call depends on the steps for a, which the other world never sees.
    Reward: for the agent the verdict on a, for the opponent the verdict on the other answer.
    Measured: the number of `steps`, including the added one; the step `challenged` (0: none); the
    number of readable `queries` to the judge; whether the agent was `asked_again`; and whether the
    verdict `accepted` a. The mean of `accepted` is the completeness over worlds with a true answer,
    and 1 minus its mean the soundness over those with a false one.

    Where we differ: the paper's steps are steps of a computation, each with few inputs, which the
    judge queries. Ours are sentences, which may depend on any earlier ones, so the judge reads more
    text for a later step. The paper's machine continues with either outcome of a step. Our argument
    ends at a failed step, so its outcome changes by at most L times the change of its steps, where
    L is the number of steps. The constants of the proof (.01, .02 and a failure of .01) need at
    least 105,967 votes. Ours are settings.
    """

    agent: Speaker
    opponent: Speaker | None = None
    """None: a copy of the agent."""
    opponent_is: Literal["adversarial", "honest"] = "adversarial"
    """In both worlds. An adversarial opponent must challenge a step. An honest one passes if it
    finds none wrong. With `probabilities` both may pass."""
    steps: Count = 8
    """Maximum number of steps, without the added one."""
    probabilities: bool = False
    close: float = 0.005
    """Error of a probability that passes, with `probabilities`."""
    far: float = 0.05
    """Error of a probability that fails. The threshold is halfway between the two."""

    row: ClassVar[str] = (
        "doubly efficient debate, {0.steps} steps, {0.scored}, {0.opponent_is} opponent"
    )
    sections: ClassVar[tuple[str, ...]] = ("doubly_efficient_debate",)
    opposes_answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.probabilities:
            votes = self.judge.n if isinstance(self.judge, VotesJudge) else None
            gain = self.sampling.gain(self.steps + 1, votes)
            if gain > MOST_GAIN:
                high = self.far if votes else self.sampling.threshold
                clause = f" before a judge of {votes} votes" if votes else ""
                raise ValueError(
                    f"far: {self.steps + 1} steps, each stated up to {high:g} too high{clause}, "
                    f"gain a liar up to {gain:.2f} of a verdict for any argument; at most "
                    f"{MOST_GAIN:g} is useful. Take a smaller far, fewer steps, or a judge that "
                    f"states probabilities (of votes n: {self.sampling.votes:,} are needed for "
                    "each challenged step)"
                )

    @property
    def scored(self) -> str:
        if self.probabilities:
            return f"probabilities within {self.sampling.threshold:g}"
        return "weakest step"

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.close, self.far)

    def rule_values(self) -> dict[str, Words]:
        words = self.words
        if not self.probabilities:
            return {"stakes": words.text("doubly_efficient_debate.certain")}
        threshold = Words(f"{100 * self.sampling.threshold:.3g}%")
        return {"stakes": words.fill("doubly_efficient_debate.uncertain", threshold=threshold)}

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        committed = await self._commit(Transcript(question), side, ask)
        # A prover without steps cannot be wrong, and must not win by that.
        if committed is None:
            raise Unreadable(f"Prover {side.label} commits to no step", "")
        steps, odds = committed.entries, committed.values
        transcript = Transcript(question).then(as_list(steps), *_stated(odds, steps[-1]))
        number, challenge = await self._challenge(transcript, side, len(steps), ask)
        if number:
            belief = await self._check(question, steps[:number], side, ask)
            value = self._outcome(odds, number, belief.value)
            span = belief.span and self._outcomes(odds, number, belief.span)
            belief = structs.replace(belief, value=value, span=span)
        else:
            belief = Belief(math.prod(odds))  # all of its steps hold
        measures = (
            ("steps", len(steps)),
            ("challenged", number),
            ("queries", len(belief.judgements)),
            ("asked_again", committed.asked_again),
            ("accepted", belief.ends[0] > 1 / 2),
        )
        return belief.verdict(side, transcript.then(challenge), measures)

    async def _commit(
        self, transcript: Transcript, side: Answer, ask: Ask
    ) -> Commitment[Odds] | None:
        prover = self.seat(self.agent, side, STEPWISE_PROVER, most=self.steps)
        if self.probabilities:
            with_odds = prover.prompt.also_told(self.words.text("doubly_efficient_debate.odds"))
            prover = prover._replace(prompt=with_odds)
        return await commit(
            PRICED_STEPS if self.probabilities else STEPS,
            prover,
            transcript,
            ask,
            most=self.steps,
            ending=lambda steps, odds: self._conclusion(steps, side),
        )

    def _conclusion(self, steps: tuple[Turn, ...], side: Answer) -> Turn:
        """The last step, which is always added: that the answer follows."""
        text = self.words.data("doubly_efficient_debate.conclusion", label=side)
        return structs.replace(steps[0], text=text, forged=0, malformed=0, cut=False, reasoning="")

    async def _challenge(
        self, transcript: Transcript, side: Answer, steps: int, ask: Ask
    ) -> tuple[int, Turn]:
        """The number of the step that the opponent challenges (0: none), and its turn."""
        block = f"{self.opponent_is}{'_odds' if self.probabilities else ''}"
        role = Role(f"doubly_efficient_debate.{block}", OPPONENT)
        opponent = self.seat(self.opponent or self.agent, transcript.question.other(side), role)
        may_pass = self.opponent_is == "honest" or self.probabilities
        numbers = range(0 if may_pass else 1, steps + 1)

        def read(filled: Filled) -> tuple[int, Turn]:
            number = filled.whole("step", numbers)
            text = CHALLENGED.format(number=number) if number else PASSED
            return number, opponent.turn(filled, text)

        form = Form("step", {"step": whole_number(numbers)}, read)
        return await opponent.fill(form, transcript, ask)

    async def _check(
        self, question: Question, steps: tuple[Turn, ...], side: Answer, ask: Ask
    ) -> Belief:
        """The judge's probability that the last of these steps holds."""
        statement = self.words.data("doubly_efficient_debate.holds", number=len(steps))
        # The prover's reasoning is left out, since nobody could challenge it.
        evidence = Transcript(question, (structs.replace(as_list(steps), reasoning=""),))
        return await self.judge.believes(statement, evidence, ask, self.judging(), side=side)

    def _outcomes(self, odds: Odds, number: int, span: ProbabilityRange) -> ProbabilityRange:
        """The lowest and highest verdict, over the beliefs in this range."""
        low, high = (self._outcome(odds, number, end) for end in span)
        if not odds:
            return low, high
        nearest = min(max(odds[number - 1], span[0]), span[1])
        return min(low, high), self._outcome(odds, number, nearest)

    def _outcome(self, odds: Odds, number: int, belief: float) -> float:
        """The verdict, given the judge's probability that the challenged step holds."""
        if not odds:
            return belief
        return float(self.sampling.passes(odds[number - 1], belief))


def _steps(filled: Filled) -> Listed[Odds]:
    return Listed(filled.texts("steps"), (), filled)


def _priced_steps(filled: Filled) -> Listed[Odds]:
    """Steps with their probabilities, without blank ones, and the probability of the added step."""
    listed, reply = filled.fields["steps"], filled.reply
    if not isinstance(listed, list) or not all(
        isinstance(step, dict) and isinstance(step.get("step"), str) and "probability" in step
        for step in listed
    ):
        raise unreadable(f"'steps' is {str(listed)[:40]!r}, not steps with probabilities", reply)
    priced = [Filled(step, reply) for step in listed if step["step"].strip()]
    odds = [step.number("probability", 0, 1) for step in priced]
    texts = tuple(step.text("step") for step in priced)
    return Listed(texts, (*odds, filled.number("conclusion", 0, 1)), filled)


STEPS: Form[Listed[Odds]] = Form("steps", {"steps": TEXTS}, _steps)
PRICED_STEPS: Form[Listed[Odds]] = Form(
    "steps",
    {
        "steps": {"type": "array", "items": object_of({"step": TEXT, "probability": NUMBER})},
        "conclusion": NUMBER,
    },
    _priced_steps,
)


def _stated(odds: Odds, step: Turn) -> tuple[Turn, ...]:
    """The turn in which the opponent reads the probabilities, if any."""
    if not odds:
        return ()
    text = ", ".join(f"[{number}] {p:.1%}" for number, p in enumerate(odds, 1))
    return (structs.replace(step, text=text),)
