"""How long replies took, as counts that add up over sittings and workers."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

DOUBLING = 8
"""Bins from one duration to twice of it: a quantile is off by 4.4 % at most."""
LEAST = 1e-4
"""Seconds, below which durations are told from each other no more."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Of whole replies, from the request's leaving to the reply's arrival; waits are not in it."""

    bins: tuple[tuple[int, int], ...] = ()
    """(bin, replies), ascending; bin n is around 2^(n / DOUBLING) seconds."""
    seconds: float = 0.0
    """All durations, added up."""
    tokens: int = 0
    """Output tokens of the replies."""

    @property
    def replies(self) -> int:
        return sum(count for _, count in self.bins)

    def quantile(self, share: float) -> float:
        """Seconds in which a share of the replies came, in (0, 1]. There must be some."""
        rank = math.ceil(share * self.replies)
        for at, count in self.bins:
            rank -= count
            if rank <= 0:
                return float(2 ** (at / DOUBLING))
        raise ValueError("no reply was timed: there is no quantile")

    @property
    def pace(self) -> float:
        """Output tokens a second of one call."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def told(self) -> dict[str, float]:
        """The figures by name, for JSON: seconds, and output tokens a second."""
        quantiles = {name: self.quantile(q) for name, q in QUANTILES.items()}
        return {"replies": self.replies, **quantiles, "tokens_a_second": self.pace}

    def __str__(self) -> str:
        quantiles = (f"{name} {_seconds(self.quantile(q))}" for name, q in QUANTILES.items())
        return f"{', '.join(quantiles)}; {self.pace:,.0f} output tokens/s"


QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


class Stopwatch:
    """The latency of one model's replies as they come."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._seconds = 0.0
        self._tokens = 0

    def reply(self, seconds: float, tokens: int) -> None:
        self._bins[round(DOUBLING * math.log2(max(seconds, LEAST)))] += 1
        self._seconds += seconds
        self._tokens += tokens

    def latency(self) -> Latency:
        return Latency(tuple(sorted(self._bins.items())), self._seconds, self._tokens)


def sum_latency(parts: Iterable[Latency]) -> Latency:
    """The latency of all replies together."""
    bins: Counter[int] = Counter()
    seconds, tokens = 0.0, 0
    for part in parts:
        for at, count in part.bins:
            bins[at] += count
        seconds += part.seconds
        tokens += part.tokens
    return Latency(tuple(sorted(bins.items())), seconds, tokens)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
