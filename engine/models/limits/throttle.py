"""Reaction to a 429: a pause of the model, and a pace if calls were sent too fast.

A 429 has three possible causes, with different reactions:

- Too fast for an unstated limit: a pace helps. It is the rate at which the server lets calls
  through, pauses included: a delivery rate as in BBR (Cardwell et al. 2016), not a fraction of the
  sending rate.
- A storm: the server refuses most calls. Then few calls should be in flight, and many again after
  the first answers: the width of `AdaptiveConcurrency` halves and doubles, like a TCP window.
- Chance: a few calls are refused at any rate. Then the pause is enough. Slowing down at each loss,
  as AIMD and CUBIC do (in AWS's clients), would end near zero.

Trying a pace shows the cause, as PCC (Dong et al. 2015) tries rates: below the rate of delivery, a
limit refuses nothing, but chance still does.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

MAX_PAUSE = 60.0
"""Maximum seconds of pause if the server states none."""

STORM_SHARE = 0.4
"""Fraction of refused calls from which fewer may be in flight."""
SHARE_WEIGHT = 1 / 16
"""Weight of one call in that fraction."""

REFUSAL_WINDOW = 10.0
"""Seconds, without pauses, over which refusals are counted."""
TOLERATED_SHARE = 0.02
"""Fraction of refusals that sets no pace: the threshold of BBR's second version."""
MIN_ANSWERS, MIN_SPAN = 5, 3.0
"""Minimum answers and seconds for a rate of delivery that is good enough to try a pace."""
TRIED_PART = 0.95
"""Fraction of the rate of delivery that is tried as a pace."""
MIN_PACE = 0.5
"""Slowest pace that is tried, in requests per second."""

PLATEAU, MAX_PLATEAU = 3.0, 96.0
"""Seconds for which a new pace is kept before it rises, and their maximum: they double each time
the pace proves right. Then the pace doubles within half of that time."""
OUTGROWN = 2.0
"""A pace is dropped once it is this many times the rate at which calls come."""
MAX_DOUBTS, NEW_CUT, PROVEN_CUT = 3, 0.8, 0.9
"""Refusals on a plateau after which pace is not the cause; factor by which each reduces a new pace;
the same for a proven one."""
IMMUNE, MAX_IMMUNE = 30.0, 480.0
"""Seconds until a pace is tried again after that, and their maximum: they double each time."""

SLACK = 0.005
"""Seconds by which a call may be early, to make up for a late one."""


class Mark(NamedTuple):
    """The counts at one moment."""

    at: float
    refused: int
    answered: int
    left: int
    paused: float
    """Seconds of all earlier pauses."""


class Throttle:
    """Pause and pace of one model. Reads no clock: callers pass the loop time (s)."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """jitter: draws from [0, 1)."""
        self._jitter = jitter
        self.quiet = True
        """Whether nothing is held back: no pause and no pace."""
        self.until = 0.0
        """End of the present or last pause."""
        self._share = 0.0
        """Fraction of recent calls that were refused: a moving average, in [0, 1]."""
        self._refused = 0
        self._answered = 0
        self._left = 0
        self._paused = 0.0
        """Seconds of all pauses."""
        self._cut_at = -1.0
        self._unexplained = 0
        """Refusals without a stated delay since the last answer."""
        self._refusals: deque[Mark] = deque()
        """Marks of the refusals within the last `REFUSAL_WINDOW` seconds."""
        self._pace = math.inf
        """Requests per second on the plateau."""
        self._rises_at = 0.0
        """End of the plateau."""
        self._plateau = PLATEAU
        self._doubts = 0
        self._immune = IMMUNE
        self._immune_until = -math.inf
        self._marks: deque[Mark] = deque(maxlen=3)
        """About one per second while a pace is kept."""
        self._next = 0.0
        """When the next call is due at this pace."""

    def refused(self, delay: float, sent: float, now: float) -> bool:
        """A 429 for a call sent at `sent`: pause for `delay` s, plus up to a tenth.

        delay: seconds, or 0 if unstated; then 1, 2, 4 … 60 s. The random part spreads out calls
        that were refused together. It shrinks with the fraction of refusals: if they come by
        chance, a longer pause is lost time. Of calls that were in flight together, only the first
        counts. Returns True, once for all of them, if the fraction of refusals calls for fewer in
        flight."""
        self._share += (1.0 - self._share) * SHARE_WEIGHT
        # Refusals return sooner than answers: at the end of a burst the fraction is too high.
        storm = sent >= self._cut_at and self._share > STORM_SHARE
        if sent >= self._cut_at:
            self._unexplained += not delay
            self._judge(now)
            self._cut_at = now
        self._refused += 1
        wait = delay or min(2.0 ** (self._unexplained - 1), MAX_PAUSE)
        enough_answers = self._answered * SHARE_WEIGHT >= 1.0
        crowd = min(self._share / STORM_SHARE, 1.0) if enough_answers else 1.0
        # An earlier pause may last longer.
        until = max(self.until, now + wait * (1 + crowd * self._jitter() / 10))
        self._paused += until - max(self.until, now)
        self.until = until
        self._rises_at = max(self._rises_at, until + self._plateau)
        self.quiet = False
        return storm

    def answered(self) -> None:
        """A call was answered: the next refusal without a delay counts as a first one."""
        self._unexplained = 0
        self._answered += 1
        self._share -= self._share * SHARE_WEIGHT

    def pace(self, now: float) -> float:
        """The pace in requests per second; infinite if none is kept."""
        if now <= self._rises_at:
            return self._pace
        doublings = 2.0 * (now - self._rises_at) / self._plateau
        return self._pace * math.exp2(min(doublings, 60.0))

    def opens_at(self, now: float) -> float:
        """When the next call may be sent; at most `now` if at once."""
        if self.until > now:
            return self.until
        if self._pace == math.inf:
            self.quiet = True
            return now
        return self._next - SLACK

    def left(self, now: float) -> None:
        """A call is sent: the next one is due later, by the pace."""
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
        """Act on the first refusal of calls that were in flight together."""
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
        """A refusal while a pace is kept: was it too fast, or does pace not matter?"""
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
