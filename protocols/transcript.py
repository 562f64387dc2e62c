"""Transcripts, verdicts and failures."""

from collections.abc import Iterator
from inspect import isawaitable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..cache.reply import Outcome, Reply
from .doubts import ANYTHING, ProbabilityRange, UnreadReply, shifted
from .question import Answer, Question

Scalar: TypeAlias = str | int | float | bool
NamedMeasures: TypeAlias = tuple[tuple[str, Scalar], ...]
"""Further measurements of a protocol, by name."""
SideFinding: TypeAlias = Literal["unchecked", "on side", "off side", "candid", "unclear"]
"""Result of a side check: `on side`, `off side`, `candid` (on side, but it says that its answer is
wrong), `unclear` (the checker's reply was unread), or `unchecked`."""


class ToolUse(Struct, frozen=True, gc=False):
    """One use of a tool inside a turn. The result comes from a program, never from a model."""

    tool: str
    """Name of the tool; `none` if the model asked for a tool that it does not have."""
    arguments: str
    """The computation, as the model wrote it. Empty if nothing could be computed."""
    result: str
    """The value, or a text that starts with `error:`."""
    cost: float = 0.0
    """Cost charged to the budget of the speaker's side."""

    @property
    def failed(self) -> bool:
        return self.result.startswith("error:")


class Quote(Struct, frozen=True, gc=False):
    text: str
    """As the speaker wrote it between the tags."""
    verified: bool | None
    """Whether it occurs in the passage. None: too long to be looked up."""


class Turn(Struct, frozen=True, cache_hash=True):
    """One contribution of one speaker."""

    speaker: str
    """Public name of the speaker: `Debater A`, `Consultant`, `Client`."""
    text: str
    """The text that others read: reasoning removed, reserved tags escaped, word limit applied."""
    side: Answer | None = None
    """The answer argued for. None for a speaker without a side."""
    call: str = ""
    """Address of the call behind this turn: the full prompt is in the store."""
    tools: tuple[ToolUse, ...] = ()
    outcome: Outcome = "ok"
    forged: int = 0
    """Number of reserved tags that the speaker tried to write."""
    cut: bool = False
    """Whether the word limit cut the speech."""
    quotes: tuple[Quote, ...] = ()
    """The quotes in the text that were looked up in the passage."""
    conceded: bool = False
    """Whether the speaker gave up its side."""
    check: SideFinding = "unchecked"
    retries: int = 0
    """Number of drafts that a side check rejected before this speech."""
    reasoning: str = ""
    """The speaker's reasoning before it filled in the form that this turn was made from."""
    aloud: bool = False
    """Whether others read the reasoning. Otherwise it is only recorded."""
    at_once: bool = False
    """Whether it was made concurrently with adjacent turns, which the speaker did not hear."""
    drafts: tuple["Turn", ...] = ()
    """Other drafts of this speech, which nobody heard."""
    doubts: tuple[UnreadReply, ...] = ()
    """Unread replies that decided which draft was spoken, or what was said next."""
    hidden: int = 0
    """Number of invisible characters that the speaker wrote. They are removed from the text."""
    unknown_stop: bool = False
    """Whether the reply ended for an unknown reason."""
    musing: bool = False
    """Whether the text begins the way models begin their reasoning."""
    malformed: int = 0
    """Number of quotes, claims and marks that no program checked. They are escaped."""

    @property
    def silent(self) -> bool:
        """Whether the turn says nothing: a refusal, or only private text."""
        return self.outcome == "refused" or not self.text


class Transcript(Struct, frozen=True, cache_hash=True):
    """A question and the turns so far. `then` returns a longer transcript."""

    question: Question
    turns: tuple[Turn, ...] = ()

    def then(self, *turns: Turn) -> "Transcript":
        """This transcript with more turns at its end. TypeError for other objects."""
        values: tuple[object, ...] = turns
        for value in values:
            if not isinstance(value, Turn):
                why = ": write await before the call" if isawaitable(value) else ""
                raise TypeError(f"a transcript consists of turns, not of {value!r:.60}{why}")
        return Transcript(self.question, self.turns + turns)

    @property
    def of_sides(self) -> "Transcript":
        """The transcript without the turns of speakers without a side."""
        return Transcript(self.question, tuple(turn for turn in self.turns if turn.side))


class Judgement(Struct, frozen=True):
    """One parsed reply of a judge."""

    probs: tuple[float, ...]
    """P(answer is true) for each of question.answers, in their order; sums to 1."""
    call: str = ""
    text: str = ""
    """The judge's words, as it wrote them."""
    captured: float = 1.0
    """For logprobs: the probability mass of the answer labels, in (0, 1]."""
    unknown_stop: bool = False
    """Whether the reply ended for an unknown reason."""

    @classmethod
    def read(cls, reply: Reply, probs: tuple[float, ...], captured: float = 1.0) -> "Judgement":
        """A judgement with the probabilities parsed from a reply."""
        return cls(probs, reply.call, reply.text, captured, reply.unknown_stop)


class Verdict(Struct, frozen=True):
    """The outcome of a protocol in one world."""

    probs: tuple[float, ...]
    """P(answer is true) for each of question.answers, in their order; sums to 1."""
    transcript: Transcript
    judgements: tuple[Judgement, ...] = ()
    """The judgements that `probs` combines. Empty if no judge was asked."""
    measures: NamedMeasures = ()
    """Further measurements, by name: the answer chosen freely, a market's loss."""
    redraws: tuple[tuple[float, ...], ...] = ()
    """The single verdicts whose mean is `probs`, if the transcript was judged several times."""
    bounds: tuple[ProbabilityRange, ...] = ()
    """Per answer the lowest and highest probability for all possible readings of unread replies.
    Empty if every reply was read."""
    doubts: tuple[UnreadReply, ...] = ()
    """The unread replies."""
    unheard: tuple[Turn, ...] = ()
    """Turns that a selection left out."""

    @classmethod
    def unread(cls, question: Question, side: Answer, doubt: UnreadReply) -> "Verdict":
        """The verdict of a world without readable replies: bounds [0, 1], against `side`."""
        answers = len(question.answers)
        probs = shifted((1 / answers,) * answers, question.place(side), 0.0)
        return cls(probs, Transcript(question), bounds=(ANYTHING,) * answers, doubts=(doubt,))

    @property
    def spans(self) -> tuple[ProbabilityRange, ...]:
        """The bounds. Without unread replies these are the probabilities."""
        return self.bounds or tuple((p, p) for p in self.probs)

    @property
    def unread_replies(self) -> tuple[UnreadReply, ...]:
        """The unread replies; a `partial` one where only mass of labels is unread."""
        return self.doubts or (UnreadReply("Judge", "partial"),) * bool(self.bounds)

    def settled(self, side: Answer) -> "Verdict":
        """The verdict of the world in which the agent argues for `side`: unread replies count
        against `side`, as described in oversight.protocols.doubts."""
        verdict = self
        if self.bounds:
            index = self.transcript.question.place(side)
            verdict = replace(self, probs=shifted(self.probs, index, self.bounds[index][0]))
        # An unread or silent speech could have been another one, which would make another
        # transcript, and nobody judged that. The same holds for turns that a selection left out.
        turns = self.transcript.turns + self.unheard
        if not any([t.doubts or t.outcome == "refused" or not t.text for t in turns]):
            return verdict
        doubts = dict.fromkeys((*self.doubts, *(doubt for turn in turns for doubt in turn.doubts)))
        anything = (ANYTHING,) * len(self.probs)
        return replace(verdict, bounds=anything, doubts=tuple(doubts))

    def turns(self) -> Iterator[Turn]:
        """All turns, including those that a selection left out."""
        for turn in (*self.transcript.turns, *self.unheard):
            yield turn
            yield from turn.drafts


NOT_RUN = "not run"
"""Kind of a Failure that stands for a world left out on purpose."""


class Failure(Struct, frozen=True, gc=False):
    """Why a cell has no verdict. It is a value, so that other cells keep their paid replies."""

    kind: str
    """`unreadable`, `declined`, the name of the provider's fault, or NOT_RUN for a world that the
    design left out."""
    message: str
    raw: str = ""
    """The text that could not be read, as the model wrote it."""
    call: str = ""
    """Address of the call at fault, if any."""
    seat: str = ""
    """Title of the role that gave the reply at fault, if any."""
    cause: str = ""
    """Why it could not be read (`oversight.protocols.errors.Cause`). Otherwise empty."""

    @property
    def unread(self) -> bool:
        """Whether a reply that the verdict needs could not be read."""
        return self.kind in ("unreadable", "declined")
