"""Concurrency for the user's own server: doubled for as long as throughput grows with it."""

from .concurrency import AdaptiveConcurrency

FEW, OWN_SERVER_START = 4, 16
"""Calls in flight to begin with, and in the first round, once that many were answered. The width
returns to the smaller one if the first round shows a queue: most such servers have few slots."""

QUEUE_SHOWS = 0.5
"""A server queues if the mean time of the first `FEW` answers is less than this part of the mean
time of the first round."""

QUEUE = 0.25
"""Calls that wait at a server that states its load, for each that it serves."""

GAIN = 1.25
"""Growth of throughput that twice the calls in flight must bring."""

WHOLE_GAIN = 0.85
"""Part of the growth in width that throughput must reach for the next try to be of four times as
many calls, above the first width: then no queue is near."""

SAMPLE, LARGE_SAMPLE = 16, 64
"""Answers over which throughput is measured: one for each slot within these bounds, or half of the
width, where that is more."""

REST, MAX_REST = 8.0, 64.0
"""Answers for each slot until more are tried again, and at most: each failed try doubles it."""


class Climb(AdaptiveConcurrency):
    """Slots of a server that queues silently what it cannot serve at once.

    The width begins at `FEW`, so that a server that refuses all calls refuses few. The first
    answers widen it to `OWN_SERVER_START`; a queue in the round after them narrows it again. Twice
    as many are tried as long as that pays, or four times as many where the last try paid whole.
    Once all places of the server are taken, calls only wait longer, and as many are answered. Then
    the width returns to the last one that paid, and a quarter more, so that a free place finds the
    next call waiting. (Gradient limiters, which go by latency alone, would keep servers that group
    at a few calls: each takes longer in company, and all together much less.) A call that passes
    its deadline narrows as an overload does, and ends the first round or a try of more calls.

    A server that states its load needs no trial: see `load_stated`.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.width = float(FEW)
        self._base = self.width
        """The largest width that has raised throughput so far."""
        self._speed = 0.0
        """Answers a second at that width; 0 before it is known."""
        self._trying = False
        """Whether the width is twice the base just now."""
        self._rest = REST
        self._first: list[float] | None = []
        """Seconds that the first answers took, and the first round; None once it has ended."""
        self._skipped = FEW + OWN_SERVER_START
        """Answers that do not count: their calls left at another width, or it is time to rest."""
        self._answers = 0
        self._took = 0.0
        self._load_is_stated = False

    def load_stated(self, running: int, waiting: int) -> None:
        """The server serves `running` calls now, and `waiting` more are in its queue. A queue of a
        quarter of what it serves keeps all its places taken; a longer one only adds waiting. Of a
        server that others ask too, this process keeps its present share."""
        self._load_is_stated = True
        if waiting > QUEUE * running and running:
            own = min(self.busy / (running + waiting), 1.0)
            self.width = max((1 + QUEUE) * running * own, 1.0)
        elif not waiting and self.busy + 1 > self.width:
            self.width *= 2.0

    def load_unknown(self) -> None:
        """The server no longer states its load: go on by trial from the width reached so far."""
        if self._load_is_stated:
            self._load_is_stated = False
            self._base, self._speed, self._trying = self.width, 0.0, False
            self._begin(self.width)

    def answered(self, took: float = 0.0) -> None:
        """A call was answered after `took` s."""
        if self._load_is_stated or not self._widening:
            return
        self._widening -= 1
        if self._skipped:
            self._skipped -= 1
            if self._first is not None:
                self._first_round(took)
            return
        self._answers += 1
        self._took += took
        if self._answers >= max(SAMPLE, min(self.width, LARGE_SAMPLE), self.width / 2):
            self._weigh(self.width * self._answers / max(self._took, 1e-9))

    def overloaded(self, sent: float, now: float) -> None:
        if sent < self._cut_at:
            return
        super().overloaded(sent, now)
        if self._first is not None:
            self.width, self._first = min(self.width, float(FEW)), None
        if self._trying:
            self.width = min(self.width, self._base)
            self._rest = min(2.0 * self._rest, MAX_REST)
        self._base, self._speed, self._trying = self.width, 0.0, False
        self._settle(self.width)

    def refused(self) -> None:
        super().refused()
        self._first = None
        self._base, self._speed, self._trying = self.width, 0.0, False
        self._begin(self.width)

    def _first_round(self, took: float) -> None:
        """Note one of the first answers; after the first round, keep the width or go back."""
        assert self._first is not None
        self._first.append(took)
        if len(self._first) == FEW:
            self.width = self._base = float(OWN_SERVER_START)
        elif not self._skipped:
            first, self._first = self._first[FEW:], None
            mean = sum(first) / len(first)
            if sum(first[:FEW]) / FEW < QUEUE_SHOWS * mean:
                self._base = float(FEW)
                self._begin(self._base)
            else:
                self._weigh(self.width / max(mean, 1e-9))

    def _weigh(self, speed: float) -> None:
        """Go up, or back; by Little's law a width and a mean time are a speed."""
        if self._trying and speed < GAIN * self._speed:
            self._trying = False
            self._settle(self._base + max(self._base // 4, 1.0))
            self._rest = min(2.0 * self._rest, MAX_REST)
            return
        factor = 2.0
        if self._trying:
            growth = speed / self._speed
            whole = growth >= WHOLE_GAIN * self.width / self._base
            factor = 4.0 if whole and self.width > OWN_SERVER_START else 2.0
            self._base = min((1 + QUEUE) * growth * self._base, self.width)
            self._rest = REST
        self._speed = speed
        self._trying = True
        self._begin(factor * self._base)

    def _settle(self, width: float) -> None:
        self._begin(width)
        self._skipped += int(self._rest * width)

    def _begin(self, width: float) -> None:
        self.width = width
        self._skipped = max(int(width), self.busy) + 1
        self._answers, self._took, self._widening = 0, 0.0, self.busy
