"""How often a judge must be asked before its share of votes may overrule a stated probability.

The constants are those of the stochastic protocol of doubly-efficient debate (Brown-Cohen, Irving
and Piliouras 2024, arXiv:2311.14125) in its published Lean proof (google-deepmind/debate).
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """A test of a stated probability by votes, each of which holds with the true one.

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


def settings_for(statements: int, gain: float) -> Sampling:
    """Settings with which so many statements gain a liar at most this, against a judge that knows
    the probabilities."""
    # Rounded down: a bound that is missed by rounding is no bound.
    threshold = math.floor((1 - (1 - gain) ** (1 / statements)) * 1e4) / 1e4
    return Sampling(round(threshold / 5, 5), round(threshold * 9 / 5, 5))
