"""Layout of a prompt: the same transcript always gives the same words.

What most calls have in common stands first, so that a provider's prompt cache can keep it: the
passage and the question, which all calls about a problem share, then the rules of the protocol,
then what was said, and last what the reader is to do now. The system message ends with the rules.
`oversight.protocols.prompts.parse` takes a prompt apart again.

What a participant wrote stands in tags of its own, which no model can write; whoever reads it is
told what these tags mean. Instructions are `Words`, and hold none of it.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from ...cache.call import Message
from ...cache.memo import memoized
from ..question import Answer, Question
from ..tags import escape_tags, holds_escaped_mark
from ..transcript import ToolUse, Transcript, Turn
from .prompt_set import PromptSet
from .words import NOTHING, Words, lines, require_words


class Instructions(Struct, frozen=True, dict=True):
    """What a reader is to do now, marked so that no speech can pass for it."""

    task: str
    """Its name, for programs that read the prompt."""
    role: Words
    """Who the reader is, and what for."""
    asked: Words = NOTHING
    """What is asked, after the warnings."""
    side: str = ""
    """Label of the answer that the reader argues for; empty for no side."""
    marks: tuple[tuple[str, str | int], ...] = ()
    """Attributes for programs that read the prompt, by name; models can ignore them."""
    cue: Words = NOTHING
    """What stands last by itself, for a reply that continues it."""

    def __post_init__(self) -> None:
        require_words(role=self.role, asked=self.asked, cue=self.cue)

    @memoized
    def text(self, warnings: tuple[Words, ...] = ()) -> str:
        """The block of instructions. warnings: about what stands above it."""
        named = ((("side", self.side),) if self.side else ()) + self.marks
        attributes = "".join([f' {name}="{value}"' for name, value in named])
        told = lines((self.role, *warnings, self.asked))
        block = f'<instructions task="{self.task}"{attributes}>\n{told}\n</instructions>'
        # Tags close the text: a weak model goes on with another tag, and not with an answer.
        return f"{block}\n\n{self.cue}" if self.cue else block


def messages(
    rules: Words,
    transcript: Transcript,
    todo: Instructions,
    words: PromptSet,
    *,
    statement: str = "",
    order: Sequence[int] | None = None,
    examples: "Examples | None" = None,
) -> tuple[Message, ...]:
    """The prompt of one reader.

    statement: what the reader decides about, in anybody's words; empty if it is the question.
    order: places of the answers in the order of presentation; theirs if None. examples: stand
    before the question.
    """
    if type(rules) is not Words:
        require_words(rules=rules)
    parts = [*map(turn_block, transcript.turns)]
    if statement:
        parts.append(f"<statement>\n{escape_tags(statement)}\n</statement>")
    shown = transcript.turns if examples is None else (*transcript.turns, *examples.turns)
    parts.append(todo.text(_warnings(shown, statement, words)))
    system = _system(
        "" if examples is None else examples.text,
        transcript.question,
        rules,
        None if order is None else tuple(order),
    )
    return (system, Message("user", "\n\n".join(parts)))


class Examples(Struct, frozen=True):
    """Decided cases that a reader is shown, laid out, and the turns in them."""

    text: str
    turns: tuple[Turn, ...]


def _warnings(turns: Sequence[Turn], statement: str, words: PromptSet) -> tuple[Words, ...]:
    """What a reader of these turns, and of this statement, is told about them."""
    told = []
    at_once = tools = quotes = False
    for turn in turns:
        at_once |= turn.at_once
        # Readers of an escaped mark are told what ours mean.
        escaped = turn.malformed > 0 and holds_escaped_mark(turn_block(turn))
        tools |= bool(turn.tools) or escaped
        quotes |= bool(turn.quotes) or escaped
    if turns:
        told.append(words.text("data.turns"))
    if at_once:
        told.append(words.text("data.simultaneous"))
    if tools:
        told.append(words.text("data.tools"))
    if quotes:
        told.append(words.text("data.quotes"))
        if any([quote.verified is None for turn in turns for quote in turn.quotes]):
            told.append(words.text("data.unchecked"))
    if statement:
        told.append(words.text("data.statement"))
    return tuple(told)


@lru_cache(maxsize=1024)  # every turn about a question lays it out again
def _system(
    examples: str, question: Question, rules: Words, order: tuple[int, ...] | None
) -> Message:
    parts = [question_block(question, order)]
    if examples:
        parts.insert(0, examples)
    if rules:
        parts.append(f"<rules>\n{rules}\n</rules>")
    return Message("system", "\n\n".join(parts))


def question_block(question: Question, order: Sequence[int] | None = None) -> str:
    """The passage if the reader may see it, the question, and the answers in `order`."""
    parts = [f"<question>\n{escape_tags(question.text)}\n</question>"]
    if question.passage:
        parts.insert(0, f"<passage>\n{escape_tags(question.passage)}\n</passage>")
    for place in order if order is not None else range(len(question.answers)):
        answer = question.answers[place]
        parts.append(f'<answer label="{answer.label}">\n{answer_body(answer)}\n</answer>')
    return "\n\n".join(parts)


@lru_cache(maxsize=1024)  # whoever speaks later reads it again
def turn_block(turn: Turn) -> str:
    """One turn as the others read it; results of tools and checked quotes carry our tags, which no
    model can write."""
    used = "".join([f"{_tool_block(use)}\n" for use in turn.tools]) if turn.tools else ""
    thought = f"{escape_tags(turn.reasoning)}\n" if turn.aloud and turn.reasoning else ""
    said = escape_tags(turn.text) if "<" in turn.text else turn.text
    if turn.quotes:
        from ..quotes import marked

        said = marked(said, turn.quotes)
    return f'<turn speaker="{turn.speaker}">\n{used}{thought}{said}\n</turn>'


def answer_body(answer: Answer) -> str:
    """An answer as everyone is shown it: its text, and its work below, without a live tag."""
    return escape_tags(answer.whole)


def _tool_block(use: ToolUse) -> str:
    computed = f"{use.arguments} → {use.result}" if use.arguments else use.result
    return f'<tool name="{use.tool}">{escape_tags(computed)}</tool>'
