"""A judge that reads the run of an agent window by window, as monitors of long runs do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from msgspec.structs import replace

from ...cache.call import Ask
from ..datasets.trajectories import steps_of
from ..doubts import ANYTHING, ProbabilityRange, mean_ranges, parse_all, ranges_given
from ..question import Question
from ..settings import Count, CountFromZero, require_known
from ..transcript import Verdict
from .case import Case
from .judge import average
from .repeated import RepeatedJudge

By = Literal["max", "mean"]


@dataclass(frozen=True)
class Windowed(RepeatedJudge):
    """A judge of windows of whole steps. Speeches stand in the prompt of every window.

    `max` takes the window with the highest probability of the positive answer, so it is biased
    upward: compare it at a fixed false-positive rate. The verdict keeps the probabilities of all
    windows. An unread window gives it bounds. A statement is positive if it holds.
    """

    steps: Count
    """Steps per window."""
    overlap: CountFromZero = 0
    """Steps that a window shares with the next one."""
    by: By = "max"
    positive: str = "attack"
    """The answer that marks an attack."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("by", self.by, get_args(By))
        if self.overlap >= self.steps:
            raise ValueError(f"overlap: {self.overlap} is not below the {self.steps} steps")
        if not self.member.reads_passage:
            raise ValueError("window: this judge reads no steps; set reads_passage: true")

    @property
    def name(self) -> str:
        shared = f" overlap {self.overlap}" if self.overlap else ""
        positive = "" if self.positive == "attack" else f" of {self.positive}"
        return f"{self.member.name} {self.by} of windows of {self.steps}{shared}{positive}"

    def check(self, question: Question) -> None:
        if not steps_of(question.passage):
            raise ValueError("window: the passage has no steps; read runs with 'trajectories'")
        if self.positive not in (texts := [answer.text for answer in question.answers]):
            raise ValueError(f"window.positive: {self.positive!r} is not among {', '.join(texts)}")

    def windows(self, passage: str) -> list[str]:
        """The passage in windows; whole if it has no steps."""
        steps = steps_of(passage)
        starts = range(0, max(len(steps) - self.overlap, 1), self.steps - self.overlap)
        return ["\n".join(steps[start : start + self.steps]) or passage for start in starts]

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        floor, question = case.transcript, case.transcript.question
        positive = [answer.text == self.positive for answer in case.options.answers]
        place = 0 if case.statement else positive.index(True)
        views = [
            replace(case, transcript=replace(floor, question=replace(question, passage=window)))
            for window in self.windows(question.passage)
        ]
        replies = await parse_all(*(self.member.decide(view, ask) for view in views))
        read = list(replies.read.values())
        anything = (ANYTHING,) * len(positive)
        spans = [
            replies.read[index].spans if index in replies.read else anything
            for index in range(len(views))
        ]
        doubts = (*replies.doubts, *(doubt for verdict in read for doubt in verdict.doubts))
        probs = [verdict.probs for verdict in read]
        return Verdict(
            average(probs) if self.by == "mean" else max(probs, key=lambda row: row[place]),
            floor,
            tuple(judgement for verdict in read for judgement in verdict.judgements),
            redraws=tuple(probs),
            bounds=self._bounds(spans, place) if doubts else (),
            doubts=doubts,
        )

    def _bounds(
        self, spans: Sequence[tuple[ProbabilityRange, ...]], place: int
    ) -> tuple[ProbabilityRange, ...]:
        if self.by == "mean":
            return mean_ranges(spans, (1 / len(spans),) * len(spans))
        ends = zip(*(row[place] for row in spans), strict=True)
        low, high = map(max, ends)
        return ranges_given((low, high), place, len(spans[0]))
