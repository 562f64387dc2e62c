"""The reaction to a 429: a pause of the model, and a pace if calls were sent too fast.

A 429 can mean three things, each of which calls for a different reaction:

- Too fast for an unstated limit. Then a pace is right: the rate at which the server let calls
  through, pauses included, which is a delivery rate, as in BBR (Cardwell et al. 2016), not a part
  of what was sent.
- A storm: the server refuses most of what it is sent. Then few should be in flight, and many again
  with the first answers: the width of `AdaptiveConcurrency` halves and doubles, as a window of TCP
  does.
- Chance: a few are refused, however fast or slow one goes. Then the pause is all. Whoever slows
  down at each loss, be it by AIMD or by CUBIC (as AWS's clients do), ends near nothing.

Which it is shows when a pace is tried, as PCC (Dong et al. 2015) tries rates: below the rate of
delivery a limit refuses nothing, and chance goes on refusing.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

MAX_PAUSE = 60.0
"""Seconds of pause at most where the server does not say how long."""

STORM_SHARE = 0.4
"""Share of refused calls from which fewer may be in flight."""
SHARE_WEIGHT = 1 / 16
"""The weight of one call in that share."""

REFUSAL_WINDOW = 10.0
"""Seconds, pauses left out, over which refusals are counted."""
TOLERATED_SHARE = 0.02
"""Share of refusals that sets no pace: the threshold of BBR's second version."""
MIN_ANSWERS, MIN_SPAN = 5, 3.0
"""Fewest answers, and seconds, that give a rate of delivery good enough to try a pace."""
TRIED_PART = 0.95
"""Part of the rate of delivery that is tried as a pace."""
MIN_PACE = 0.5
"""Requests a second: the slowest pace that is tried."""

PLATEAU, MAX_PLATEAU = 3.0, 96.0
"""Seconds for which a new pace is kept before it rises, and at most: the span doubles each time the
pace proves right. After it the pace doubles within half of that span."""
OUTGROWN = 2.0
"""A pace is dropped once it is this many times the rate at which calls come."""
MAX_DOUBTS, NEW_CUT, PROVEN_CUT = 3, 0.8, 0.9
"""Refusals on a plateau after which pace is not the cause; the part that each of them leaves of a
new pace, and of one that has proved right."""
IMMUNE, MAX_IMMUNE = 30.0, 480.0
"""Seconds until a pace is tried again after that, and at most: the span doubles each time."""

SLACK = 0.005
"""Seconds by which a call may leave early to make up for one that left late."""


class Mark(NamedTuple):
    """The counts at one moment."""

    at: float
    refused: int
    answered: int
    left: int
    paused: float
    """Seconds of all pauses until then."""


class Throttle:
    """Pause and pace of one model. Reads no clock: callers give the loop time (s)."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """jitter: draws from [0, 1)."""
        self._jitter = jitter
        self.quiet = True
        """Whether nothing is held back: no pause and no pace."""
        self.until = 0.0
        """When the pause ends, or ended."""
        self._share = 0.0
        """Share of the latest calls that were refused: a moving average, in [0, 1]."""
        self._refused = 0
        self._answered = 0
        self._left = 0
        self._paused = 0.0
        """Seconds of all pauses."""
        self._cut_at = -1.0
        self._unexplained = 0
        """Refusals since the last answer for which the server gave no delay."""
        self._refusals: deque[Mark] = deque()
        """Marks of the refusals within the last `REFUSAL_WINDOW` seconds."""
        self._pace = math.inf
        """Requests a second on the plateau."""
        self._rises_at = 0.0
        """When the plateau ends."""
        self._plateau = PLATEAU
        self._doubts = 0
        self._immune = IMMUNE
        self._immune_until = -math.inf
        self._marks: deque[Mark] = deque(maxlen=3)
        """About one a second while a pace is kept."""
        self._next = 0.0
        """When the next call is due at this pace."""

    def refused(self, delay: float, sent: float, now: float) -> bool:
        """A 429 for a call sent at `sent`: pause for `delay` s and up to a tenth more.

        delay: seconds, or 0 if the server did not say; then 1, 2, 4 … 60 s. The random part
        spreads out calls that were refused together. It shrinks with the share of refusals: where
        they come by chance, any longer pause is time lost. Of calls that were in flight together
        only the first counts. Returns True, once for all of them, if so many are refused that fewer
        should be in flight.
        """
        self._share += (1.0 - self._share) * SHARE_WEIGHT
        # Refusals return sooner than answers: at the end of a burst the share is too high.
        storm = sent >= self._cut_at and self._share > STORM_SHARE
        if sent >= self._cut_at:
            self._unexplained += not delay
            self._judge(now)
            self._cut_at = now
        self._refused += 1
        wait = delay or min(2.0 ** (self._unexplained - 1), MAX_PAUSE)
        enough_answers = self._answered * SHARE_WEIGHT >= 1.0
        crowd = min(self._share / STORM_SHARE, 1.0) if enough_answers else 1.0
        # Nor does anything leave before the end of an earlier pause.
        until = max(self.until, now + wait * (1 + crowd * self._jitter() / 10))
        self._paused += until - max(self.until, now)
        self.until = until
        self._rises_at = max(self._rises_at, until + self._plateau)
        self.quiet = False
        return storm

    def answered(self) -> None:
        """A call was answered: an unexplained refusal after this is a first one."""
        self._unexplained = 0
        self._answered += 1
        self._share -= self._share * SHARE_WEIGHT

    def pace(self, now: float) -> float:
        """Requests a second to go at; infinite where no pace is kept."""
        if now <= self._rises_at:
            return self._pace
        doublings = 2.0 * (now - self._rises_at) / self._plateau
        return self._pace * math.exp2(min(doublings, 60.0))

    def opens_at(self, now: float) -> float:
        """When the next call may leave; not after `now` if it may leave at once."""
        if self.until > now:
            return self.until
        if self._pace == math.inf:
            self.quiet = True
            return now
        return self._next - SLACK

    def left(self, now: float) -> None:
        """A call leaves: the next one is due later by the pace."""
        if self._pace == math.inf:
            return
        self._next = max(self._next, now - SLACK) + 1.0 / self.pace(now)
        self._left += 1
        last = self._marks[-1]
        active = now - last.at - (self._paused - last.paused)
        if active >= 1.0:
            self._marks.append(self._mark(now))
            used = (self._left - last.left) / active
            if now > self._rises_at and self.pace(now) >= OUTGROWN * used:
                self._release()

    def _judge(self, now: float) -> None:
        """Act on the first refusal of those that were in flight together."""
        if self._pace < math.inf:
            self._learn(now)
        elif now >= self._immune_until:
            self._refusals.append(self._mark(now))
            since = now - REFUSAL_WINDOW - self._paused
            while (first := self._refusals[0]).at < since + first.paused:
                self._refusals.popleft()
            span, answers = now - first.at, self._answered - first.answered
            refused = self._refused - first.refused
            # More than chance explains, by two standard deviations.
            many = refused - 2.0 * math.sqrt(refused) > TOLERATED_SHARE * (answers + refused)
            if many and span >= MIN_SPAN and answers >= MIN_ANSWERS:
                self._plateau, self._doubts = PLATEAU, 0
                self._set(TRIED_PART * answers / span, now)

    def _learn(self, now: float) -> None:
        """A refusal while a pace is kept: had it become too fast, or does pace not matter?"""
        if now < self._rises_at:
            self._doubts += 1
            if self._doubts < MAX_DOUBTS:
                new = self._plateau == PLATEAU
                self._set((NEW_CUT if new else PROVEN_CUT) * self._pace, now)
            else:
                self._release()
                self._immune_until = now + self._immune
                self._immune = min(2.0 * self._immune, MAX_IMMUNE)
            return
        last = self._marks[0]
        delivered = (self._answered - last.answered) / max(now - last.at, 1.0)
        self._doubts = 0
        self._plateau = min(2.0 * self._plateau, MAX_PLATEAU)
        self._set(TRIED_PART * min(self.pace(now), max(delivered, self._pace)), now)

    def _set(self, pace: float, now: float) -> None:
        self._pace = max(pace, MIN_PACE)
        self._rises_at = now + self._plateau
        self._marks.clear()
        self._marks.append(self._mark(now))

    def _release(self) -> None:
        self._pace = math.inf
        self._refusals.clear()

    def _mark(self, now: float) -> Mark:
        return Mark(now, self._refused, self._answered, self._left, self._paused)
