"""Who said what, in which order, and what the judge made of it."""

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
"""What a protocol measured beside its verdict, by name."""
SideFinding: TypeAlias = Literal["unchecked", "on side", "off side", "candid", "unclear"]
"""What a reader found that a speech argues for: its side, or not; or its side, while it says itself
that this answer is wrong; or the reader was unreadable."""


class ToolUse(Struct, frozen=True, gc=False):
    """One use of a tool inside a turn. The result is ours: no model wrote it."""

    tool: str
    """`none` where the model asked for a tool that it does not have."""
    arguments: str
    """What was computed, as the model wrote it; empty if nothing could be."""
    result: str
    """The value, or a text that starts with `error:`."""
    cost: float = 0.0
    """What it took of the budget of the speaker's side."""

    @property
    def failed(self) -> bool:
        return self.result.startswith("error:")


class Quote(Struct, frozen=True, gc=False):
    text: str
    """As the speaker wrote it between the tags."""
    verified: bool | None
    """Whether it stands in the passage; None: too long to be looked up."""


class Turn(Struct, frozen=True, cache_hash=True):
    """What one seat said at one moment."""

    speaker: str
    """The seat as everyone calls it: `Debater A`, `Consultant`, `Client`."""
    text: str
    """What the others read: hidden reasoning removed, forged tags escaped, word limit applied."""
    side: Answer | None = None
    """The answer argued for; None for a speaker who takes no side."""
    call: str = ""
    """Address of the call behind this turn: the full prompt is in the store."""
    tools: tuple[ToolUse, ...] = ()
    outcome: Outcome = "ok"
    forged: int = 0
    """How many reserved tags the speaker tried to write."""
    cut: bool = False
    """Whether the word limit cut the speech."""
    quotes: tuple[Quote, ...] = ()
    """The quotes in the text that were looked up in the passage."""
    conceded: bool = False
    """Whether the speaker gave up its side."""
    check: SideFinding = "unchecked"
    retries: int = 0
    """How many drafts a side check sent back before this speech."""
    reasoning: str = ""
    """What the speaker wrote down before it filled in the form that this turn was made of."""
    aloud: bool = False
    """Whether the others read the reasoning; if not, it is for the record alone."""
    at_once: bool = False
    """Whether it was made at the same time as turns beside it, which the speaker did not hear."""
    drafts: tuple["Turn", ...] = ()
    """Other drafts of this speech, which nobody heard."""
    doubts: tuple[UnreadReply, ...] = ()
    """Unread replies that decided which draft was spoken, or what was said next."""
    hidden: int = 0
    """How many characters that nobody sees the speaker wrote; they are gone from the text."""
    unknown_stop: bool = False
    """Whether the reply ended for a reason that is unknown here."""
    musing: bool = False
    """Whether the text begins as models begin their thoughts."""
    malformed: int = 0
    """How many quotes, claims and marks it wrote that no program looked at; they are escaped."""

    @property
    def silent(self) -> bool:
        """Whether nothing was said: the speaker refused, or all that it wrote was private."""
        return self.outcome == "refused" or not self.text


class Transcript(Struct, frozen=True, cache_hash=True):
    """A question and the turns so far. Grows by `then`; is never changed in place."""

    question: Question
    turns: tuple[Turn, ...] = ()

    def then(self, *turns: Turn) -> "Transcript":
        """This transcript with more turns at its end. TypeError for what is no turn."""
        given: tuple[object, ...] = turns
        for each in given:
            if not isinstance(each, Turn):
                why = ": write await before what makes the turn" if isawaitable(each) else ""
                raise TypeError(f"a transcript consists of turns, not of {each!r:.60}{why}")
        return Transcript(self.question, self.turns + turns)

    @property
    def of_sides(self) -> "Transcript":
        """Without what was said for no side."""
        return Transcript(self.question, tuple(turn for turn in self.turns if turn.side))


class Judgement(Struct, frozen=True):
    """One reading of one reply of a judge."""

    probs: tuple[float, ...]
    """P(answer is true) for each of question.answers, in their order; sums to 1."""
    call: str = ""
    text: str = ""
    """The judge's words, as it wrote them."""
    captured: float = 1.0
    """For logprobs: the probability mass that the answer labels had, in (0, 1]."""
    unknown_stop: bool = False
    """Whether the reply ended for a reason that is unknown here."""

    @classmethod
    def read(cls, reply: Reply, probs: tuple[float, ...], captured: float = 1.0) -> "Judgement":
        """The probabilities read in a reply."""
        return cls(probs, reply.call, reply.text, captured, reply.unknown_stop)


class Verdict(Struct, frozen=True):
    """What a protocol ends with."""

    probs: tuple[float, ...]
    """P(answer is true) for each of question.answers, in their order; sums to 1."""
    transcript: Transcript
    judgements: tuple[Judgement, ...] = ()
    """What `probs` was made of; empty when no judge was asked."""
    measures: NamedMeasures = ()
    """What else the protocol measured, by name: the answer chosen freely, a market's loss."""
    redraws: tuple[tuple[float, ...], ...] = ()
    """The verdicts on this transcript of which `probs` is the mean, where it was judged again."""
    bounds: tuple[ProbabilityRange, ...] = ()
    """For each answer the least and the most that its probability would be, whatever the unread
    replies had said; empty where all were read."""
    doubts: tuple[UnreadReply, ...] = ()
    """The unread replies."""
    unheard: tuple[Turn, ...] = ()
    """Turns that were made, and left out by a selection."""

    @classmethod
    def unread(cls, question: Question, side: Answer, doubt: UnreadReply) -> "Verdict":
        """The verdict of a world in which nothing could be read: its bounds are [0, 1], and it
        counts against `side`."""
        answers = len(question.answers)
        probs = shifted((1 / answers,) * answers, question.place(side), 0.0)
        return cls(probs, Transcript(question), bounds=(ANYTHING,) * answers, doubts=(doubt,))

    @property
    def spans(self) -> tuple[ProbabilityRange, ...]:
        """The bounds; those of a verdict without unread replies are its probabilities."""
        return self.bounds or tuple((p, p) for p in self.probs)

    def settled(self, side: Answer) -> "Verdict":
        """The verdict of the world in which the agent argues for `side`: what could not be read
        counts against `side`, as oversight.protocols.doubts says."""
        verdict = self
        if self.bounds:
            place = self.transcript.question.place(side)
            verdict = replace(self, probs=shifted(self.probs, place, self.bounds[place][0]))
        # A speech that might have been another one is another transcript, on which nobody decided;
        # so is one that a selection left out because nothing was said.
        turns = self.transcript.turns + self.unheard
        if not any([t.doubts or t.outcome == "refused" or not t.text for t in turns]):
            return verdict
        doubts = dict.fromkeys((*self.doubts, *(each for turn in turns for each in turn.doubts)))
        anything = (ANYTHING,) * len(self.probs)
        return replace(verdict, bounds=anything, doubts=tuple(doubts))

    def turns(self) -> Iterator[Turn]:
        """All turns that were made, heard or not."""
        for turn in (*self.transcript.turns, *self.unheard):
            yield turn
            yield from turn.drafts


NOT_RUN = "not run"
"""Kind of a Failure that is none."""


class Failure(Struct, frozen=True, gc=False):
    """Why a cell has no verdict. A value: paid neighbours are not taken down with it."""

    kind: str
    """`unreadable`, `declined`, the name of the provider's fault, or NOT_RUN: no fault, but the
    design left the world out."""
    message: str
    raw: str = ""
    """The text that could not be read, as the model wrote it."""
    call: str = ""
    """Address of the call at fault, where there is one."""
    seat: str = ""
    """Title of the seat that gave the reply at fault, where there is one."""
    cause: str = ""
    """Why it could not be read, as `oversight.protocols.errors.Cause` names it; else empty."""

    @property
    def unread(self) -> bool:
        """Whether the verdict rests on a reply that could not be read."""
        return self.kind in ("unreadable", "declined")
