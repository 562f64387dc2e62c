"""Layout of prompts, and its reverse, a parser. Equal transcripts give equal prompts.

The parts that most calls share come first, so that a provider's prompt cache can keep them: the
passage and the question, which all calls about a problem share, then the protocol's rules, the
transcript, and last the instructions. The system message ends with the rules.

Participants' words are in tags that no model can write, and readers are told the meaning of these
tags. Instructions are `Words`, and contain none of them.

The parser is for programs. A model's text never holds a live tag (see oversight.protocols.tags), so
a plain search finds each part."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, takewhile
from typing import NamedTuple

from msgspec import Struct, structs

from ...cache.cached_attribute import memoized
from ...cache.call import Call, Message
from ..question import Answer, Question
from ..tags import escape_tags, holds_escaped_mark
from ..transcript import ToolUse, Transcript, Turn
from .prompt_set import NOTHING, PromptSet, Words, lines, require_words


class Instructions(Struct, frozen=True, dict=True):
    """The reader's instructions, marked so that no speech can imitate them."""

    task: str
    """Name of the task, for programs that read the prompt."""
    role: Words
    """The reader's role and its purpose."""
    request: Words = NOTHING
    """The request, after the warnings."""
    side: str = ""
    """Label of the answer that the reader argues for. Empty for no side."""
    marks: tuple[tuple[str, str | int], ...] = ()
    """Attributes for programs that read the prompt, by name. Models can ignore them."""
    cue: Words = NOTHING
    """Text that stands alone at the end, for a reply that continues it."""

    def __post_init__(self) -> None:
        require_words(role=self.role, request=self.request, cue=self.cue)

    @memoized
    def text(self, warnings: tuple[Words, ...] = ()) -> str:
        """The block of instructions. warnings: about the texts above it."""
        marks = ((("side", self.side),) if self.side else ()) + self.marks
        attributes = "".join([f' {name}="{value}"' for name, value in marks])
        body = lines((self.role, *warnings, self.request))
        block = f'<instructions task="{self.task}"{attributes}>\n{body}\n</instructions>'
        # Closing tags come last: weak models continue with another tag instead of an answer.
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
    own: str = "",
) -> tuple[Message, ...]:
    """The prompt of one reader. statement: the statement to decide about, in anybody's words; empty
    for the question. order: indices of the answers in the order shown; None: their own. examples:
    shown before the question. own: name of the speaker whose turns become assistant messages; empty
    for none."""

    if type(rules) is not Words:
        require_words(rules=rules)
    earlier: list[Message] = []
    if own and any(turn.speaker == own for turn in transcript.turns):
        earlier, parts = _own_turns(transcript, own)
        todo = structs.replace(todo, marks=(*todo.marks, (_SPEAKER, own)))
    else:
        parts = [*map(turn_block, transcript.turns)]
    if statement:
        parts.append(f"<statement>\n{escape_tags(statement)}\n</statement>")
    turns = transcript.turns if examples is None else (*transcript.turns, *examples.turns)
    parts.append(todo.text(_warnings(turns, statement, words)))
    shown_order = None if order is None else tuple(order)
    system = _system(examples.text if examples else "", transcript.question, rules, shown_order)
    return (system, *earlier, Message("user", "\n\n".join(parts)))


def _own_turns(transcript: Transcript, own: str) -> tuple[list[Message], list[str]]:
    """The messages up to a speaker's last turn, alternately of user and assistant, and the parts of
    the user message that follows. Results of tools and marks of quotes follow the own speech."""
    earlier: list[Message] = []
    parts = [question_block(transcript.question.without_passage())]
    for turn in transcript.turns:
        if turn.speaker != own:
            parts.append(turn_block(turn))
            continue
        speech = turn_block(structs.replace(turn, speaker="", tools=(), quotes=()))
        speech = speech.removeprefix('<turn speaker="">\n').removesuffix("\n</turn>") or "[…]"
        if parts:
            earlier += (Message("user", "\n\n".join(parts)), Message("assistant", speech))
        else:
            earlier[-1] = Message("assistant", f"{earlier[-1].text}\n\n{speech}")
        parts = [_tool_block(use) for use in turn.tools]
        if turn.quotes:
            from ..quotes import MARKS

            marked = ((MARKS[quote.verified], escape_tags(quote.text)) for quote in turn.quotes)
            parts += [f"<{mark}>{text}</{mark}>" for mark, text in marked]
    return earlier, parts


class Examples(Struct, frozen=True):
    """Decided cases for a reader as laid out, and their turns."""

    text: str
    turns: tuple[Turn, ...]


_WARNINGS = tuple(
    f"data.{name}"
    for name in ("turns", "simultaneous", "tools", "quotes", "unchecked", "statement")
)


def _warnings(turns: Sequence[Turn], statement: str, words: PromptSet) -> tuple[Words, ...]:
    """Explanations for a reader of these turns and of this statement."""
    at_once = tools = quotes = unchecked = False
    for turn in turns:
        at_once |= turn.at_once
        # Readers of an escaped mark get the explanation of ours.
        escaped = turn.malformed > 0 and holds_escaped_mark(turn_block(turn))
        tools |= bool(turn.tools) or escaped
        quotes |= bool(turn.quotes) or escaped
        if turn.quotes:
            unchecked |= any([quote.verified is None for quote in turn.quotes])
    are_read = (turns, at_once, tools, quotes, unchecked, statement)
    return tuple(map(words.text, compress(_WARNINGS, are_read)))


@lru_cache(maxsize=1024)  # laid out again for every turn about a question
def _system(
    examples: str, question: Question, rules: Words, order: tuple[int, ...] | None
) -> Message:
    parts = (examples, question_block(question, order), rules and f"<rules>\n{rules}\n</rules>")
    return Message("system", "\n\n".join(filter(None, parts)))


def question_block(question: Question, order: Sequence[int] | None = None) -> str:
    """The passage if the reader may see it, the question, and the answers in `order`."""
    parts = [f"<question>\n{escape_tags(question.text)}\n</question>"]
    if question.passage:
        parts.insert(0, f"<passage>\n{escape_tags(question.passage)}\n</passage>")
    for index in order if order is not None else range(len(question.answers)):
        answer = question.answers[index]
        parts.append(f'<answer label="{answer.label}">\n{answer_body(answer)}\n</answer>')
    return "\n\n".join(parts)


@lru_cache(maxsize=1024)  # read again by every later speaker
def turn_block(turn: Turn) -> str:
    """One turn as others read it. Tool results and checked quotes carry our tags, which no model
    can write."""
    tool_blocks = "".join([f"{_tool_block(use)}\n" for use in turn.tools]) if turn.tools else ""
    reasoning = f"{escape_tags(turn.reasoning)}\n" if turn.aloud and turn.reasoning else ""
    text = escape_tags(turn.text) if "<" in turn.text else turn.text
    if turn.quotes:
        from ..quotes import marked

        text = marked(text, turn.quotes)
    return f'<turn speaker="{turn.speaker}">\n{tool_blocks}{reasoning}{text}\n</turn>'


def answer_body(answer: Answer) -> str:
    """An answer as everyone sees it: its text followed by its work, without live tags."""
    return escape_tags(answer.whole)


def _tool_block(use: ToolUse) -> str:
    computed = f"{use.arguments} → {use.result}" if use.arguments else use.result
    return f'<tool name="{use.tool}">{escape_tags(computed)}</tool>'


_SPEAKER = "speaker"
"""Mark with the name of a reader whose own turns are assistant messages."""
_PASSAGE, _PASSAGE_END = "<passage>\n", "\n</passage>\n\n"
_QUESTION = "<question>\n"
_RULES, _RULES_END = "\n\n<rules>\n", "\n</rules>"
_STATEMENT, _STATEMENT_END = "<statement>\n", "\n</statement>"
_ANSWER = '<answer label="'
_TURN = '<turn speaker="'
_INSTRUCTIONS = '<instructions task="'
_MARK = re.compile(r' ([a-z]+)="([^"]*)"')


class Todo(NamedTuple):
    """The request in a prompt."""

    task: str
    side: str
    """Label of the answer to argue for. Empty for no side."""
    told: str
    words: int | None = None
    """Maximum number of words of the reply. None: no limit."""
    private: bool = False
    """Whether the reader may think in private tags first."""
    options: tuple[str, ...] = ()
    """The words for true and false, if a statement is asked about. Otherwise empty."""


def find_question(system: str) -> str:
    """The question and answers of a system message, without passage and rules. Empty if absent. It
    is equal for every reader who sees the answers in one order."""
    # Examples come before it and contain questions.
    start = system.rfind(_QUESTION)
    return system[start:].partition(_RULES)[0] if start >= 0 else ""


def problem_prefix(system: str) -> str:
    """The system message up to the rules. It is equal in all calls with the same examples, passage
    and question, under every protocol."""
    question = find_question(system)
    return system[: system.rfind(_QUESTION) + len(question)] if question else system


def leading(call: Call) -> tuple[Message, ...]:
    """The leading system messages of a call, which are equal in all calls of one question."""
    return tuple(takewhile(lambda message: message.role == "system", call.messages))


def marked_parts(call: Call) -> list[str]:
    """The leading system text, split after the part that all calls about the problem share."""
    texts = [message.text for message in leading(call)]
    if not texts:
        return []
    prefix = problem_prefix(texts[0])
    return [part for part in (prefix, texts[0][len(prefix) :], *texts[1:]) if part]


def shared_beginning(call: Call) -> str:
    """The beginning of all calls about the problem. Empty without a system message."""
    return next(iter(marked_parts(call)), "")


def whole_user_text(messages: Sequence[Message]) -> str:
    """The last user message, after all others if the reader's own turns are assistant messages.
    Those are shown as turns again."""
    texts = [(message.role, message.text) for message in messages if message.role != "system"]
    while texts and texts[-1][0] != "user":
        texts.pop()
    if not texts:
        return ""
    last = texts[-1][1]
    head = last[max(last.rfind(_INSTRUCTIONS), 0) :].partition(">\n")[0]
    speaker = dict(_MARK.findall(head)).get(_SPEAKER)
    if speaker is None:
        return last
    return "\n\n".join(
        [
            f'{_TURN}{speaker}">\n{text}\n</turn>' if role == "assistant" else text
            for role, text in texts
        ]
    )


def find_statement(user: str) -> str:
    """The statement that a user message asks about. Empty if absent."""
    start = user.rfind(_STATEMENT, 0, max(user.rfind(_INSTRUCTIONS), 0))
    if start < 0:
        return ""
    return user[start + len(_STATEMENT) :].partition(_STATEMENT_END)[0]


def read_question(block: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The text of a block from `find_question`, and each answer's (label, text and work) in the
    order shown."""
    text, _, remainder = block.removeprefix("<question>\n").partition("\n</question>")
    answers = []
    while (start := remainder.find(_ANSWER)) >= 0:
        label, _, remainder = remainder[start + len(_ANSWER) :].partition('">\n')
        body, _, remainder = remainder.partition("\n</answer>")
        answers.append((label, body))
    return text, tuple(answers)


def read_rules(system: str) -> tuple[str, str]:
    """The rules of a system message, and the passage, which is empty if the reader may not see it.
    A message without a question consists of rules."""
    start = system.rfind(_QUESTION)
    if start < 0:
        return system.strip(), ""
    _, _, rules = system[start:].partition(_RULES)
    before = system[:start]
    passage = ""
    if before.endswith(_PASSAGE_END):
        passage = before[before.rfind(_PASSAGE) + len(_PASSAGE) : -len(_PASSAGE_END)]
    return rules.removesuffix(_RULES_END), passage


def read_turns(user: str) -> list[tuple[str, str]]:
    """(speaker, speech) of every turn in a user message, in order, without tool results."""
    turns = []
    for speaker, speech in read_marked_turns(user):
        while speech.startswith("<tool name="):
            speech = speech.partition("</tool>\n")[2]
        turns.append((speaker, speech))
    return turns


def read_marked_turns(user: str) -> list[tuple[str, str]]:
    """Like `read_turns`, with our tags in the speeches: tool results and checked quotes."""
    turns = []
    for part in user.split(_TURN)[1:]:
        speaker, _, remainder = part.partition('">\n')
        turns.append((speaker, remainder[: remainder.rfind("\n</turn>")]))
    return turns


def read_instructions(user: str) -> Todo | None:
    """The instructions at the end of a user message. None if absent."""
    start = user.rfind(_INSTRUCTIONS)
    if start < 0:
        return None
    head_end = user.find(">\n", start)
    task, _, attributes = user[start + len(_INSTRUCTIONS) : head_end].partition('"')
    instructions = user[head_end + 2 :].partition("\n</instructions>")[0]
    marks = dict(_MARK.findall(attributes))
    words, options = marks.get("words", ""), marks.get("options", "")
    return Todo(
        task,
        marks.get("side", ""),
        instructions,
        int(words) if words.isdecimal() else None,
        "private" in marks,
        tuple(options.split("|")) if options else (),
    )
