"""Adaptive concurrency: the number of calls in flight, adjusted to the server's answers."""

import math

START = 16
"""Calls in flight to begin with; each round of answers doubles them, until the first fault."""

CUT = 0.7
"""Factor by which a fault reduces the width."""

WIDENING_STEP = 0.025
"""Relative growth of the width by a round of answers after a fault; at least one call."""

MIN_VENDOR_WIDTH = 4.0
"""Calls that may always be in flight at a vendor: with one, a single request that hangs holds back
all the others until its deadline."""


class AdaptiveConcurrency:
    """Slots of one model: additive increase, multiplicative decrease, never above a ceiling.

    Held only around the wire. Without a ceiling nothing limits until a fault shows that there is
    a limit, and again once twice the calls of that moment were in flight without another.
    """

    def __init__(
        self, ceiling: int | None, least: float = 1.0, start: float = float(START)
    ) -> None:
        """least: the width below which faults never narrow; refusals narrow it down to one. start:
        the first width, where there is a ceiling."""
        self._least = least
        self._ceiling = math.inf if ceiling is None else float(ceiling)
        self.width = math.inf if ceiling is None else min(self._ceiling, start)
        """Calls that may be in flight now."""
        self.busy = 0
        """Calls in flight; whoever takes a slot lowers it again once its call has ended."""
        self._goal = self._ceiling
        self._cut_at = -1.0
        self._regain = 0.0
        """The width before refusals narrowed it; below this, each round of answers doubles it."""
        self._widening = 0
        """Answers that may still widen: one for each slot when all were last taken at once."""

    @property
    def unlimited(self) -> bool:
        return self.width == math.inf

    @property
    def free(self) -> bool:
        return self.busy + 1 <= self.width

    def take(self) -> None:
        """Take a slot; the caller has checked `free`."""
        self.busy += 1
        if self.busy + 1 > self.width:
            self._widening = self.busy

    def answered(self, took: float = 0.0) -> None:
        """A call was answered after `took` s: widen, if the whole width was in use."""
        if not self._widening or self.width >= self._goal:
            return
        self._widening -= 1
        careful = self._cut_at >= 0.0 and self.width >= self._regain
        self.width += max(1.0 / self.width, WIDENING_STEP) if careful else 1.0
        if self.width >= self._goal:
            self.width = self._goal = self._ceiling

    def overloaded(self, sent: float, now: float) -> None:
        """A call sent at `sent` met an overloaded server (loop times, s): narrow, once a round."""
        if sent < self._cut_at:
            return
        self._narrow(CUT, self._least)
        self._cut_at = now
        self._regain = 0.0

    def refused(self) -> None:
        """Most of what is sent is refused: halve. The first answers after it widen as fast."""
        self._regain = max(self._regain, min(self.width, float(self.busy)))
        self._narrow(0.5, 1.0)

    def _narrow(self, part: float, least: float) -> None:
        if self.unlimited:
            self._goal = 2.0 * self.busy
        self.width = min(max(min(self.width, float(self.busy)) * part, least), self._ceiling)
        self._widening = 0
