"""The share of a model's limits that this process may use, where several divide them."""

import math
from collections.abc import Callable

MIN_SHARE = 1e-6
"""Share of a rate while nothing is granted: more than 0, and the gate holds every call."""


class Lease:
    """A share of every known rate and a number of calls in flight, until a loop time (s).

    The share multiplies rates that are known, from the sweep file or from headers. What a process
    finds out by itself (a pace after refusals, the width of a server) is of its own calls alone and
    is not multiplied. Once `until` has passed nothing leaves, however large the limits: the
    coordinator is gone or cut off, and may have leased this share to another process.
    """

    def __init__(
        self, share: float = 1.0, width: int | None = None, until: float = math.inf
    ) -> None:
        """share: in [0, 1]. width: calls in flight; None for no bound."""
        self._listeners: list[Callable[[], None]] = []
        self.renew(share, width, until)

    @classmethod
    def none(cls) -> "Lease":
        """Nothing may leave before the first `renew`."""
        return cls(0.0, None, -math.inf)

    def renew(self, share: float, width: int | None, until: float) -> None:
        """Replace what was granted before."""
        self.share, self.width, self.until = share, width, until
        self.whole = share == 1.0 and width is None and until == math.inf
        """Whether it never holds anything back."""
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called at each renewal."""
        self._listeners.append(listener)

    def holds(self, now: float) -> bool:
        """Whether anything may leave at `now`."""
        return self.share > 0.0 and now < self.until

    def pace(self) -> float:
        """The share of a rate that may be used now; more than 0."""
        return max(self.share, MIN_SHARE)

    def room(self, busy: int) -> bool:
        """Whether one more call may be in flight beside `busy` others."""
        return self.width is None or busy < self.width
