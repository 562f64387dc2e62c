"""The judge interface, and the judge of one model: hides the passage, presents, averages."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from ...cache.call import Ask, Call, Effort, RecordingAsk, Request, ResponseFormat, seated
from ...cache.memo import memoized
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
from ..prompts.prompt_set import default_prompts
from ..prompts.render import Examples, Instructions, messages
from ..prompts.words import NOTHING, Words, lines
from ..question import Answer, Question
from ..settings import (
    REASONING_ROOM,
    Parameters,
    Reason,
    check_numbers,
    ranged,
    require_known,
    unusual,
)
from ..transcript import Judgement, Transcript, Verdict
from .case import AFFIRM, DENY, Belief, Case
from .shots import Shot, as_examples

Order = Sequence[int]
"""Places of the options in the order in which a judge is shown them."""


class Judge(ABC):
    """Interface of a judge: turns a transcript into a probability for each answer."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports."""

    @property
    @abstractmethod
    def reads_passage(self) -> bool:
        """Whether the judge may read the question's passage; if not, the agents know more than the
        judge."""

    @property
    @abstractmethod
    def base_agent(self) -> Agent:
        """The judge's model as a plain agent, for what a protocol has it say before it decides."""

    @abstractmethod
    async def decide(self, case: Case, ask: Ask) -> Verdict:
        """A probability for each option of a case. Unreadable if a reply that it rests on is."""

    def judge(
        self, transcript: Transcript, ask: Ask, prompt: RolePrompt | None = None
    ) -> Coroutine[Any, Any, Verdict]:
        """The verdict on a transcript: which answer is right. Unreadable as in `decide`.

        prompt: the rules, which the speakers read too, and the role of the judge.
        """
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
        """The judge's probability, given the transcript, of a statement. Unreadable as in `decide`.

        A statement is a question with two answers, so every kind of judge elicits it in its own
        way. It may be in anybody's words: the judge is shown it as data. side: the answer that it
        speaks for, which is recorded; no prompt says it.
        """
        verdict = await self._decided(Case(transcript, prompt, statement, side), ask)
        span = verdict.bounds[0] if verdict.bounds else None
        return Belief(verdict.probs[0], verdict.judgements, span, verdict.doubts)

    async def _decided(self, case: Case, ask: Ask) -> Verdict:
        """`decide`; what the judge believes, or why it cannot be read, is noted for who records."""
        ask = seated(ask, "judge", "Judge", len(case.transcript.turns))
        notes = ask.notes if isinstance(ask, RecordingAsk) else []
        role = ask.part[0] if isinstance(ask, RecordingAsk) else ""
        name = getattr(self, "model", "") or self.name
        try:
            verdict = await self.decide(case, ask)
        except Unreadable as fault:
            notes.append(ParsedReply(role, name, case, None, fault))
            raise
        said: object = verdict  # by anybody's judge
        if not isinstance(said, Verdict):
            raise TypeError(f"a verdict is expected, and the judge gave {said!r:.80}")
        notes.append(ParsedReply(role, name, case, verdict))
        return verdict


class ParsedReply(NamedTuple):
    """What a judge made of a case, as noted by a `RecordingAsk`."""

    role: str
    """What the judge was asked for: `judge`, `rate`, …"""
    judge: str
    """Its model, or its name where it has several."""
    case: Case
    verdict: Verdict | None
    """None if nothing could be read."""
    fault: Unreadable | None = None


@dataclass(frozen=True)
class ModelJudge(Parameters, Judge):
    """One model, asked in one way: a subclass says what is asked and how the reply is read."""

    model: str
    temperature: float | None = 0.0
    reads_passage: bool = False
    both_orders: bool = False
    """Whether to ask a second time with labels, answers and speeches in the other order, and
    average, against position bias."""
    effort: Effort = ""
    persona: str = ""
    """Who the judge is told to be, such as `You are a patient teacher of mathematics.`"""
    shots: tuple[Shot, ...] = ()
    """Examples that the judge is shown before the case at hand."""
    reason: Reason = "none"
    """Whether the judge thinks before it answers: in private tags, or openly. The reasoning is
    recorded with the judgement; no other seat reads it either way."""
    reasoning_tokens: int = ranged(0, least=0)
    """Added to max_tokens, for a model that reasons before it replies."""
    max_tokens: int = ranged(256)
    """Token limit of the answer; 1,024 more for a judge that is asked to reason."""
    turn_tokens: int = ranged(512)
    """Token limit of what its model says or lists before it decides: a client's question,
    criteria. A weak model that repeats itself fills whatever it is given."""

    kind: ClassVar[str] = ""
    """Name of the elicitation in reports."""

    @property
    def name(self) -> str:
        return " ".join([self.model, self.kind, *unusual(self)])

    def __post_init__(self) -> None:
        check_numbers(self)
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
        seen, blind = case, False
        if case.transcript.question.passage and not self.reads_passage:
            seen, blind = case.without_passage(), True
        try:
            shown = self.shown(seen, blind=blind)
            if not self.both_orders:
                return verdict_of([await self.elicit(shown, ask)], case.transcript)
            from .exchange import exchanged

            # A statement has no labels to exchange: only its two options change places.
            other, again = (seen, shown.order[::-1]) if case.statement else (exchanged(seen), None)
            asked = await parse_all(
                self.elicit(shown, ask), self.elicit(self.shown(other, again, blind), ask)
            )
        except Unreadable as fault:
            fault.seat = fault.seat or case.judge_prompt.title
            raise
        found = [
            each.reversed() if place and not case.statement else each
            for place, each in asked.read.items()
        ]
        # Both orders count equally, even if more votes of one could be read.
        return verdict_of(found, case.transcript, asked.doubts)

    def shown(self, case: Case, order: Order | None = None, blind: bool = False) -> "Shown":
        """The case as this judge reads it. order: None for that of the options; blind: the passage
        was hidden from it."""
        question = case.transcript.question
        prompt, options = (
            case.prompt or case.judge_prompt,
            case.options if case.statement else question,
        )
        order = range(len(options.answers)) if order is None else order
        told = self._told(prompt, question.graded, blind, bool(case.statement))
        examples = None
        # An example about the question at hand would tell its answer.
        if shots := [each for each in self.shots if each.floor.question.text != question.text]:
            examples = as_examples(shots, self.put, prompt.words, self.reads_passage)
        return Shown(case, order, prompt, options, _labels(options, order), *told, examples)

    @memoized
    def _told(
        self, prompt: RolePrompt, graded: bool, blind: bool, stated: bool
    ) -> tuple[Words, tuple[Words, ...]]:
        """The rules, and what is told between the judge's role and the request for an answer."""
        words = prompt.words
        told = [words.text("judge.blind")] if blind else []
        if stated:
            affirm, deny = Words(AFFIRM), Words(DENY)
            told.append(words.fill("judge.statement", affirm=affirm, deny=deny))
        return Words.joined(Words(self.persona), prompt.rules(graded)), tuple(told)

    def call(
        self,
        shown: "Shown",
        task: str,
        way: str,
        form: ResponseFormat | None = None,
        top_logprobs: int = 0,
        cue: bool = False,
    ) -> Call:
        """The call that puts a case: question and rules, then the transcript, then the
        instructions.

        task: its name for programs that read prompts; way: the block of the prompt set that says
        how to answer; cue: whether that stands last by itself, for a reply that continues it."""
        case, prompt = shown.case, shown.prompt
        # In which words it is asked: about a statement, which answer is right, or which is best.
        kind = "graded_" if case.transcript.question.graded else ""
        kind = "statement_" if case.statement else kind
        todo, form = self._todo(
            task, f"judge.{kind}{way}", prompt, shown.labels, shown.told, form, cue
        )
        room = REASONING_ROOM if self.reason != "none" else 0
        return Call(
            Request(
                self.model,
                messages(
                    shown.rules,
                    case.transcript,
                    todo,
                    prompt.prompts or default_prompts(),
                    statement=case.statement,
                    order=None if case.statement else shown.order,
                    examples=shown.examples,
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
        """The instructions, and the form in which they are to be followed, if there is one."""
        words, told = prompt.words, [*before]
        asked = words.fill(block, **self.ways(labels))
        marks: tuple[tuple[str, str], ...] = ()
        if self.reason != "none":
            told.append(words.text(f"judge.reason_{self.reason}{'_form' if form else ''}"))
            if self.reason == "private" and form is None:
                marks += (("private", "yes"),)
        if block.startswith("judge.statement_"):
            marks += (("options", "|".join(labels)),)
        if not cue:
            told.append(asked)
        if form is not None:
            from ..prompts.forms import fields_of, with_reasoning

            if self.reason != "none":
                form = with_reasoning(form)
            told.append(words.fill("agent.form", fields=fields_of(form)))
        last = asked if cue else NOTHING
        return Instructions(task, prompt.stance, lines(told), marks=marks, cue=last), form

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        """What the placeholders of the block that says how to answer stand for. labels: of the
        options, as they are shown."""
        return {}

    @abstractmethod
    def put(self, question: Question, shot: Shot) -> str:
        """The reply with which this judge would state the probabilities of a shot."""

    @abstractmethod
    async def elicit(self, shown: "Shown", ask: Ask) -> "Elicitation":
        """Ask in one order of presentation; one Judgement for each reply, over the options in their
        own order. Unreadable if there is nothing to read."""


class Elicitation(Struct, frozen=True):
    """What a judge replied to one case in one order of presentation."""

    judgements: tuple[Judgement, ...]
    """One for each reply that could be read; at least one."""
    doubts: tuple[UnreadReply, ...] = ()
    """One for each reply that could not be read."""

    @property
    def probs(self) -> tuple[float, ...]:
        """The mean of what could be read."""
        return average([each.probs for each in self.judgements])

    @property
    def spans(self) -> tuple[ProbabilityRange, ...]:
        """The mean over all replies, those that could not be read included."""
        return ranges_with_unread([*map(_spans, self.judgements)], len(self.doubts))

    def reversed(self) -> "Elicitation":
        """This elicitation with the answers in reverse order."""
        turned = tuple(replace(each, probs=each.probs[::-1]) for each in self.judgements)
        return replace(self, judgements=turned)


def _spans(judgement: Judgement) -> tuple[ProbabilityRange, ...]:
    """What a judgement may have meant: mass that no label captured may belong to any."""
    c = judgement.captured
    if c >= MIN_CAPTURED_MASS:
        return tuple((p, p) for p in judgement.probs)
    return tuple((p * c, p * c + 1 - c) for p in judgement.probs)


def ranges_with_unread(
    rows: Sequence[Sequence[ProbabilityRange]], unread: int
) -> tuple[ProbabilityRange, ...]:
    """The span of each answer's mean over these readings and so many that could not be read."""
    total = len(rows) + unread
    known = mean_ranges(rows, [1 / total] * len(rows))
    return tuple((low, high + unread / total) for low, high in known)


def verdict_of(
    orders: Sequence[Elicitation], transcript: Transcript, unread: tuple[UnreadReply, ...] = ()
) -> Verdict:
    """The mean of what was elicited in one order or both. unread: of an order without reading."""
    if len(orders) == 1 and not unread and not orders[0].doubts:
        only = orders[0].judgements
        if len(only) == 1 and only[0].captured >= MIN_CAPTURED_MASS:
            return Verdict(only[0].probs, transcript, only)
    judgements = tuple([judgement for each in orders for judgement in each.judgements])
    probs = average([each.probs for each in orders])
    doubts = (*unread, *(doubt for each in orders for doubt in each.doubts))
    if not doubts and all([each.captured >= MIN_CAPTURED_MASS for each in judgements]):
        return Verdict(probs, transcript, judgements)
    bounds = ranges_with_unread([each.spans for each in orders], len(unread))
    return Verdict(probs, transcript, judgements, bounds=bounds, doubts=doubts)


class Shown(Struct, frozen=True):
    """A case in one order of presentation, with what the judge reads beside it."""

    case: Case
    order: Order
    prompt: RolePrompt
    options: Question
    labels: tuple[str, ...]
    """Of the options, in the order of presentation."""
    rules: Words
    told: tuple[Words, ...]
    """Instructions between the judge's role and the request for an answer."""
    examples: Examples | None = None


@lru_cache(maxsize=1024)
def _labels(options: Question, order: Order) -> tuple[str, ...]:
    return tuple(options.answers[place].label for place in order)


def average(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The mean probability of each answer; each row is one reading."""
    if len(rows) == 1:
        return rows[0]
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def as_probabilities(
    stated: Sequence[float], reply: Reply, whole: float | None = None
) -> tuple[float, ...]:
    """Stated numbers as probabilities, without the rounding of their sum.

    whole: 100 for percentages, None for 100 or 1. Unreadable if one is negative, or if they add up
    to anything else: by more than 2 in 100, or half a point for each answer.
    """
    total, tolerance = sum(stated), max(2, len(stated) / 2) / 100
    for full in (100, 1) if whole is None else (whole,):
        if min(stated) >= 0 and abs(total - full) <= full * tolerance + ROUNDING:
            return tuple([number / total for number in stated])
    if min(stated) < 0:
        raise unreadable(f"a probability of {min(stated):g} is stated", reply, "sum")
    sign = " %" if whole else ""
    raise unreadable(f"the stated probabilities add up to {total:g}{sign}", reply, "sum")
