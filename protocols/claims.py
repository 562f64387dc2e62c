"""What a mechanism guarantees against the best liar: data that tests check by searching for one."""

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
    [0, 1]; at 1 there is no guarantee."""
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
    judge_error: float = 0.0
    """By how much the judge may be off on each statement."""

    def __str__(self) -> str:
        if self.gain >= 1:
            return f"no guarantee: a liar may win. {self.given}".rstrip()
        limits = [f"at most {self.steps} steps"] if self.steps is not None else []
        limits += [f"tolerance {self.tolerance:.3g}"] if self.tolerance else []
        limits += [f"judge error {self.judge_error:.3g}"] if self.judge_error else []
        held = f" ({', '.join(limits)})" if limits else ""
        return f"a liar gains at most {self.gain:.3g} over {self.over}{held}, given {self.given}"


def unguarded(why: str) -> tuple[Claim, ...]:
    """The claim of a mechanism without a guarantee. why: what decides instead, as a sentence."""
    return (Claim(1.0, "a verdict of 0", why, "counterexample"),)
