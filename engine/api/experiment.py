"""Experiments of a few hundred calls: protocols on problems, with only an `Ask` behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from ...cache.call import Ask
from ...protocols.gather import gather_in_order
from ...protocols.protocol import Protocol, score_difference
from ...protocols.question import Problem
from ...protocols.scoring.sample import Sample


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one protocol, with its roles, in an experiment."""

    protocol: Protocol
    asd: Sample | None
    """ASD by problem; its `mean` is the benchmark's score. None without problems."""
    unreadable: int
    """Problems with a world in which nothing could be read, which counts as 0 for its answer."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Protocols on problems, with only an `Ask` behind them: for a few hundred calls.

    The engine runs the same protocols with resuming, limits, intervals and reports.
    """

    protocols: Sequence[Protocol]
    """`Protocol.grid` returns one for every agent and judge."""
    problems: Sequence[Problem]

    async def run(self, ask: Ask, *, score: str = "brier", lanes: int = 64) -> list[Trial]:
        """One trial per protocol. lanes: maximum number of problems run at once.

        Whatever `ask` raises ends the experiment; behind a cache, no reply is lost.
        """
        points = iter(product(range(len(self.protocols)), self.problems))
        scored: list[dict[str, float]] = [{} for _ in self.protocols]
        unread = [0] * len(self.protocols)

        async def lane() -> None:
            for number, problem in points:
                protocol = self.protocols[number]
                verdicts = await protocol.worlds(problem, ask)
                unread[number] += any(each.doubts and not each.judgements for each in verdicts)
                scored[number][problem.id] = score_difference(problem, verdicts, score)

        await gather_in_order(*(lane() for _ in range(lanes)))
        return [
            Trial(protocol, self._sample(by_problem), lost)
            for protocol, by_problem, lost in zip(self.protocols, scored, unread, strict=True)
        ]

    def _sample(self, scored: dict[str, float]) -> Sample | None:
        """A sample in the order of the problems, whichever finished first."""
        if not self.problems:
            return None
        ids = tuple(problem.id for problem in self.problems)
        groups = tuple(problem.group for problem in self.problems)
        return Sample(ids, tuple(scored[id] for id in ids), groups)
