"""The budget of a run, and the quarantine of malformed answers that were paid for.

A budget counts dollars, or tokens, each as one, where no price is known."""

import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....cache.call import Call
from ....cache.reply import Usage
from ...display.text import dollars, short
from ...errors import Malformed
from .prices import TOKEN, Price, PriceList, charged

if TYPE_CHECKING:
    from ...tokens import TokenEstimate


class Budget:
    """The dollars, or tokens, of a run, shared by its models.

    The worst case of a call is reserved before it is sent and settled when it completes. Spending
    never exceeds the cap, except by calls that cost more than their worst case."""

    def __init__(
        self, cap: float, spent: float = 0.0, unconfirmed: float = 0.0, *, tokens: bool = False
    ) -> None:
        """cap: dollars; spent: dollars of earlier sessions of the run, unconfirmed ones included;
        all of them tokens if `tokens`."""
        if not 0 <= cap < math.inf:
            setting, unit = ("max_tokens", "tokens") if tokens else ("max_cost", "dollars")
            raise ValueError(f"{setting}: {cap} is not a number of {unit}, 0 or more")
        self.cap = cap
        self.tokens = tokens
        self.spent = spent
        """Dollars of completed calls; unconfirmed ones count in full."""
        self.unconfirmed = unconfirmed
        """The part of `spent` that may not have been billed, or not in full."""
        self.reserved = self.held = 0.0
        """Maximum dollars of calls in flight; and of submissions, which do not complete while a
        call waits."""
        self._flights = 0
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def fits(self, worst: float) -> bool:
        """Whether a call that costs at most `worst` dollars fits under the cap now."""
        return self.spent + self.reserved + self.held + worst <= self.cap

    @property
    def over(self) -> bool:
        """Whether waiting is useless: no call in flight can free any dollars."""
        return self.reserved == 0.0

    def reserve(self, worst: float) -> None:
        self.reserved += worst
        self._flights += 1

    def settle(self, worst: float, spent: float, unconfirmed: float = 0.0) -> None:
        """Settle a call for which `worst` dollars were reserved. unconfirmed: the part of `spent`
        that may not have been billed."""
        self._flights -= 1
        # Reset, since callers would wait forever for a rounding error to be settled.
        self.reserved = self.reserved - worst if self._flights else 0.0
        self.spent += spent
        self.unconfirmed += unconfirmed
        for listener in self._listeners:
            listener()

    def price(self, model: str, prices: PriceList) -> Price:
        """The price at which a model's calls are counted. UsageError, with the fix, if unknown."""
        return TOKEN if self.tokens else prices.need(model)

    def reached(self, worst: float) -> str:
        """Message for a call that no longer fits, with a sufficient cap."""
        sum_text = spending(self.spent, self.unconfirmed, self.cap, self.tokens)
        if self.tokens:
            return (
                f"budget reached: {sum_text} are used and the next call may take {worst:,.0f}; "
                f"to go on: --max-tokens {max(self.cap, self.spent) + max(worst, self.cap):.0f}"
            )
        # Rounded up: a cap that is a fraction of a cent too low stops the next session at once.
        needed = math.ceil((max(self.cap, self.spent) + max(worst, self.cap)) * 100) / 100
        return (
            f"budget reached: {sum_text} are spent and the next call may cost ${worst:.4f} "
            f"(oversight plan has the cost of all); to go on: --max-cost {needed:.2f}"
        )


def spending(spent: float, unconfirmed: float, cap: float, tokens: bool) -> str:
    """`$0.10 of $0.30`; with unconfirmed dollars: `$0.10 counted ($0.05 of it unconfirmed) …`.
    Every line that names the cap uses this text."""
    amount = short if tokens else dollars
    doubt = f" counted ({amount(unconfirmed)} of it unconfirmed)" if unconfirmed else ""
    return f"{amount(spent)}{doubt} of {amount(cap)}{' tokens' if tokens else ''}"


class ModelBudget:
    def __init__(self, budget: Budget, price: Price, unstated: Callable[[float], None]) -> None:
        self.budget = budget
        self._price, self._unstated = price, unstated
        self._dearest = 0.0

    def worst(self, demand: "TokenEstimate") -> float:
        """Maximum dollars of a call: no cached input, and all of max_tokens. At least the largest
        bill that exceeded its maximum, since vendors may bill more than max_tokens."""
        return max(self._price.worst(demand.max_input, demand.max_output), self._dearest)

    def settle(self, worst: float, usage: Usage | None) -> None:
        """Settle a call by its bill. usage: None if unknown; then all of `worst` counts as
        spent."""
        spent = worst
        if usage is not None:
            tokens = self.budget.tokens
            spent = self._price.cost(usage) if tokens else charged(usage, self._price) or 0.0
        elif self.budget.tokens:
            self._unstated(worst)
        if spent > worst:
            self._dearest = max(self._dearest, spent)
        self.budget.settle(worst, spent, worst if usage is None else 0.0)


log = logging.getLogger(__name__)

MAX_BODIES = 200
"""Maximum bodies in one folder: a failing server must not fill the disk."""


class Quarantine:
    """A folder of malformed bodies, one file each, created with the first one.

    Files are named by number, model and address of the call. They are never read back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next: int | None = None

    def keep(self, call: Call, fault: Malformed) -> Path | None:
        """Write the body to a file and return its path; None if the folder is full or cannot be
        written, which must not end the run."""
        try:
            return self._write(call, fault)
        except OSError as exc:
            log.error("a malformed body could not be kept in %s: %s", self.folder, exc)
            return None

    def _write(self, call: Call, fault: Malformed) -> Path | None:
        if self._next is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._next = len(list(self.folder.glob("*.body")))
        if self._next >= MAX_BODIES:
            return None
        model = re.sub(r"[^\w.-]+", "-", call.model)
        path = self.folder / f"{self._next:03}-{model}-{call.address[:12]}.body"
        with path.open("xb") as file:
            file.write(fault.body)
        self._next += 1
        log.warning("%s: %s; the body is in %s", call.model, fault, path)
        return path
