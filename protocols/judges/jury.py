"""A jury: several judges read the same transcript, and their probabilities are pooled."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Literal, TypeAlias

from ...cache.call import Ask
from ..agents.agent import Agent
from ..doubts import ANYTHING, ParsedReplies, ProbabilityRange, mean_ranges, parse_all, ranges_given
from ..errors import Unreadable
from ..held import Probabilities
from ..scores import log
from ..settings import require_known
from ..transcript import Transcript, Verdict
from .case import Case
from .judge import Judge

Pooling: TypeAlias = Literal["mean", "median", "logodds"]


@dataclass(frozen=True)
class Jury(Judge):
    """Independent judges (Verga et al. 2024, arXiv:2404.18796; weighted pools as in Sang et al.
    2024, arXiv:2402.00667).

    mean: the weighted mean of each probability. median: the median of each, normalised, without
    weights. logodds: the weighted mean of the logarithms, clipped as in the log score; a certain
    juror weighs heavily but has no veto. For two answers it is the mean of the log odds. An unread
    juror gives the verdict bounds. Unreadable if no juror can be read."""

    judges: tuple[Judge, ...]
    pool: Pooling = "mean"
    weights: tuple[float, ...] = ()
    """One per judge, not negative; only their ratios count. Empty: all equal."""

    def __post_init__(self) -> None:
        if not self.judges:
            raise ValueError("judges: a jury needs one judge or more")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError(
                "judges: two jurors are equal, and would reply the same; for several draws of one "
                "judge use votes"
            )
        require_known("pool", self.pool, POOLS)
        if self.weights and self.pool == "median":
            raise ValueError("weights: a median takes none; use the pool mean or logodds")
        if self.weights and len(self.weights) != len(self.judges):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.judges)} judges")
        if self.weights and not (min(self.weights) >= 0 < sum(self.weights) < math.inf):
            raise ValueError(f"weights: {self.weights} must be 0 or more, and not all 0")

    @property
    def name(self) -> str:
        members = "; ".join(judge.name for judge in self.judges)
        weighted = f" weighted {':'.join(f'{weight:g}' for weight in self.weights)}"
        return f"jury {self.pool}{weighted if self.weights else ''} ({members})"

    @property
    def reads_passage(self) -> bool:
        return any(judge.reads_passage for judge in self.judges)

    @property
    def base_agent(self) -> Agent:
        """The agent that speaks for all jurors: of the first one that reads what the jury reads."""
        return max(self.judges, key=lambda judge: judge.reads_passage).base_agent

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        verdicts = await parse_all(*(judge.decide(case, ask) for judge in self.judges))
        return pooled(
            case.transcript, verdicts, self.pool, self.weights or (1.0,) * len(self.judges)
        )


def pooled(
    transcript: Transcript,
    verdicts: ParsedReplies[Verdict],
    pool: Pooling,
    weights: Sequence[float],
) -> Verdict:
    """The pool of several verdicts on one transcript. weights: one per member, unread ones
    included; none negative, not all 0."""
    read = verdicts.read
    read_weights = [weights[index] for index in read]
    # If all readable members have weight 0, they count equally.
    read_weights = read_weights if any(read_weights) else [1.0] * len(read_weights)
    probs = _pool(pool, [verdict.probs for verdict in read.values()], read_weights)
    judgements = tuple(judgement for verdict in read.values() for judgement in verdict.judgements)
    doubts = (*verdicts.doubts, *(doubt for verdict in read.values() for doubt in verdict.doubts))
    if not verdicts.doubts and not any(verdict.bounds for verdict in read.values()):
        return Verdict(probs, transcript, judgements)
    anything = (ANYTHING,) * len(probs)
    spans = [read[index].spans if index in read else anything for index in range(len(weights))]
    return Verdict(
        probs, transcript, judgements, bounds=_pooled_spans(pool, spans, weights), doubts=doubts
    )


def _pool(pool: Pooling, rows: Sequence[Probabilities], weights: Sequence[float]) -> Probabilities:
    shares = [weight / sum(weights) for weight in weights]
    row = POOLS[pool](rows, shares)
    total = sum(row)
    if not total:
        raise Unreadable("the medians of the jurors add up to nothing", "", seat="Judge")
    return tuple(part / total for part in row)


def _pooled_spans(
    pool: Pooling, spans: Sequence[tuple[ProbabilityRange, ...]], weights: Sequence[float]
) -> tuple[ProbabilityRange, ...]:
    """The bounds of a pool. With two answers, every pool rises with each juror's probability. With
    more, only the mean has simple bounds; other pools are left open."""
    if pool == "mean":
        return mean_ranges(spans, [weight / sum(weights) for weight in weights])
    if len(spans[0]) > 2:
        return (ANYTHING,) * len(spans[0])
    low, high = (
        _pool(pool, [(row[0][end], 1 - row[0][end]) for row in spans], weights)[0] for end in (0, 1)
    )
    return ranges_given((low, high), 0, 2)


def _mean(rows: Sequence[Probabilities], shares: Sequence[float]) -> list[float]:
    columns = zip(*rows, strict=True)
    return [sum(w * p for w, p in zip(shares, column, strict=True)) for column in columns]


def _median(rows: Sequence[Probabilities], shares: Sequence[float]) -> list[float]:
    return [median(column) for column in zip(*rows, strict=True)]


def _logodds(rows: Sequence[Probabilities], shares: Sequence[float]) -> list[float]:
    indices = range(len(rows[0]))
    logs = [sum(w * log(row, n) for w, row in zip(shares, rows, strict=True)) for n in indices]
    return [math.exp(log_mean) for log_mean in logs]


POOLS: Mapping[Pooling, Callable[[Sequence[Probabilities], Sequence[float]], list[float]]] = (
    MappingProxyType({"mean": _mean, "median": _median, "logodds": _logodds})
)
"""Pooling functions by name: from the jurors' rows and shares to weights of the answers."""
