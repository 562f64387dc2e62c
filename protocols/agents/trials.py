"""Trials of the programs in the answers of a question, on inputs that a speaker's code chooses.

The code runs in a sandbox with the programs at hand, and decides on inputs alone. The programs are
then run on these in a process of their own, so that what is shown of them is not the code's word.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from ...cache.call import ToolSpec
from ..question import Question
from .sandbox import Failed, run_confined
from .tool import Found, Scene, Tool

MAX_CODE = 4_000
"""Characters."""
MAX_INPUTS = 5
MAX_NUMBERS = 40
"""Numbers of all arguments of one input."""
LARGEST = 10**9
DEEPEST = 8
"""Lists within lists."""

_DEF = re.compile(r"^def ([a-z_]\w*)\(", re.MULTILINE)


async def _used(arguments: Mapping[str, Any], scene: Scene) -> Found:
    code = arguments["code"]
    programs = _programs(scene.question)
    if not programs:
        return Found("error: the answers of this question are no programs")
    if len(code) > MAX_CODE:
        return Found(f"error: longer than {MAX_CODE} characters")
    try:
        chosen = await run_confined(f"{programs}\n{code}\n", "inputs")
    except Failed as exc:
        return Found(f"error: the code did not end well: {exc.told or exc.cause}")
    if not _are_inputs(chosen):
        return Found(
            f"error: the code must set inputs to a list of 1 to {MAX_INPUTS} lists of arguments, "
            "which are whole numbers and lists of them"
        )
    shown = orjson.dumps(chosen).decode()
    labels = [answer.label for answer in scene.question.answers]
    try:
        given = await run_confined(f"{programs}\n{_trial(labels, shown)}", "given")
    except Failed as exc:
        return Found(f"error: the programs did not end well: {exc.told or exc.cause}")
    if not _are_results(given, len(chosen), len(labels)):
        return Found("error: the programs did not end well: code")
    told = (
        f"{orjson.dumps(each).decode()}: "
        + ", ".join(f"{label} gives {value}" for label, value in zip(labels, values, strict=True))
        for each, values in zip(chosen, given, strict=True)
    )
    return Found("; ".join(told), "the programs on chosen inputs")


def _programs(question: Question) -> str:
    """Each answer's program, under the answer's label; empty if one of them has none."""
    parts = []
    for answer in question.answers:
        named = _DEF.search(answer.work)
        if named is None or not answer.label.isidentifier():
            return ""
        # Each in a namespace of its own: both may call themselves, or a helper, by one name.
        at = answer.label
        parts.append(f"{at} = {{}}\nexec({answer.work!r}, {at})\n{at} = {at}[{named[1]!r}]")
    return "\n".join(parts)


def _trial(labels: list[str], inputs: str) -> str:
    return f"""
def tried(program, arguments):
    try:
        return repr(program(*arguments))[:60]
    except Exception as exc:
        return type(exc).__name__
given = [[tried(each, x) for each in ({", ".join(labels)},)] for x in {inputs}]
"""


def _are_inputs(chosen: object) -> bool:
    return (
        isinstance(chosen, list)
        and 1 <= len(chosen) <= MAX_INPUTS
        and all(isinstance(each, list) and 0 <= _numbers(each) <= MAX_NUMBERS for each in chosen)
    )


def _are_results(given: object, rows: int, columns: int) -> bool:
    return (
        isinstance(given, list)
        and len(given) == rows
        and all(isinstance(each, list) and len(each) == columns for each in given)
        and all(isinstance(value, str) for each in given for value in each)
    )


def _numbers(value: object, depth: int = 0) -> int:
    """How many whole numbers there are in a tree of lists; below 0 if there is anything else."""
    if isinstance(value, list):
        if len(value) > MAX_NUMBERS or depth == DEEPEST:
            return -1
        counts = [_numbers(each, depth + 1) for each in value]
        return -1 if min(counts, default=0) < 0 else sum(counts)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    return 1 if whole else -1


TRY_PROGRAMS = Tool(
    ToolSpec(
        "try_programs",
        "Runs the programs of the answers on inputs of your choice. Write Python that sets "
        "`inputs`, a list of at most 5 lists of arguments; the programs are there under the labels "
        "of their answers, so that your code can search for inputs on which they differ.",
        '{"type":"object","properties":{"code":{"type":"string"}},'
        '"required":["code"],"additionalProperties":false}',
    ),
    _used,
    cost=1.0,
)
