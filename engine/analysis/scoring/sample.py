"""Samples: one measure of one protocol, question by question, with the questions' groups."""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from statistics import fmean

from .estimate import ends_apart


@dataclass(frozen=True, slots=True)
class Sample:
    """One measure of one protocol, question by question.

    ValueError if it is empty, lengths differ, a question occurs twice, or a value is not finite.
    """

    questions: tuple[str, ...]
    values: tuple[float, ...]
    """One per question: the mean over its draws."""
    groups: tuple[str, ...] = ()
    """One per question: the name of its group, "" if it has none. () if no question has one."""
    ends: tuple[float, float] | None = None
    """The lowest and the highest possible mean: those of its questions, averaged. None if
    unbounded."""
    mean: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.questions:
            raise ValueError("a sample needs at least one question")
        if not self.groups:
            object.__setattr__(self, "groups", ("",) * len(self.questions))
        if not len(self.questions) == len(self.values) == len(self.groups):
            raise ValueError(
                f"{len(self.questions)} questions with {len(self.values)} values and "
                f"{len(self.groups)} groups; each question needs one value and one group"
            )
        if len(set(self.questions)) != len(self.questions):
            most, times = Counter(self.questions).most_common(1)[0]
            raise ValueError(f"question {most} occurs {times} times; average its draws first")
        for id, value in zip(self.questions, self.values, strict=True):
            if not math.isfinite(value):
                raise ValueError(f"question {id} has the value {value}, not a finite number")
        object.__setattr__(self, "mean", fmean(self.values))

    def only(self, questions: Collection[str]) -> "Sample | None":
        """The sample on some of its questions; None if it has none of them."""
        kept = [n for n, id in enumerate(self.questions) if id in questions]
        if not kept:
            return None
        return Sample(
            tuple(self.questions[n] for n in kept),
            tuple(self.values[n] for n in kept),
            tuple(self.groups[n] for n in kept),
            self.ends,
        )

    def settled(self) -> "Sample":
        """This sample, whose values are so by definition: if all are equal, its ends are one, and
        it is no estimate."""
        if max(self.values) - min(self.values) > 1e-12:
            return self
        return replace(self, ends=(self.mean, self.mean))

    @property
    def std(self) -> float:
        """Population standard deviation (divided by n), as SOlib reports it."""
        return math.sqrt(
            math.fsum((value - self.mean) ** 2 for value in self.values) / len(self.values)
        )

    @property
    def clusters(self) -> tuple[tuple[str, str], ...]:
        """Cluster of each question in resampling: (group, "") if it has one, else ("", id)."""
        pairs = zip(self.questions, self.groups, strict=True)
        return tuple([(group, "") if group else ("", id) for id, group in pairs])


def paired(first: Sample, second: Sample) -> Sample:
    """First minus second, question by question, over the questions that both have.

    ValueError without shared questions, or if a question has two groups.
    """
    index = {id: n for n, id in enumerate(second.questions)}
    shared = [(n, index[id]) for n, id in enumerate(first.questions) if id in index]
    if not shared:
        raise ValueError("the two samples share no question")
    for n, m in shared:
        if first.groups[n] != second.groups[m]:
            raise ValueError(
                f"question {first.questions[n]} is of group {first.groups[n]!r} in one sample "
                f"and of {second.groups[m]!r} in the other"
            )
    return Sample(
        tuple(first.questions[n] for n, _ in shared),
        tuple(first.values[n] - second.values[m] for n, m in shared),
        tuple(first.groups[n] for n, _ in shared),
        ends_apart(first.ends, second.ends),
    )
