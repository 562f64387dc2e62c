"""Agents: frozen settings that compose a Call from a transcript and a side, and speak a Turn."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, get_args

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from ...cache.call import Ask, Call, Effort, Request, ResponseFormat, seated
from ...cache.memo import memoized
from ...cache.reply import Reply
from ...cache.thoughts import looks_like_thought
from ..by_name import LazyRegistry
from ..prompts.prompt_set import PromptSet, default_prompts, for_side
from ..prompts.render import Instructions, messages
from ..prompts.words import Words, as_words, lines
from ..question import Answer
from ..settings import (
    REASONING_ROOM,
    Parameters,
    Reason,
    check_numbers,
    ranged,
    require_known,
    unusual,
)
from ..tags import Shown, escape_tags, find_tags, shown, without_thoughts
from ..transcript import ToolUse, Transcript, Turn

if TYPE_CHECKING:
    from .tool import Tool

    Toolbox: TypeAlias = Mapping[str, Tool]
else:
    Toolbox = Mapping

TOOLS: "LazyRegistry[Tool]" = LazyRegistry(
    "agents.tool:Tool",
    {
        "calculator": "agents.calculator:CALCULATOR",
        "query": "agents.query:QUERY",
        "python": "agents.python:PYTHON",
    },
)
"""The built-in tools by name."""

PRIVATE, SPEECH = "<private>", "<speech>"
"""Tags that a prompt may ask for: around what nobody else reads, and around the speech."""

_CONCESSION = "i concede"


class Brief(Struct, frozen=True, cache_hash=True):
    """What a seat reads beside the question and the transcript."""

    title: str
    """What the seat is called: `Debater`. A seat with a side is called `Debater A`."""
    task: Words
    """What goes on: the rules, which everybody reads in the same words."""
    stance: Words
    """What to do now. {label} stands for the answer to argue for."""
    reads_passage: bool = True
    act: str = "speak"
    """The seat's task as programs read it in the prompt: `speak` argues, `ask` asks, and so on."""
    judge_reads: bool | None = None
    """What the prompt says about whether the judge reads the passage; None: nothing."""
    judging: Words | None = None
    """The stance of the judge who will hear this seat, for a judge that picks among its drafts."""
    judge_hears_sides: bool = False
    """Whether that judge hears speakers with a side alone, and so no prices of a market."""
    prompts: PromptSet | None = None
    """Source of the words that any seat may need; None: the default set."""

    def __post_init__(self) -> None:
        # A protocol of one's own may be older than the type; what it says here is its author's.
        for name in ("task", "stance"):
            if not isinstance(text := getattr(self, name), Words):
                force_setattr(self, name, as_words(text))

    @property
    def words(self) -> PromptSet:
        return self.prompts or default_prompts()

    def rules(self, graded: bool) -> Words:
        """The task, and what `right` means where answers differ in degree."""
        if not graded:
            return self.task
        return Words.joined(self.task, self.words.text("agent.graded"))

    def also_told(self, more: Words, by: str = " ") -> "Brief":
        """The brief with more said at the end of its stance."""
        return structs.replace(self, stance=Words.joined(self.stance, more, by=by))


ADVOCATE = Brief(
    "Advocate",
    default_prompts().text("propaganda.rules"),
    default_prompts().fill("propaganda.advocate"),
)


class Speaker(ABC):
    """Interface of a speaker: whatever can take a seat in a protocol."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports: the model, and settings that differ from the defaults."""

    @property
    @abstractmethod
    def base_agent(self) -> "Agent":
        """The agent without its wrappers, which answers what is not a speech."""

    @abstractmethod
    async def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, brief: Brief = ADVOCATE
    ) -> Turn:
        """One turn on this transcript, for `side` or for no side."""

    def share(self, parts: int) -> Self:
        """Who speaks in one of so many lines of talk that do not hear one another: with its part of
        what may be spent. A speaker that spends nothing is itself."""
        return self


@dataclass(frozen=True)
class Agent(Parameters, Speaker):
    """A model with settings."""

    toolbox: ClassVar[Toolbox] = TOOLS
    """The tools that there are, by name; an agent of one's own may have others."""

    model: str
    temperature: float | None = 0.4
    words: int = ranged(150)
    """Word limit of a speech, stated in the prompt and enforced by a marked cut; also a limit of 8
    columns per word."""
    max_tokens: int = ranged(1024)
    tools: tuple[str, ...] = ()
    """Names from the toolbox."""
    scratchpad: bool = False
    """Whether the agent may think in private before it speaks."""
    quotes: bool = False
    """Whether its quotes are checked against the passage, and shown with the result."""
    may_concede: bool = False
    """Whether the prompt says how to give up a side. A concession counts in either case."""
    effort: Effort = ""
    reason: Reason = "none"
    """Whether the agent reasons before it fills in a form, and whether others read that."""
    reasoning_tokens: int = ranged(0, least=0)
    """Added to max_tokens, for a model that reasons before it replies."""
    claims: tuple[str, ...] = ()
    """Names of the tools by which claims in its speeches are checked: `calculator`, `query`."""
    budget: float | None = ranged(None, least=0)
    """What its side may spend on tools and checked claims in a world, drafts included; None: no
    limit. Drafts, and speeches that do not hear one another, have equal parts of it."""

    def __post_init__(self) -> None:
        if self.tools or self.claims:
            from .tool import CHECKERS, require_tool

            for tool in (*self.tools, *self.claims):
                require_tool(tool, self.toolbox)
            for tool in self.claims:
                require_known("claims", tool, CHECKERS)
        check_numbers(self)
        require_known("reason", self.reason, get_args(Reason))

    @property
    def name(self) -> str:
        return " + ".join([self.model, *unusual(self)])

    @property
    def base_agent(self) -> "Agent":
        return self

    def share(self, parts: int) -> Self:
        if self.budget is None or parts == 1:
            return self
        return replace(self, budget=self.budget / parts)

    def compose(
        self,
        transcript: Transcript,
        side: Answer | None,
        brief: Brief,
        *,
        form: ResponseFormat | None = None,
    ) -> Call:
        """The call behind a speech, or behind a filled-in form where one is given."""
        if not brief.reads_passage:
            transcript = structs.replace(transcript, question=transcript.question.without_passage())
        room = self.reasoning_tokens
        if form is None:
            todo = self._to_speak(side, brief, bool(transcript.question.passage))
        else:
            todo = self._to_fill_in(form, side, brief)
            if self.reason != "none":
                from ..prompts.forms import with_reasoning

                form, room = with_reasoning(form), room + REASONING_ROOM
        return Call(
            Request(
                self.model,
                messages(
                    brief.rules(transcript.question.graded),
                    transcript,
                    todo,
                    brief.prompts or default_prompts(),
                ),
                temperature=self.temperature,
                max_tokens=self.max_tokens + room,
                tools=tuple([self.toolbox[tool].spec for tool in self.tools])
                if self.tools and form is None
                else (),
                response_format=form,
                effort=self.effort,
                **self.parameters,
            )
        )

    @memoized
    def _to_speak(self, side: Answer | None, brief: Brief, passage: bool) -> Instructions:
        """The instructions for a speech, whatever was said before. passage: whether there is one
        to read."""
        stance = _stance(side, brief)
        marks: tuple[tuple[str, str | int], ...] = (("words", self.words),)
        if self.scratchpad or PRIVATE in stance:
            marks += (("private", "yes"),)
        told = lines(self._told(side, brief, passage))
        return Instructions(brief.act, stance, told, side.label if side else "", marks)

    @memoized
    def _to_fill_in(self, form: ResponseFormat, side: Answer | None, brief: Brief) -> Instructions:
        """The instructions for a form."""
        from ..prompts.forms import asks_for_text, fields_of, with_reasoning

        words, asked, reasoned = brief.words, [], form
        if self.reason != "none":
            asked.append(words.text(f"agent.reason_{self.reason}"))
            reasoned = with_reasoning(form)
        asked.append(words.fill("agent.form", fields=fields_of(reasoned)))
        if asks_for_text(form):
            asked.append(words.fill("agent.form_length", words=self.words))
        stance = _stance(side, brief)
        return Instructions(form.name, stance, lines(asked), side.label if side else "")

    def _told(self, side: Answer | None, brief: Brief, passage: bool) -> Iterator[Words]:
        """Instructions beside the brief: what the speaker may do, and what the judge can see."""
        words = brief.words
        if passage and brief.judge_reads is not None:
            yield words.text(
                "agent.passage_shared" if brief.judge_reads else "agent.passage_hidden"
            )
        if self.scratchpad:
            yield words.text("agent.scratchpad")
        if self.tools:
            yield words.text("agent.tools")
        if self.claims:
            yield words.fill("agent.claims", tools=as_words(", ".join(self.claims)))
        if self.budget is not None and (self.tools or self.claims):
            yield words.fill(
                "agent.budget", units=as_words(f"{self.budget:g}"), costs=self._costs()
            )
        if self.quotes and passage:
            from ..quotes import MAX_QUOTE_WORDS

            yield words.fill("agent.quotes", words=MAX_QUOTE_WORDS)
        if self.may_concede and side is not None:
            yield words.text("agent.concede")
        yield words.fill("agent.length", words=self.words)

    def _costs(self) -> Words:
        names = dict.fromkeys((*self.tools, *self.claims))
        return as_words(", ".join(f"{name} {self.toolbox[name].cost:g}" for name in names))

    def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, brief: Brief = ADVOCATE
    ) -> Coroutine[Any, Any, Turn]:
        return self.deliver(self.compose(transcript, side, brief), transcript, side, ask, brief)

    async def deliver(
        self, call: Call, transcript: Transcript, side: Answer | None, ask: Ask, brief: Brief
    ) -> Turn:
        """The turn behind a composed call, or behind a draw of it."""
        title = called(brief, side)
        ask = seated(ask, brief.act, title, len(transcript.turns))
        if not (self.tools or self.claims or self.quotes or self.budget is not None):
            return self.read(await ask(call), (), side, brief, checked=True)
        # Here, and not above: most agents have none of it.
        from ..quotes import find_quotes
        from .tool import ToolBudget, ToolContext, ask_with_tools, check_claims, unspoken

        context, budget = ToolContext(transcript.question, side), self.budget
        if budget is not None or self.tools:
            # Of a speaker without a side, those of its seat.
            turns = transcript.turns
            mine = [t for t in turns if (t.side == side if side else t.speaker == title)]
            context = replace(context, before=tuple(use for turn in mine for use in turn.tools))
            if budget is not None:
                budget -= sum(map(unspoken, mine))
        allowed = ToolBudget(self.toolbox, self.tools, budget)
        reply, used = await ask_with_tools(call, ask, allowed, context)
        turn = self.read(reply, used, side, brief, checked=True)
        if self.claims:
            allowed = replace(allowed, tools=self.claims)
            context = replace(context, before=(*context.before, *used))
            turn = structs.replace(
                turn, tools=used + await check_claims(allowed, turn.text, context)
            )
        if not self.quotes:
            return turn
        return structs.replace(
            turn, quotes=find_quotes(turn.text, escape_tags(transcript.question.passage))
        )

    def read(
        self,
        reply: Reply,
        used: tuple[ToolUse, ...],
        side: Answer | None,
        brief: Brief,
        *,
        checked: bool = False,
    ) -> Turn:
        """The turn that everybody else reads of a reply. checked: whether a program looks up its
        quotes and claims, as it does in speeches but not in forms."""
        private = self.scratchpad or PRIVATE in brief.stance
        said = without_thoughts(reply.text) if private else reply.text
        if SPEECH in brief.stance:
            said = _spoken(said)
        speech = self.shown(said, self.words, checked)
        return Turn(
            called(brief, side),
            speech.text,
            side,
            reply.call,
            used,
            reply.outcome,
            speech.forged,
            speech.cut,
            malformed=speech.malformed,
            conceded=side is not None and _concedes(speech.text),
            hidden=reply.hidden,
            unknown_stop=reply.unknown_stop,
            musing=_muses(speech.text),
        )

    def shown(self, text: str, words: int, checked: bool = False) -> Shown:
        """A text of this agent as others read it, limited to this many words."""
        return _shown(
            text, words, ("quote",) * self.quotes + ("claim",) * bool(self.claims), checked
        )


@lru_cache(maxsize=512)
def called(brief: Brief, side: Answer | None) -> str:
    """What everyone calls a seat: `Debater A`, or `Client` for one without a side."""
    return f"{brief.title} {side.label}" if side else brief.title


# Both worlds and several judges hear the same reply.
_shown, _muses = lru_cache(maxsize=512)(shown), lru_cache(maxsize=512)(looks_like_thought)


def _concedes(speech: str) -> bool:
    """Whether a speech consists of a concession."""
    before, conceded, behind = speech.lower().partition(_CONCESSION)
    rest = before + behind
    return bool(conceded) and not any(char.isalnum() or char == "_" for char in rest)


def _stance(side: Answer | None, brief: Brief) -> Words:
    return for_side(brief.stance, side.label) if side else brief.stance


def _spoken(text: str) -> str:
    """What stands in the last <speech> of a text, or all of it where there is none."""
    start, end = -1, len(text)
    for tag in find_tags(text, ("speech",)):
        if tag.end >= 0 and tag.closing == (start >= 0 and end == len(text)):
            start, end = (start, tag.start) if tag.closing else (tag.end, len(text))
    return text[start:end] if start >= 0 else text
