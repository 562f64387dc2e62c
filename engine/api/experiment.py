"""Protocols on problems with nothing but an `Ask` behind them, for a few hundred calls."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from oversight.cache.call import Ask
from oversight.protocols.errors import Unreadable
from oversight.protocols.gather import gather_in_order
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem
from oversight.protocols.scoring.sample import Sample


@dataclass(frozen=True, slots=True)
class Trial:
    """What one protocol with its roles came to in an experiment."""

    protocol: Protocol
    asd: Sample | None
    """Problem by problem; its `mean` is the benchmark's figure. None if no problem was judged."""
    unreadable: int
    """Problems left out, because a reply that a verdict rests on could not be read."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Protocols on problems, with nothing but an `Ask` behind them: for a few hundred calls.

    The engine runs the same protocols resumably, under limits, with intervals and reports.
    """

    protocols: Sequence[Protocol]
    """`Protocol.grid` gives one with every agent and every judge."""
    problems: Sequence[Problem]

    async def run(self, ask: Ask, *, score: str = "brier", lanes: int = 64) -> list[Trial]:
        """One trial a protocol. lanes: how many problems are under way at once.

        What `ask` raises ends the experiment; behind a cache, what was answered is not lost.
        """
        points = iter(product(range(len(self.protocols)), self.problems))
        scored: list[dict[str, float]] = [{} for _ in self.protocols]

        async def lane() -> None:
            for number, problem in points:
                protocol = self.protocols[number]
                with suppress(Unreadable):
                    asd = await protocol.agent_score_difference(problem, ask, score)
                    scored[number][problem.id] = asd

        await gather_in_order(*(lane() for _ in range(lanes)))
        return [
            Trial(protocol, self._sample(found), len(self.problems) - len(found))
            for protocol, found in zip(self.protocols, scored, strict=True)
        ]

    def _sample(self, scored: dict[str, float]) -> Sample | None:
        """In the order of the problems, whichever landed first."""
        there = [problem for problem in self.problems if problem.id in scored]
        if not there:
            return None
        ids = tuple(problem.id for problem in there)
        groups = tuple(problem.group for problem in there)
        return Sample(ids, tuple(scored[id] for id in ids), groups)
