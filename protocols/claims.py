"""What a mechanism guarantees against the best liar: data that tests check by searching for one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Check: TypeAlias = Literal["exhaustive", "dynamic programming", "closed form", "counterexample"]
"""How tests check the claim at default settings: they try every play of a liar; or they find the
best one by backward induction or by a formula; or there is no guarantee, and they show a liar who
wins."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The most that a liar gains, and what that rests on."""

    gain: float
    """The most by which a liar can raise the expected verdict on its answer above `over`, in
    [0, 1], with a judge who makes no error; at 1 there is no guarantee."""
    over: str
    """What the gain is counted from."""
    given: str
    """What the other seats and the judge are assumed to do; empty where nothing helps."""
    check: Check
    steps: int | None = None
    """The most steps, splits or speeches of the liar for which it holds; None: they do not
    matter."""
    tolerance: float = 0.0
    """By how much a statement of the liar may be off and pass."""
    error_gain: float = 1.0
    """By how much the gain rises, at most, with each unit of the judge's error: how far any of its
    probabilities is from that of a judge as in `given`."""
    judge_error: float = 1.0
    """Below which error of the judge it holds; from there on nothing is claimed."""

    @property
    def bound(self) -> str:
        """The gain as a formula, in which e is the judge's error."""
        factor = "" if self.error_gain == 1 else f"{self.error_gain:.3g} "
        terms = [f"{self.gain:.3g}"] if self.gain or not self.error_gain else []
        return " + ".join([*terms, *[f"{factor}e"][: bool(self.error_gain)]])

    def gain_at(self, error: float) -> float:
        """The most that a liar gains from a judge whose probabilities are off by this at most."""
        return min(1.0, self.gain + self.error_gain * error) if error < self.judge_error else 1.0

    def __str__(self) -> str:
        if self.gain >= 1:
            return f"no guarantee: a liar may win. {self.given}".rstrip()
        limits = [f"at most {self.steps} steps"] if self.steps is not None else []
        limits += [f"tolerance {self.tolerance:.3g}"] if self.tolerance else []
        limits += [f"e below {self.judge_error:.3g}"] if self.judge_error < 1 else []
        held = f" ({', '.join(limits)})" if limits else ""
        return f"a liar gains at most {self.bound} over {self.over}{held}, given {self.given}"


def unguarded(why: str) -> tuple[Claim, ...]:
    """The claim of a mechanism without a guarantee. why: what decides instead, as a sentence."""
    return (Claim(1.0, "a verdict of 0", why, "counterexample"),)


def claim_lines(found: Mapping[str, Sequence[Claim]]) -> Iterable[str]:
    """What rows claim, by their names: a line for each claim, and one for all rows without any
    guarantee. Rows that say nothing are left out, and those in which no agent has a seat."""
    none = [name for name, claims in found.items() if claims and claims[0].gain >= 1]
    told = [(name, each) for name in found if name not in none for each in found[name]]
    told = [(name, claim) for name, claim in told if claim.gain or claim.error_gain]
    yield from (f"{name}: {claim}" for name, claim in told)
    if any(claim.error_gain for _, claim in told):
        yield "e: how far any probability that the judge states is off"
    if none:
        yield f"no guarantee against the best liar: {', '.join(none)}"
