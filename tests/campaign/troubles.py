"""A store and a provider to which everything happens that can, drawn from one seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from oversight.cache.call import Call
from oversight.cache.errors import StoreFull
from oversight.cache.reply import Reply, Usage
from oversight.cache.store import MemoryStore
from oversight.engine import errors
from tests.sittings import opinion

HANG = 600.0
"""Seconds after which a call that hangs is given up."""


class FaultyStore(MemoryStore):
    """A store whose disk is full now and then; it keeps acknowledged writes."""

    def __init__(self, chance: random.Random, share: float) -> None:
        super().__init__()
        self._chance, self.share = chance, share

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        if self._chance.random() < self.share:
            raise StoreFull("no room")
        return super().keep_many(entries)


@dataclass
class FaultyProvider:
    """Answers as `opinion` does, or fails in any possible way; counts its calls."""

    chance: random.Random
    share: float
    """Share of requests with a fault."""
    deadly: float
    """Share of faults that end the run."""
    in_flight: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    """Requests that a server would have seen."""
    at: list[float] = field(default_factory=list)
    answered: int = 0
    most: int = 0

    async def __call__(self, call: Call) -> Reply:
        loop, address = asyncio.get_running_loop(), call.address
        assert not self.in_flight[address], "two flights of one call"
        self.in_flight[address] += 1
        self.most = max(self.most, self.in_flight.total())
        fault = self._fault() if self.chance.random() < self.share else None
        if not isinstance(fault, errors.Unreachable):
            self.requests += 1
            self.at.append(loop.time())
        try:
            hangs = isinstance(fault, errors.OutcomeUnknown) and self.chance.random() < 0.3
            await asyncio.sleep(HANG if hangs else self.chance.expovariate(1.0))
            if fault is not None:
                raise fault
            self.answered += 1
            return Reply(opinion(call).text, usage=Usage(200, 50))
        finally:
            self.in_flight[address] -= 1

    def _fault(self) -> errors.EngineError:
        chance = self.chance
        if chance.random() < self.deadly:
            return chance.choice(
                (errors.QuotaExhausted, errors.AuthenticationFailed, errors.ModelNotFound)
            )("the end")
        kind = chance.randrange(9)
        if chance.random() < 0.01:
            return errors.RateLimited("come back tomorrow", 2000.0)
        if kind < 3:
            return errors.RateLimited(
                "slow down", chance.choice((0.0, 1.0, 1.0, 20.0, 20.0, 60.0, 400.0))
            )
        if kind < 5:
            return errors.Overloaded("busy", chance.choice((0.0, 0.0, 3.0, 30.0, 400.0)))
        if kind == 5:
            return errors.Unreachable("nobody there")
        if kind == 6:
            return errors.OutcomeUnknown("cut off")
        if kind == 7:
            return errors.Malformed("rubbish", b"<html>")
        return chance.choice(
            (errors.InvalidRequest, errors.ContextLengthExceeded, errors.UnrecognizedReply)
        )("no")

    async def close(self) -> None:
        """Nothing to close."""
