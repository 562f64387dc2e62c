"""The judge interface, and judges of one model: prompts, both orders, averages."""

import math
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from ...cache.cached_attribute import memoized
from ...cache.call import Ask, Call, Effort, RecordingAsk, Request, ResponseFormat, for_role
from ...cache.reply import Reply
from ..agents.agent import Agent, RolePrompt
from ..doubts import (
    MIN_CAPTURED_MASS,
    ROUNDING,
    ProbabilityRange,
    UnreadReply,
    mean_ranges,
    parse_all,
)
from ..errors import Unreadable, unreadable
from ..prompts.prompt_set import NOTHING, Words, default_prompts, lines
from ..prompts.render import Examples, Instructions, messages
from ..question import Answer, Question
from ..settings import (
    REASONING_ROOM,
    Count,
    CountFromZero,
    Parameters,
    Reason,
    check_ranges,
    require_known,
    unusual,
)
from ..transcript import Judgement, Transcript, Verdict
from .case import AFFIRM, DENY, Belief, Case, Shot, as_examples

Order = Sequence[int]
"""Indices of the options in the order that a judge sees."""


class Judge(ABC):
    """Interface of a judge: turns a transcript into a probability for each answer."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports."""

    @property
    @abstractmethod
    def reads_passage(self) -> bool:
        """Whether the judge may read the passage. If not, the agents know more than the judge."""

    @property
    @abstractmethod
    def base_agent(self) -> Agent:
        """The judge's model as a plain agent, for turns that it takes before it decides."""

    def check(self, question: Question, room: float = math.inf) -> None:  # noqa: B027
        """Raise ValueError, with the fix, if this judge cannot decide about this question. room:
        bytes that the context of its model holds."""

    @abstractmethod
    async def decide(self, case: Case, ask: Ask) -> Verdict:
        """A probability for each option of a case: a transcript, and the statement about it or the
        question to decide. Unreadable if a necessary reply is."""

    def judge(
        self, transcript: Transcript, ask: Ask, prompt: RolePrompt | None = None
    ) -> Coroutine[Any, Any, Verdict]:
        """The verdict on a transcript: which answer is right. Unreadable as in `decide`. prompt:
        the rules, which the speakers read too, and the role of the judge."""
        return self._decided(Case(transcript, prompt), ask)

    async def believes(
        self,
        statement: str,
        transcript: Transcript,
        ask: Ask,
        prompt: RolePrompt | None = None,
        *,
        side: Answer | None = None,
    ) -> Belief:
        """The judge's probability that a statement holds. Unreadable as in `decide`.

        A statement is put as a question with two answers, so every kind of judge can rate it. It
        may be in a model's words: the judge sees it as data. side: the answer that it supports;
        recorded, but not part of the prompt."""
        verdict = await self._decided(Case(transcript, prompt, statement, side), ask)
        span = verdict.bounds[0] if verdict.bounds else None
        return Belief(verdict.probs[0], verdict.judgements, span, verdict.doubts)

    async def _decided(self, case: Case, ask: Ask) -> Verdict:
        """Run `decide` and note the belief, or the fault, for the record."""
        ask = for_role(ask, "judge", "Judge", len(case.transcript.turns))
        notes = ask.notes if isinstance(ask, RecordingAsk) else []
        role = ask.part[0] if isinstance(ask, RecordingAsk) else ""
        name = getattr(self, "model", "") or self.name
        try:
            verdict = await self.decide(case, ask)
        except Unreadable as fault:
            notes.append(ParsedReply(role, name, case, None, fault))
            raise
        returned: object = verdict  # judges of users may return anything
        if not isinstance(returned, Verdict):
            raise TypeError(f"a judge returns a Verdict, and this one returned {returned!r:.80}")
        notes.append(ParsedReply(role, name, case, verdict))
        return verdict


class ParsedReply(NamedTuple):
    """A judge's reading of a case, as noted by a `RecordingAsk`."""

    role: str
    """The purpose of the judgement: `judge`, `rate`, …"""
    judge: str
    """Its model, or its name if it has several models."""
    case: Case
    verdict: Verdict | None
    """None if no reply could be read."""
    fault: Unreadable | None = None


@dataclass(frozen=True)
class ModelJudge(Parameters, Judge):
    """A judge of one model. Subclasses define the question and how the reply is read."""

    model: str
    temperature: float | None = 0.0
    reads_passage: bool = False
    both_orders: bool = False
    """Whether to ask a second time with labels, answers and speeches in the other order, and
    average, against position bias."""
    effort: Effort = ""
    persona: str = ""
    """A description of the judge, such as `You are a patient teacher of mathematics.`"""
    shots: tuple[Shot, ...] = ()
    """Examples that the judge sees before the case."""
    reason: Reason = "none"
    """Whether the judge thinks before it answers, in private tags or openly. No other role reads
    it."""
    reasoning_tokens: CountFromZero = 0
    """Added to max_tokens, for a model that reasons before it replies."""
    max_tokens: Count = 256
    """Token limit of the answer. A judge that reasons gets 1,024 more."""
    turn_tokens: Count = 512
    """Token limit of the judge's turns before it decides, such as a client's question."""

    kind: ClassVar[str] = ""
    """Name of the elicitation in reports."""

    @property
    def name(self) -> str:
        return " ".join([self.model, self.kind, *unusual(self)])

    def __post_init__(self) -> None:
        check_ranges(self)
        require_known("reason", self.reason, get_args(Reason))

    @property
    def base_agent(self) -> Agent:
        return Agent(
            self.model,
            temperature=self.temperature,
            max_tokens=self.turn_tokens,
            effort=self.effort,
            reason=self.reason,
            reasoning_tokens=self.reasoning_tokens,
            **self.parameters,
        )

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        visible, blind = case, False
        if case.transcript.question.passage and not self.reads_passage:
            visible, blind = case.without_passage(), True
        try:
            view = self.shown(visible, blind=blind)
            if not self.both_orders:
                return verdict_of([await self.elicit(view, ask)], case.transcript)
            from .exchange import exchanged

            # A statement has no labels to exchange: only its two options change places.
            other, order = (
                (visible, view.order[::-1]) if case.statement else (exchanged(visible), None)
            )
            replies = await parse_all(
                self.elicit(view, ask), self.elicit(self.shown(other, order, blind), ask)
            )
        except Unreadable as fault:
            fault.seat = fault.seat or case.judge_prompt.title
            raise
        orders = [
            elicitation.reversed() if index and not case.statement else elicitation
            for index, elicitation in replies.read.items()
        ]
        # Both orders count equally, even if more votes of one could be read.
        return verdict_of(orders, case.transcript, replies.doubts)

    def shown(self, case: Case, order: Order | None = None, blind: bool = False) -> "Shown":
        """The case as this judge reads it. order: None for the order of the options. blind: whether
        the passage is hidden from it."""
        question, prompt = case.transcript.question, case.judge_prompt
        options = case.options if case.statement else question
        order = range(len(options.answers)) if order is None else order
        preamble = self._preamble(prompt, question.graded, blind, bool(case.statement))
        examples = None
        # An example about the same question would reveal its answer.
        shots = self.shots and [s for s in self.shots if s.floor.question.text != question.text]
        if shots:
            examples = as_examples(shots, self.put, prompt.words, self.reads_passage)
        return Shown(case, order, prompt, options, _labels(options, order), *preamble, examples)

    @memoized
    def _preamble(
        self, prompt: RolePrompt, graded: bool, blind: bool, on_statement: bool
    ) -> tuple[Words, tuple[Words, ...]]:
        """The rules, and the instructions between the judge's role and the request to answer."""
        words = prompt.words
        details = [words.text("judge.blind")] if blind else []
        if on_statement:
            affirm, deny = Words(AFFIRM), Words(DENY)
            details.append(words.fill("judge.statement", affirm=affirm, deny=deny))
        return Words.joined(Words(self.persona), prompt.rules(graded)), tuple(details)

    def call(
        self,
        view: "Shown",
        task: str,
        way: str,
        form: ResponseFormat | None = None,
        top_logprobs: int = 0,
        cue: bool = False,
    ) -> Call:
        """The call that puts a case: question and rules, then transcript, then instructions.

        task: its name for programs that read prompts. way: the block of the prompt set with the
        format of the answer. cue: whether that block stands alone at the end, so that the reply
        continues it."""
        case, prompt = view.case, view.prompt
        # The wording depends on the question: a statement, the best answer, or the right answer.
        kind = "graded_" if case.transcript.question.graded else ""
        block = f"judge.{'statement_' if case.statement else kind}{way}"
        todo, form = self._todo(task, block, prompt, view.labels, view.details, form, cue)
        room = REASONING_ROOM if self.reason != "none" else 0
        return Call(
            Request(
                self.model,
                messages(
                    view.rules,
                    case.transcript,
                    todo,
                    prompt.prompts or default_prompts(),
                    statement=case.statement,
                    order=None if case.statement else view.order,
                    examples=view.examples,
                ),
                temperature=self.temperature,
                max_tokens=self.max_tokens + room + self.reasoning_tokens,
                response_format=form,
                top_logprobs=top_logprobs,
                effort=self.effort,
                **self.parameters,
            )
        )

    @memoized
    def _todo(
        self,
        task: str,
        block: str,
        prompt: RolePrompt,
        labels: tuple[str, ...],
        before: tuple[Words, ...],
        form: ResponseFormat | None,
        cue: bool,
    ) -> tuple[Instructions, ResponseFormat | None]:
        """The instructions, and the JSON form of the reply, if any."""
        words, details = prompt.words, [*before]
        request = words.fill(block, **self.ways(labels))
        marks: tuple[tuple[str, str], ...] = ()
        if self.reason != "none":
            details.append(words.text(f"judge.reason_{self.reason}{'_form' if form else ''}"))
            if self.reason == "private" and form is None:
                marks += (("private", "yes"),)
        if block.startswith("judge.statement_"):
            marks += (("options", "|".join(labels)),)
        if not cue:
            details.append(request)
        if form is not None:
            from ..prompts.forms import fields_of, with_reasoning

            if self.reason != "none":
                form = with_reasoning(form)
            details.append(words.fill("agent.form", fields=fields_of(form)))
        last = request if cue else NOTHING
        return Instructions(task, prompt.stance, lines(details), marks=marks, cue=last), form

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        """Values for the placeholders of the block with the answer format. labels: the labels of
        the options, in the order shown."""
        return {}

    @abstractmethod
    def put(self, question: Question, shot: Shot) -> str:
        """The reply in which this judge would state the probabilities of a shot."""

    @abstractmethod
    async def elicit(self, view: "Shown", ask: Ask) -> "Elicitation":
        """Ask in one order of presentation. One Judgement per reply, over the options in their
        original order. Unreadable if no reply can be read."""


class Elicitation(Struct, frozen=True):
    """A judge's replies to one case in one order of presentation."""

    judgements: tuple[Judgement, ...]
    """One per readable reply; at least one."""
    doubts: tuple[UnreadReply, ...] = ()
    """One per unread reply."""

    @property
    def probs(self) -> tuple[float, ...]:
        """The mean of the readable replies."""
        return average([judgement.probs for judgement in self.judgements])

    @property
    def spans(self) -> tuple[ProbabilityRange, ...]:
        """The mean over all replies, unread ones included."""
        return ranges_with_unread([*map(_spans, self.judgements)], len(self.doubts))

    def reversed(self) -> "Elicitation":
        """This elicitation with the answers in reverse order."""
        reordered = tuple(replace(one, probs=one.probs[::-1]) for one in self.judgements)
        return replace(self, judgements=reordered)


def _spans(judgement: Judgement) -> tuple[ProbabilityRange, ...]:
    """The possible probabilities of a judgement: mass outside the labels may belong to any."""
    mass = judgement.captured
    if mass >= MIN_CAPTURED_MASS:
        return tuple((p, p) for p in judgement.probs)
    return tuple((p * mass, p * mass + 1 - mass) for p in judgement.probs)


def ranges_with_unread(
    rows: Sequence[Sequence[ProbabilityRange]], unread: int
) -> tuple[ProbabilityRange, ...]:
    """The range of each answer's mean over these readings and `unread` unread replies."""
    total = len(rows) + unread
    ranges = mean_ranges(rows, [1 / total] * len(rows))
    return tuple((low, high + unread / total) for low, high in ranges)


def verdict_of(
    orders: Sequence[Elicitation], transcript: Transcript, unread: tuple[UnreadReply, ...] = ()
) -> Verdict:
    """The mean over one order of presentation or both. unread: an order without any reading."""
    if len(orders) == 1 and not unread and not orders[0].doubts:
        only = orders[0].judgements
        if len(only) == 1 and only[0].captured >= MIN_CAPTURED_MASS:
            return Verdict(only[0].probs, transcript, only)
    judgements = tuple([judgement for order in orders for judgement in order.judgements])
    probs = average([order.probs for order in orders])
    doubts = (*unread, *(doubt for order in orders for doubt in order.doubts))
    if not doubts and all([one.captured >= MIN_CAPTURED_MASS for one in judgements]):
        return Verdict(probs, transcript, judgements)
    bounds = ranges_with_unread([order.spans for order in orders], len(unread))
    return Verdict(probs, transcript, judgements, bounds=bounds, doubts=doubts)


class Shown(Struct, frozen=True):
    """A case in one order of presentation, with the further text that the judge reads."""

    case: Case
    order: Order
    prompt: RolePrompt
    options: Question
    labels: tuple[str, ...]
    """Labels of the options, in the order of presentation."""
    rules: Words
    details: tuple[Words, ...]
    """Instructions between the judge's role and the request to answer."""
    examples: Examples | None = None


@lru_cache(maxsize=1024)
def _labels(options: Question, order: Order) -> tuple[str, ...]:
    return tuple(options.answers[index].label for index in order)


def average(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The mean probability of each answer. One row per reading."""
    if len(rows) == 1:
        return rows[0]
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def as_probabilities(
    numbers: Sequence[float], reply: Reply, scale: float | None = None
) -> tuple[float, ...]:
    """Stated numbers as probabilities, scaled to sum to 1. scale: 100 for percentages, None for 100
    or 1. Unreadable if a number is negative, or if the sum is off by more than 2 in 100 or half a
    point per answer."""
    total, tolerance = sum(numbers), max(2, len(numbers) / 2) / 100
    for full in (100, 1) if scale is None else (scale,):
        if min(numbers) >= 0 and abs(total - full) <= full * tolerance + ROUNDING:
            return tuple([number / total for number in numbers])
    if min(numbers) < 0:
        raise unreadable(f"a probability of {min(numbers):g} is stated", reply, "sum")
    sign = " %" if scale else ""
    raise unreadable(f"the stated probabilities add up to {total:g}{sign}", reply, "sum")
