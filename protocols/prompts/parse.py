"""Parser of prompts, the reverse of `oversight.protocols.prompts.render`, for programs.

A model's text never holds a live tag (see oversight.protocols.tags), so a plain search finds each
part.
"""

import re
from itertools import takewhile
from typing import NamedTuple

from ...cache.call import Call, Message

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
