"""Experiments of a few hundred calls: protocols on problems, with only an `Ask` behind them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from ...cache.call import Ask
from ...protocols.doubts import ANYTHING
from ...protocols.errors import Unreadable
from ...protocols.gather import gather_in_order
from ...protocols.protocol import Protocol
from ...protocols.question import Problem
from ...protocols.scores import SCORES
from ...protocols.scoring.sample import Sample
from ...protocols.transcript import Verdict


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one protocol, with its roles, in an experiment."""

    protocol: Protocol
    asd: Sample | None
    """ASD by problem; its `mean` is the benchmark's score. None if no problem was judged."""
    unreadable: int
    """Problems left out because nothing of a verdict could be read."""


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

        async def lane() -> None:
            for number, problem in points:
                protocol = self.protocols[number]
                with suppress(Unreadable):
                    verdicts = await protocol.worlds(problem, ask)
                    if not any(map(_unread, verdicts)):
                        scored[number][problem.id] = _asd(problem, verdicts, score)

        await gather_in_order(*(lane() for _ in range(lanes)))
        return [
            Trial(protocol, self._sample(by_problem), len(self.problems) - len(by_problem))
            for protocol, by_problem in zip(self.protocols, scored, strict=True)
        ]

    def _sample(self, scored: dict[str, float]) -> Sample | None:
        """A sample in the order of the problems, whichever finished first."""
        judged = [problem for problem in self.problems if problem.id in scored]
        if not judged:
            return None
        ids = tuple(problem.id for problem in judged)
        groups = tuple(problem.group for problem in judged)
        return Sample(ids, tuple(scored[id] for id in ids), groups)


def _unread(verdict: Verdict) -> bool:
    """Whether it may be any: reports show bounds of it, which a trial has none of."""
    return bool(verdict.bounds) and all(span == ANYTHING for span in verdict.bounds)


def _asd(problem: Problem, verdicts: Sequence[Verdict], score: str) -> float:
    """As `Protocol.agent_score_difference` has it."""
    measure, mean = SCORES[score], sum(problem.values) / len(problem.values)
    return sum(
        (value - mean) * measure(verdict.probs, place)
        for place, (value, verdict) in enumerate(zip(problem.values, verdicts, strict=True))
    )
