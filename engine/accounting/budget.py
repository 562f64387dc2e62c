"""Money: what a run may cost, what it has cost, and what calls in flight may still come to."""

import math
from collections.abc import Callable

from oversight.cache.reply import Usage
from oversight.engine.accounting.prices import Price
from oversight.engine.tokens import TokenEstimate


class Budget:
    """Dollars for a whole run, shared by its models.

    The worst case of a call is reserved before it leaves and settled when it lands, so that at no
    moment more than the cap can have been spent, but for calls that exceed their worst case.
    """

    def __init__(self, cap: float, spent: float = 0.0) -> None:
        """cap: dollars; spent: dollars that earlier starts of the same run have cost."""
        if not 0 <= cap < math.inf:
            raise ValueError(f"max_cost: {cap} is not a number of dollars, 0 or more")
        self.cap = cap
        self.spent = spent
        """Dollars for calls that have landed; those that may have been billed count whole."""
        self.reserved = 0.0
        """Dollars that the calls in flight cost at most."""
        self._flights = 0
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever a call is settled."""
        self._listeners.append(listener)

    def fits(self, worst: float) -> bool:
        """Whether a call that costs at most `worst` dollars may leave now."""
        return self.spent + self.reserved + worst <= self.cap

    @property
    def over(self) -> bool:
        """Whether a call that does not fit never will: nothing in flight may leave room."""
        return self.reserved == 0.0

    def reserve(self, worst: float) -> None:
        self.reserved += worst
        self._flights += 1

    def settle(self, worst: float, spent: float) -> None:
        """A call for which `worst` dollars were reserved has cost `spent`."""
        self._flights -= 1
        # Sums of floats leave crumbs, and a crumb in flight would be waited for in vain.
        self.reserved = self.reserved - worst if self._flights else 0.0
        self.spent += spent
        for listener in self._listeners:
            listener()

    def reached(self, worst: float) -> str:
        """Why a call that costs at most `worst` dollars cannot leave any more, and the mend."""
        # Rounded up: a cap that is a part of a cent too low stops the next sitting at once.
        needed = math.ceil((max(self.cap, self.spent) + max(worst, self.cap)) * 100) / 100
        return (
            f"budget reached: {dollars(self.spent)} of {dollars(self.cap)} are spent and the next "
            f"call may cost ${worst:.4f}; to go on: --max-cost {needed:.2f}"
        )


class LeasedBudget(Budget):
    """A part of a budget that grows as it is used; whoever divides the whole says when it is over.

    `wants` is what the first in line lacked when it last asked, in dollars; 0 once a call fits.
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self.wants = 0.0
        self._lacking: Callable[[], None] = _nobody

    def on_lacking(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever a call does not fit."""
        self._lacking = listener

    def fits(self, worst: float) -> bool:
        if super().fits(worst):
            self.wants = 0.0
            return True
        self.wants = worst
        self._lacking()
        return False

    @property
    def over(self) -> bool:
        return False

    @property
    def used(self) -> float:
        """Dollars that are spent or reserved: less than this it cannot give back."""
        return self.spent + self.reserved

    def lease(self, dollars: float) -> None:
        """Take what may be spent in all from now on, be it more or less than before."""
        self.cap = dollars
        for listener in self._listeners:
            listener()


def _nobody() -> None:
    """Who lacks nothing."""


def dollars(amount: float) -> str:
    """`$12.30`; of less than a dollar, so many digits that a call's cost does not vanish."""
    return f"${amount:.2f}" if amount == 0 or amount >= 1 else f"${amount:.4f}"


class ModelBudget:
    """The budget in the hand of one model."""

    def __init__(self, budget: Budget, price: Price) -> None:
        self.budget = budget
        self._price = price

    def worst(self, demand: TokenEstimate) -> float:
        """Dollars that a call costs at most: no cached input, and all of max_tokens."""
        return self._price.worst(demand.max_input, demand.max_output)

    def cost(self, usage: Usage) -> float:
        """Dollars."""
        return self._price.cost(usage)
