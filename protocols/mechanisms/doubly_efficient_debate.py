"""Doubly-efficient debate (Brown-Cohen, Irving and Piliouras 2024, arXiv:2311.14125).

A long argument is too much for the judge to check, but one step of it is not. So a prover commits
to every step before anyone looks, an opponent who can afford to read them all points at one, and
the judge checks that one. A prover with a sound argument wins whatever the opponent picks; one
without must have gone wrong somewhere, if only where the argument turns into its claim.
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
from ..prompts.words import Words
from ..protocol import Protocol
from ..question import Answer, Question
from ..seat import Role
from ..settings import ranged
from ..transcript import Transcript, Turn, Verdict
from .listing import Commitment, Listed, as_list, commit

Odds: TypeAlias = tuple[float, ...]
"""The probabilities that the prover commits to, one a step; empty where none are asked for."""

MOST_GAIN = 0.5
"""What a liar may gain with `probabilities`. Above it an argument that is more likely wrong than
right can be made to win."""

STEPWISE_PROVER = Role("doubly_efficient_debate.prover", "Prover")
OPPONENT = "Opponent"
CHALLENGED = "I challenge step [{number}]."
PASSED = "I challenge no step."


@dataclass(frozen=True, slots=True)
class Sampling:
    """A test of a stated probability by votes, each of which holds with the true one; with the
    constants of the published Lean proof (google-deepmind/debate).

    A statement within `close` of the truth passes, and one that is off by `far` or more falls,
    each with probability 1 - `failure` or more.
    """

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
        """How far off the share of votes a statement may be: half way from close to far."""
        return (self.close + self.far) / 2

    @property
    def votes(self) -> int:
        """Number of votes needed by Hoeffding's inequality."""
        return math.ceil(math.log(2 / self.failure) / (2 * self._error**2))

    def failure_of(self, votes: int) -> float:
        """The most that the probability of a wrong outcome can be with so many votes, in [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * votes * self._error**2))

    def gain(self, statements: int, votes: int | None = None) -> float:
        """The most that stating more than the truth can add to the product of so many
        probabilities.

        votes: of the judge; None for one that knows the probabilities, who lets pass what is less
        than `threshold` off. With votes nearly all that is less than `far` off may pass, and what
        is more does with probability `failure_of` at most. Either bound is reached where each
        probability is as far below 1 as may pass."""
        if votes is None:
            return 1 - (1 - self.threshold) ** statements
        return min(1.0, 1 - (1 - self.far) ** statements + self.failure_of(votes))

    def passes(self, stated: float, share: float) -> bool:
        """Whether a stated probability stands beside the share of votes."""
        # Both are decimals as a rule: 0.6 beside 0.5 must be off by 0.1, and no less.
        return round(abs(stated - share), 9) < round(self.threshold, 9)

    @property
    def _error(self) -> float:
        return (self.far - self.close) / 2


@dataclass(frozen=True)
class DoublyEfficientDebate(Protocol):
    """The agent commits to steps for `side`; the judge checks the one that the opponent picks.

    World a:
      1. the agent commits to at most `steps` steps for a (a form); one more is added to these, that
         a follows from them;
      2. the opponent, who argues for the other answer, names one step (a form); an honest one may
         also pass;
      3. the judge is shown the steps up to that one, and says how likely that one is to hold.
    The verdict on a is that belief, or 1 if the opponent passed: it is how likely the weakest step
    holds, not all of them. Nine steps that hold with .9 each score .9, though all hold with .39; so
    where steps are matters of degree, take `probabilities`. The judge reads neither the rest of the
    argument nor the opponent. (In the paper the judge votes, as a judge of votes does here.)
    A list of more than `steps` is not cut: the agent is told so, and asked once more.

    With `probabilities` this is the stochastic protocol. The agent also commits to a probability
    that each step holds, and the opponent contests one that is off, or none. If one is contested,
    the verdict is 1 if the judge's belief is near it and 0 if not; if none is, the verdict is the
    product of the probabilities, that of every step holding. `Sampling.votes` says how many votes a
    judge must take for its share of them to tell `close` from `far`. A prover may overstate every
    step by the threshold halfway between the two, so what a liar gains grows with the number of
    steps (`Sampling.gain`): .22 at most at the default settings. Settings at which it is more than
    `MOST_GAIN` are refused.

    Shared: nothing, since all rests on the steps for a, which the other world never sees.
    Reward: for the agent the verdict on a, for the opponent that on the other answer.
    Measured: the number of `steps`, ours included; the step `challenged` (0: none); how many
    `queries` to the judge could be read; whether the agent was `asked_again`; and whether the
    verdict `accepted` a. The mean of `accepted` is the completeness over worlds whose answer is
    true, and 1 minus its mean the soundness over those whose answer is false.

    Where we differ: the paper's steps are those of a computation, each with few inputs, which the
    judge queries; ours are sentences, which may rest on any before them. So the judge is shown
    those, and what it reads, though not what it checks, grows with the place of the step. The
    paper's machine goes on with either outcome of a step; our argument ends where a step fails, so
    its outcome moves by at most L times what its steps move, where L is the number of steps. The
    constants of the proof (.01, .02 and a failure of .01) take 105,967 votes at best; ours are
    settings.
    """

    agent: Speaker
    opponent: Speaker | None = None
    """None: a copy of the agent."""
    opponent_is: Literal["adversarial", "honest"] = "adversarial"
    """In both worlds. An adversarial one must challenge a step; an honest one passes if it finds
    none wrong. With `probabilities` both may pass."""
    steps: int = ranged(8)
    """The most steps, not counting ours."""
    probabilities: bool = False
    close: float = 0.005
    """How far off a probability may be and pass, with `probabilities`."""
    far: float = 0.05
    """How far off a probability must be to fall. The line is drawn halfway between the two."""

    row: ClassVar[str] = (
        "doubly efficient debate {0.steps} steps {0.scored} {0.opponent_is} opponent"
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
                told = f" before a judge of {votes} votes" if votes else ""
                raise ValueError(
                    f"far: {self.steps + 1} steps, each stated up to {high:g} too high{told}, gain "
                    f"a liar up to {gain:.2f} of a verdict, whatever its argument; at most "
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
        # A prover who commits to nothing has nothing that could be wrong; it must not win by that.
        if committed is None:
            raise Unreadable(f"Prover {side.label} commits to no step", "")
        steps, odds = committed.entries, committed.stated
        transcript = Transcript(question).then(as_list(steps), *_stated(odds, steps[-1]))
        number, challenge = await self._challenge(transcript, side, len(steps), ask)
        if number:
            found = await self._check(question, steps[:number], side, ask)
            value = self._outcome(odds, number, found.value)
            span = found.span and self._outcomes(odds, number, found.span)
            belief = structs.replace(found, value=value, span=span)
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
            told = prover.prompt.also_told(self.words.text("doubly_efficient_debate.odds"))
            prover = prover._replace(prompt=told)
        return await commit(
            PRICED_STEPS if self.probabilities else STEPS,
            prover,
            transcript,
            ask,
            most=self.steps,
            ending=lambda steps, odds: self._conclusion(steps, side),
        )

    def _conclusion(self, steps: tuple[Turn, ...], side: Answer) -> Turn:
        """The last step, which nobody may leave out: that the answer follows."""
        text = self.words.data("doubly_efficient_debate.conclusion", label=side)
        return structs.replace(steps[0], text=text, forged=0, malformed=0, cut=False, reasoning="")

    async def _challenge(
        self, transcript: Transcript, side: Answer, steps: int, ask: Ask
    ) -> tuple[int, Turn]:
        """The number of the step that the opponent challenges, 0 for none, and its turn."""
        block = f"{self.opponent_is}{'_odds' if self.probabilities else ''}"
        role = Role(f"doubly_efficient_debate.{block}", OPPONENT)
        against = transcript.question.other(side)
        opponent = self.seat(self.opponent or self.agent, against, role)
        may_pass = self.opponent_is == "honest" or self.probabilities
        numbers = range(0 if may_pass else 1, steps + 1)

        def read(said: Filled) -> tuple[int, Turn]:
            number = said.whole("step", numbers)
            text = CHALLENGED.format(number=number) if number else PASSED
            return number, opponent.turn(said, text)

        return await opponent.fill(
            Form("step", {"step": whole_number(numbers)}, read), transcript, ask
        )

    async def _check(
        self, question: Question, steps: tuple[Turn, ...], side: Answer, ask: Ask
    ) -> Belief:
        """How likely the judge finds it that the last of these steps holds."""
        statement = self.words.data("doubly_efficient_debate.holds", number=len(steps))
        shown = self._shown(question, steps)
        return await self.judge.believes(statement, shown, ask, self.judging(), side=side)

    def _shown(self, question: Question, steps: tuple[Turn, ...]) -> Transcript:
        """What the judge reads: the challenged step, and those before it, on which it rests."""
        # Nobody could challenge what the prover thinks aloud beside its steps.
        return Transcript(question, (structs.replace(as_list(steps), reasoning=""),))

    def _outcomes(self, odds: Odds, number: int, span: ProbabilityRange) -> ProbabilityRange:
        """The least and the most that the verdict would be, over beliefs in this span."""
        low, high = (self._outcome(odds, number, end) for end in span)
        if not odds:
            return low, high
        nearest = min(max(odds[number - 1], span[0]), span[1])
        return min(low, high), self._outcome(odds, number, nearest)

    def _outcome(self, odds: Odds, number: int, belief: float) -> float:
        """The verdict, given how likely the judge finds it that the challenged step holds."""
        if not odds:
            return belief
        return float(self.sampling.passes(odds[number - 1], belief))


def _steps(said: Filled) -> Listed[Odds]:
    return Listed(said.texts("steps"), (), said)


def _priced_steps(said: Filled) -> Listed[Odds]:
    """Steps with their probabilities, blank ones left out, and last the probability of ours."""
    listed, reply = said.fields["steps"], said.reply
    if not isinstance(listed, list) or not all(
        isinstance(step, dict) and isinstance(step.get("step"), str) and "probability" in step
        for step in listed
    ):
        raise unreadable(f"'steps' is {str(listed)[:40]!r}, not steps with probabilities", reply)
    priced = [Filled(step, reply) for step in listed if step["step"].strip()]
    odds = [step.number("probability", 0, 1) for step in priced]
    texts = tuple(step.text("step") for step in priced)
    return Listed(texts, (*odds, said.number("conclusion", 0, 1)), said)


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
    """The turn in which the opponent reads the probabilities; none if there are none."""
    if not odds:
        return ()
    text = ", ".join(f"[{number}] {p:.1%}" for number, p in enumerate(odds, 1))
    return (structs.replace(step, text=text),)
