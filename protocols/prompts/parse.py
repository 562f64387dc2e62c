"""Parser of prompts: `oversight.protocols.prompts.render` in reverse, for programs that read them.

A model's text never holds a live tag (see oversight.protocols.tags), so a plain search
finds each part.
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
    """What a prompt asks for, read back."""

    task: str
    side: str
    """Label of the answer to argue for; empty for no side."""
    told: str
    words: int | None = None
    """Maximum number of words of the reply; None: no limit."""
    private: bool = False
    """Whether the reader may think in private tags first."""
    options: tuple[str, ...] = ()
    """The words for true and for false, where a statement is asked about; else empty."""


def find_question(system: str) -> str:
    """The question and the answers of a system message, without passage and rules; empty if it
    has none. The same text for every reader who is shown the answers in one order."""
    # Examples stand before it, and have questions of their own.
    start = system.rfind(_QUESTION)
    return system[start:].partition(_RULES)[0] if start >= 0 else ""


def problem_prefix(system: str) -> str:
    """How a system message begins in all calls that show the same examples, passage and question,
    whatever the protocol: all of it up to the rules."""
    question = find_question(system)
    return system[: system.rfind(_QUESTION) + len(question)] if question else system


def leading(call: Call) -> tuple[Message, ...]:
    """The leading system messages of a call, which all calls of one question share."""
    return tuple(takewhile(lambda message: message.role == "system", call.messages))


def marked_parts(call: Call) -> list[str]:
    """The leading system text, cut behind what all calls about the problem share."""
    texts = [message.text for message in leading(call)]
    if not texts:
        return []
    shared = problem_prefix(texts[0])
    return [part for part in (shared, texts[0][len(shared) :], *texts[1:]) if part]


def shared_beginning(call: Call) -> str:
    """What all calls about the problem begin with; empty where there is no system message."""
    return next(iter(marked_parts(call)), "")


def find_statement(user: str) -> str:
    """The statement that a user message asks about; empty if it asks about none."""
    start = user.rfind(_STATEMENT, 0, max(user.rfind(_INSTRUCTIONS), 0))
    if start < 0:
        return ""
    return user[start + len(_STATEMENT) :].partition(_STATEMENT_END)[0]


def read_question(block: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The text, and (label, text and work as shown) of each answer in the order of presentation,
    of a block that `find_question` found."""
    text, _, rest = block.removeprefix("<question>\n").partition("\n</question>")
    answers = []
    while (start := rest.find(_ANSWER)) >= 0:
        label, _, rest = rest[start + len(_ANSWER) :].partition('">\n')
        body, _, rest = rest.partition("\n</answer>")
        answers.append((label, body))
    return text, tuple(answers)


def read_rules(system: str) -> tuple[str, str]:
    """The rules in a system message, and the passage, which is empty where the reader is not shown
    it. A message without a question is all rules."""
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
    """(speaker, speech) of every turn in a user message, in order; results of tools left out."""
    turns = []
    for speaker, speech in read_marked_turns(user):
        while speech.startswith("<tool name="):
            speech = speech.partition("</tool>\n")[2]
        turns.append((speaker, speech))
    return turns


def read_marked_turns(user: str) -> list[tuple[str, str]]:
    """As `read_turns`, with our tags in the speeches: results of tools, and checked quotes."""
    turns = []
    for part in user.split(_TURN)[1:]:
        speaker, _, rest = part.partition('">\n')
        turns.append((speaker, rest[: rest.rfind("\n</turn>")]))
    return turns


def read_instructions(user: str) -> Todo | None:
    """The instructions of a user message, which stand last in it; None if it has none."""
    start = user.rfind(_INSTRUCTIONS)
    if start < 0:
        return None
    head_end = user.find(">\n", start)
    task, _, attributes = user[start + len(_INSTRUCTIONS) : head_end].partition('"')
    told = user[head_end + 2 :].partition("\n</instructions>")[0]
    marks = dict(_MARK.findall(attributes))
    words, options = marks.get("words", ""), marks.get("options", "")
    return Todo(
        task,
        marks.get("side", ""),
        told,
        int(words) if words.isdecimal() else None,
        "private" in marks,
        tuple(options.split("|")) if options else (),
    )
