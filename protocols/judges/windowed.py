"""A judge that reads the run of an agent window by window, as monitors of long runs do."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from msgspec.structs import replace

from ...cache.call import Ask
from ..datasets.trajectories import steps_of
from ..doubts import ANYTHING, mean_ranges, parse_all, ranges_given
from ..question import Question
from ..settings import Count, CountFromZero, require_known
from ..transcript import Verdict
from .case import Case
from .judge import average
from .repeated import RepeatedJudge


@dataclass(frozen=True)
class Windowed(RepeatedJudge):
    """A judge of windows of whole steps. Speeches stand in the prompt of every window.

    `max` takes the window with the highest probability of the positive answer, so it is biased
    upward: compare it at a fixed false-positive rate. The verdict keeps the probabilities of all
    windows. An unread window gives it bounds. A statement is positive if it holds."""

    steps: Count
    overlap: CountFromZero = 0
    """Steps shared with the next window."""
    by: Literal["max", "mean"] = "max"
    positive: str = "attack"
    """The answer that marks an attack."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("by", self.by, get_args(Literal["max", "mean"]))
        if self.overlap >= self.steps:
            raise ValueError(f"overlap: {self.overlap} is not below the {self.steps} steps")
        if not self.member.reads_passage:
            raise ValueError("window: this judge reads no steps; set reads_passage: true")

    @property
    def name(self) -> str:
        shared = f" overlap {self.overlap}" if self.overlap else ""
        positive = "" if self.positive == "attack" else f" of {self.positive}"
        return f"{self.member.name} {self.by} of windows of {self.steps}{shared}{positive}"

    def check(self, question: Question, room: float = math.inf) -> None:
        if not (sizes := [len(step.encode()) for step in steps_of(question.passage)]):
            raise ValueError("window: the passage has no steps; read runs with 'trajectories'")
        if self.positive not in (texts := [answer.text for answer in question.answers]):
            raise ValueError(f"window.positive: {self.positive!r} is not among {', '.join(texts)}")
        if (size := max(sizes)) > room:
            step = f"shown step {sizes.index(size) + 1} has {size:,} bytes"
            raise ValueError(f"{step}, and the context of the judge's model holds {room:,.0f}")

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        floor, texts = case.transcript, [answer.text for answer in case.options.answers]
        question, place = floor.question, 0 if case.statement else texts.index(self.positive)
        steps, views = steps_of(question.passage), []
        # A passage without steps is read whole.
        for start in range(0, max(len(steps) - self.overlap, 1), self.steps - self.overlap):
            window = "\n".join(steps[start : start + self.steps]) or question.passage
            transcript = replace(floor, question=replace(question, passage=window))
            views.append(replace(case, transcript=transcript))
        replies = await parse_all(*(self.member.decide(view, ask) for view in views))
        read, unread = list(replies.read.values()), len(replies.doubts)
        spans = [verdict.spans for verdict in read] + [(ANYTHING,) * len(texts)] * unread
        probs = tuple(verdict.probs for verdict in read)
        if self.by == "mean":
            result, bounds = average(probs), mean_ranges(spans, (1 / len(spans),) * len(spans))
        else:
            low, high = (max(row[place][end] for row in spans) for end in (0, 1))
            result = max(probs, key=lambda row: row[place])
            bounds = ranges_given((low, high), place, len(texts))
        doubts = (*replies.doubts, *(doubt for verdict in read for doubt in verdict.doubts))
        judgements = tuple(judgement for verdict in read for judgement in verdict.judgements)
        bounds = bounds if doubts or any(verdict.bounds for verdict in read) else ()
        return Verdict(result, floor, judgements, redraws=probs, bounds=bounds, doubts=doubts)
