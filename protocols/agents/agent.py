"""Agents: frozen settings that compose a Call from a transcript and a side, and speak a Turn."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from annotated_types import Interval
from msgspec import Struct, structs
from msgspec.structs import force_setattr

from ...cache.cached_attribute import memoized
from ...cache.call import ABSENT, Ask, Call, Effort, Request, ResponseFormat, for_role
from ...cache.reasoning import looks_like_thought
from ...cache.reply import Reply
from ..prompts.prompt_set import PromptSet, Words, as_words, default_prompts, for_side, lines
from ..prompts.render import Instructions, messages
from ..question import Answer
from ..settings import (
    REASONING_ROOM,
    Count,
    CountFromZero,
    LazyRegistry,
    Parameters,
    Reason,
    check_ranges,
    require_known,
    unusual,
)
from ..tags import ShownSpeech, escape_tags, find_tags, shown, without_thoughts
from ..transcript import ToolUse, Transcript, Turn

if TYPE_CHECKING:
    from .tool import Tool

    Toolbox: TypeAlias = Mapping[str, Tool]
else:
    Toolbox = Mapping

TOOLS: "LazyRegistry[Tool]" = LazyRegistry(
    "agents.tool:Tool",
    {
        "calculator": "agents.tools:CALCULATOR",
        "query": "agents.tools:QUERY",
        "python": "agents.tools:PYTHON",
    },
)
"""The built-in tools by name."""

OwnTurns: TypeAlias = Literal["quoted", "assistant"]

PRIVATE, SPEECH = "<private>", "<speech>"
"""Tags that a prompt may ask for: around private thoughts, and around the speech."""

_CONCESSION = "i concede"


class RolePrompt(Struct, frozen=True, cache_hash=True):
    """The text that a role reads in addition to the question and the transcript."""

    title: str
    """The name of the role: `Debater`. A speaker with a side is called `Debater A`."""
    task: Words
    """The rules. Every participant reads the same words."""
    stance: Words
    """The instruction for this turn. {label} stands for the answer to argue for."""
    reads_passage: bool = True
    act: str = "speak"
    """Name of the turn's task: `speak` or `ask`. The prompt states it in a tag, for programs such
    as simulated models, and the call is recorded with it as its purpose."""
    judge_reads: bool | None = None
    """Whether the judge reads the passage, stated in the prompt. None: not stated."""
    judging: Words | None = None
    """The stance of the judge who will hear this speaker, used to choose among its drafts."""
    judge_hears_sides: bool = False
    """Whether that judge hears only speakers with a side, and so no prices of a market."""
    prompts: PromptSet | None = None
    """Source of the general prompt texts. None: the default set."""

    def __post_init__(self) -> None:
        # Protocols written before `Words` existed pass plain strings, which are trusted.
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

    def also_told(self, more: Words, by: str = " ") -> "RolePrompt":
        """This prompt with `more` at the end of its stance."""
        return structs.replace(self, stance=Words.joined(self.stance, more, by=by))


ADVOCATE = RolePrompt(
    "Advocate",
    default_prompts().text("propaganda.rules"),
    default_prompts().fill("propaganda.advocate"),
)


class Speaker(ABC):
    """Interface of speakers, which fill the roles of a protocol."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports: the model, and settings that differ from the defaults."""

    @property
    @abstractmethod
    def base_agent(self) -> "Agent":
        """The agent without its wrappers; it fills in forms."""

    @abstractmethod
    async def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, prompt: RolePrompt = ADVOCATE
    ) -> Turn:
        """Speak one turn on this transcript, for `side` or for no side."""

    def share(self, parts: int) -> Self:
        """This speaker for one of `parts` conversations that do not hear each other, with its part
        of the budget. A speaker without a budget returns itself."""
        return self


@dataclass(frozen=True)
class Agent(Parameters, Speaker):
    """A model with settings."""

    toolbox: ClassVar[Toolbox] = TOOLS
    """The available tools, by name. Subclasses may have others."""

    model: str
    temperature: float | None = 0.4
    words: Count = 150
    """Word limit of a speech, stated in the prompt and enforced by a marked cut. A speech may also
    have at most 8 columns per word."""
    max_tokens: Count = 1024
    tools: tuple[str, ...] = ()
    """Names from the toolbox."""
    scratchpad: bool = False
    """Whether the agent may think in private before it speaks."""
    quotes: bool = False
    """Whether its quotes are checked against the passage and shown with the result."""
    may_concede: bool = False
    """Whether the prompt says how to give up a side. A concession counts in any case."""
    effort: Effort = ""
    reason: Reason = "none"
    """Whether the agent reasons before it fills in a form, and whether others read that."""
    reasoning_tokens: CountFromZero = 0
    """Added to max_tokens, for a model that reasons before it replies."""
    claims: tuple[str, ...] = ()
    """Names of the tools that check claims in its speeches: `calculator`, `query`."""
    budget: Annotated[float, Interval(ge=0)] | None = None
    """Maximum cost per side and world of tools and checked claims, drafts included. None: no limit.
    Drafts and parallel speeches share it equally."""

    own_turns: OwnTurns = field(default="quoted", metadata=ABSENT)
    """How the agent reads its earlier speeches: as quoted turns in one user message, or as
    `assistant` messages."""

    def __post_init__(self) -> None:
        if self.tools or self.claims:
            from .tool import CHECKERS, require_tool

            for tool in (*self.tools, *self.claims):
                require_tool(tool, self.toolbox)
            for tool in self.claims:
                require_known("claims", tool, CHECKERS)
        check_ranges(self)
        require_known("reason", self.reason, get_args(Reason))
        require_known("own_turns", self.own_turns, get_args(OwnTurns))

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
        prompt: RolePrompt,
        *,
        form: ResponseFormat | None = None,
    ) -> Call:
        """The call for a speech, or for a filled-in form if `form` is given."""
        if not prompt.reads_passage:
            transcript = structs.replace(transcript, question=transcript.question.without_passage())
        room, own = self.reasoning_tokens, ""
        if form is None:
            own = called(prompt, side) if self.own_turns == "assistant" else ""
            todo = self._to_speak(side, prompt, bool(transcript.question.passage))
        else:
            todo = self._to_fill_in(form, side, prompt)
            if self.reason != "none":
                from ..prompts.forms import with_reasoning

                form, room = with_reasoning(form), room + REASONING_ROOM
        rules = prompt.rules(transcript.question.graded)
        offered = self.tools if form is None else ()
        return Call(
            Request(
                self.model,
                messages(rules, transcript, todo, prompt.prompts or default_prompts(), own=own),
                temperature=self.temperature,
                max_tokens=self.max_tokens + room,
                tools=tuple([self.toolbox[tool].spec for tool in offered]) if offered else (),
                response_format=form,
                effort=self.effort,
                **self.parameters,
            )
        )

    @memoized
    def _to_speak(self, side: Answer | None, prompt: RolePrompt, passage: bool) -> Instructions:
        """The instructions for a speech. passage: whether the speaker reads a passage."""
        stance = _stance(side, prompt)
        marks: tuple[tuple[str, str | int], ...] = (("words", self.words),)
        if self.scratchpad or PRIVATE in stance:
            marks += (("private", "yes"),)
        details = lines(self._abilities(side, prompt, passage))
        return Instructions(prompt.act, stance, details, side.label if side else "", marks)

    @memoized
    def _to_fill_in(
        self, form: ResponseFormat, side: Answer | None, prompt: RolePrompt
    ) -> Instructions:
        """The instructions for a form."""
        from ..prompts.forms import asks_for_text, fields_of, with_reasoning

        words, instructions, reasoned = prompt.words, [], form
        if self.reason != "none":
            instructions.append(words.text(f"agent.reason_{self.reason}"))
            reasoned = with_reasoning(form)
        instructions.append(words.fill("agent.form", fields=fields_of(reasoned)))
        if asks_for_text(form):
            instructions.append(words.fill("agent.form_length", words=self.words))
        stance = _stance(side, prompt)
        return Instructions(form.name, stance, lines(instructions), side.label if side else "")

    def _abilities(self, side: Answer | None, prompt: RolePrompt, passage: bool) -> Iterator[Words]:
        """Further instructions: the abilities of the speaker, and whether the judge sees them."""
        words = prompt.words
        if passage and prompt.judge_reads is not None:
            yield words.text(
                "agent.passage_shared" if prompt.judge_reads else "agent.passage_hidden"
            )
        if self.scratchpad:
            yield words.text("agent.scratchpad")
        if self.tools:
            yield words.text("agent.tools")
        if self.claims:
            yield words.fill("agent.claims", tools=as_words(", ".join(self.claims)))
        if self.budget is not None and (self.tools or self.claims):
            names = dict.fromkeys((*self.tools, *self.claims))
            costs = ", ".join(f"{name} {self.toolbox[name].cost:g}" for name in names)
            units = as_words(f"{self.budget:g}")
            yield words.fill("agent.budget", units=units, costs=as_words(costs))
        if self.quotes and passage:
            from ..quotes import MAX_QUOTE_WORDS

            yield words.fill("agent.quotes", words=MAX_QUOTE_WORDS)
        if self.may_concede and side is not None:
            yield words.text("agent.concede")
        yield words.fill("agent.length", words=self.words)

    def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, prompt: RolePrompt = ADVOCATE
    ) -> Coroutine[Any, Any, Turn]:
        return self.deliver(self.compose(transcript, side, prompt), transcript, side, ask, prompt)

    async def deliver(
        self, call: Call, transcript: Transcript, side: Answer | None, ask: Ask, prompt: RolePrompt
    ) -> Turn:
        """The turn for a composed call, or for a repeat of it."""
        title = called(prompt, side)
        ask = for_role(ask, prompt.act, title, len(transcript.turns))
        if not (self.tools or self.claims or self.quotes or self.budget is not None):
            return self.read(await ask(call), (), side, prompt, checked=True)
        # Imported here because most agents use neither quotes nor tools.
        from ..quotes import find_quotes
        from .tool import Allowance, Scene, ask_with_tools, check_claims, unspoken

        context, budget = Scene(transcript.question, side), self.budget
        if budget is not None or self.tools:
            # A speaker without a side draws on earlier uses under its title.
            turns = transcript.turns
            earlier = [t for t in turns if (t.side == side if side else t.speaker == title)]
            context = replace(context, before=tuple(use for turn in earlier for use in turn.tools))
            if budget is not None:
                budget -= sum(map(unspoken, earlier))
        allowed = Allowance(self.toolbox, self.tools, budget)
        reply, used = await ask_with_tools(call, ask, allowed, context)
        turn = self.read(reply, used, side, prompt, checked=True)
        if self.claims:
            allowed = replace(allowed, tools=self.claims)
            context = replace(context, before=(*context.before, *used))
            checks = await check_claims(allowed, turn.text, context)
            turn = structs.replace(turn, tools=used + checks)
        if not self.quotes:
            return turn
        quotes = find_quotes(turn.text, escape_tags(transcript.question.passage))
        return structs.replace(turn, quotes=quotes)

    def read(
        self,
        reply: Reply,
        used: tuple[ToolUse, ...],
        side: Answer | None,
        prompt: RolePrompt,
        *,
        checked: bool = False,
    ) -> Turn:
        """The turn that others read of a reply. checked: whether a program looks up its quotes and
        claims, as in speeches but not in forms."""
        private = self.scratchpad or PRIVATE in prompt.stance
        text = without_thoughts(reply.text) if private else reply.text
        if SPEECH in prompt.stance:
            text = _spoken(text)
        speech = self.shown(text, self.words, checked)
        return Turn(
            called(prompt, side),
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

    def shown(self, text: str, words: int, checked: bool = False) -> ShownSpeech:
        """A text of this agent as others read it, cut after `words` words."""
        tags = ("quote",) * self.quotes + ("claim",) * bool(self.claims)
        return _shown(text, words, tags, checked)


@lru_cache(maxsize=512)
def called(prompt: RolePrompt, side: Answer | None) -> str:
    """The public name of a role: `Debater A`, or `Client` for one without a side."""
    return f"{prompt.title} {side.label}" if side else prompt.title


# Both worlds and several judges hear the same reply.
_shown, _muses = lru_cache(maxsize=512)(shown), lru_cache(maxsize=512)(looks_like_thought)


@lru_cache(maxsize=512)
def _concedes(speech: str) -> bool:
    """Whether a speech consists of a concession."""
    before, conceded, behind = speech.lower().partition(_CONCESSION)
    return bool(conceded) and not any(char.isalnum() or char == "_" for char in before + behind)


def _stance(side: Answer | None, prompt: RolePrompt) -> Words:
    return for_side(prompt.stance, side.label) if side else prompt.stance


def _spoken(text: str) -> str:
    """The text inside the last <speech> tag, or all of it if none is found."""
    start, end = -1, len(text)
    for tag in find_tags(text, ("speech",)):
        if tag.end >= 0 and tag.closing == (start >= 0 and end == len(text)):
            start, end = (start, tag.start) if tag.closing else (tag.end, len(text))
    return text[start:end] if start >= 0 else text
