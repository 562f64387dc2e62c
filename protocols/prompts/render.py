"""Layout of a prompt: the same floor always gives the same words.

The system message holds the task and the question: it is the same for both sides and for every
turn, so a provider's prompt cache can keep it. The user message holds what was said and, last,
what the reader is to do now. `oversight.protocols.prompts.parse` takes it apart again.
"""

from collections.abc import Sequence
from functools import lru_cache

from ...cache.call import Message
from ..question import Answer, Question
from ..quotes import marked
from ..transcript import ToolUse, Transcript, Turn
from .escape import escape_tags


def messages(
    task: str, floor: Transcript, instructions: str, order: Sequence[int] | None = None
) -> tuple[Message, ...]:
    """The prompt of one reader.

    order: places of the answers in the order of presentation; theirs if None.
    """
    system = _system(task, floor.question, None if order is None else tuple(order))
    said = "\n\n".join([*map(turn_block, floor.turns), instructions])
    return (system, Message("user", said))


@lru_cache(maxsize=1024)  # every turn about a question lays it out again
def _system(task: str, question: Question, order: tuple[int, ...] | None) -> Message:
    return Message("system", f"{task}\n\n{question_block(question, order)}".lstrip())


def instructions(task: str, text: str, side: Answer | None = None, **marks: str | int) -> str:
    """What the reader is to do now, marked so that no speech can pass for it.

    marks: attributes for programs that read the prompt, by name; models can ignore them.
    """
    named = ({"side": side.label} if side else {}) | marks
    attributes = "".join(f' {name}="{value}"' for name, value in named.items())
    return f'<instructions task="{task}"{attributes}>\n{text}\n</instructions>'


def question_block(question: Question, order: Sequence[int] | None = None) -> str:
    """The passage if the reader may see it, the question, and the answers in `order`."""
    parts = [f"<question>\n{escape_tags(question.text)}\n</question>"]
    if question.passage:
        parts.insert(0, f"<passage>\n{escape_tags(question.passage)}\n</passage>")
    for place in order if order is not None else range(len(question.answers)):
        parts.append(_answer_block(question.answers[place]))
    return "\n\n".join(parts)


def turn_block(turn: Turn) -> str:
    """One turn as the others read it; results of tools and checked quotes carry our tags, which no
    model can write."""
    used = "".join(f"{_tool_block(use)}\n" for use in turn.tools)
    thought = f"{turn.reasoning}\n" if turn.aloud and turn.reasoning else ""
    said = marked(turn.text, turn.quotes)
    return f'<turn speaker="{turn.speaker}">\n{used}{thought}{said}\n</turn>'


def answer_body(answer: Answer) -> str:
    """An answer as everyone is shown it: its text, and its work below, without a live tag."""
    return escape_tags(f"{answer.text}\n{answer.work}" if answer.work else answer.text)


def _tool_block(use: ToolUse) -> str:
    computed = f"{use.arguments} → {use.result}" if use.arguments else use.result
    return f'<tool name="{use.tool}">{computed}</tool>'


def _answer_block(answer: Answer) -> str:
    return f'<answer label="{answer.label}">\n{answer_body(answer)}\n</answer>'
