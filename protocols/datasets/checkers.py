"""Checkers: programs that grade an answer to an open task as right, wrong or ungraded.

A grade is the same on every machine. An answer that a checker cannot read or run is ungraded: it is
counted with its reason, and is never taken for a wrong one. Answers are models' words, so they are
read in linear time, and their code runs only in Monty (see `oversight.protocols.agents.tools`)."""

import asyncio
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Interval

from ..agents.tool import turns
from ..agents.tools import MAX_CODE, CodeEnded, run_code
from ..settings import check_ranges
from .columns import text_of
from .rows import brief
from .solution import closing, number, sense

Kind: TypeAlias = Literal["exact", "numeric", "tests", "label", "none"]
Extract: TypeAlias = Literal["last_number", "boxed", "last_line"]
"""How the answer is found in a longer text."""

NEITHER = "its grade is neither right nor wrong"
LABELS = dict.fromkeys(("1", "1.0", "true", "right", "correct"), True)
LABELS |= dict.fromkeys(("0", "0.0", "false", "wrong", "incorrect"), False)

_BOX = "\\boxed{"
_AROUND_NUMBER = str.maketrans("=()[]{}\"'*_`", " " * 12)
_LIMITS = ("feed time limit", "memory limit", "maximum recursion depth")
_LACKS = ("The monty syntax parser", "Internal error in monty", "module '")
"""Beginnings of the messages of Monty that do not say that the code is wrong."""
_BUILTINS = frozenset(f"name '{name}' is not defined" for name in dir(builtins))


class Grade(NamedTuple):
    right: bool | None
    """None: ungraded."""
    reason: str = ""
    """Why it is ungraded, without any of the answer's words."""


@dataclass(frozen=True)
class Checker:
    """A checker with its settings; it keeps no state.

    exact: the answer reads like the column, or like one of its list. numeric: both state the same
    number. tests: the column's asserts pass after the answer's code. label: the column is the
    grade, by somebody who checked the answer elsewhere. none: nothing is graded."""

    kind: Kind | str
    """A kind, or the name of the user's `function`."""
    column: str = "answer"
    """The column of a task that the answer is compared with."""
    extract: Extract | None = None
    """None: the whole text is the answer."""
    tolerance: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    """Maximum relative difference of two numbers that are equal."""
    function: Callable[[Mapping[str, Any], str], object] | None = None
    """Grades an answer to a task, given as its row: True, False, or None for ungraded."""

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def compares(self) -> bool:
        """Whether it reads the column."""
        return self.function is None and self.kind != "none"

    def truth(self, value: Any) -> Any:
        """The value of the column in the form that `grade` takes. ValueError if it has none."""
        if not self.compares:
            return None
        if self.kind == "label":
            return LABELS.get(str(value).strip().casefold())
        parts = value if isinstance(value, list) else [value]
        texts = [text_of(self.column, part) for part in parts]
        if not texts or not all(map(str.strip, texts)):
            raise ValueError(f"{self.column}: has no text in it; write the right answer")
        if self.kind == "exact":
            return frozenset(map(sense, texts))
        if self.kind == "tests":
            if run_tests("pass", code := "\n".join(texts)).right or "assert" not in code:
                raise ValueError(f"{self.column}: {brief(code)} does not test any answer")
            return code
        if len(texts) > 1 or (right_number := _number(texts[0])) is None:
            raise ValueError(f"{self.column}: {brief(value)} is not a number such as 18 or 7.5")
        return right_number

    async def grade(self, text: str, truth: Any, row: Mapping[str, Any]) -> Grade:
        """The grade of a text with an answer. truth: from `truth`. row: the task's."""
        answer = extracted(text, self.extract) if self.extract else text.strip()
        if not answer:
            return Grade(None, f"no {self.extract or 'answer'} in the text")
        if self.kind == "tests":
            async with turns():
                return await asyncio.to_thread(run_tests, fenced(text), truth)
        if self.function is not None:
            try:
                truth = self.function(row, answer)
            except Exception as exc:
                return Grade(None, f"{self.kind} raised {type(exc).__name__}")
        if self.kind == "exact":
            return Grade(sense(answer) in truth)
        if self.kind == "numeric":
            if (final := _number(answer)) is None:
                return Grade(None, "the answer states no number")
            return Grade(abs(final - truth) <= Decimal(str(self.tolerance)) * abs(truth))
        is_grade = isinstance(truth, bool)
        return Grade(truth if is_grade else None, "" if is_grade else NEITHER)


def _number(text: str) -> Decimal | None:
    value = number(text)
    return closing(text) if value is None else value


def run_tests(code: str, tests: str) -> Grade:
    """Run code and then its tests. ToolMissing if the interpreter is not installed."""
    if len(code) > MAX_CODE:
        return Grade(None, f"code of more than {MAX_CODE:,} characters")
    try:
        # Two parts, so that no open string of the answer swallows the tests.
        run_code(code, tests)
    except CodeEnded as exc:
        if exc.fault is None:
            return Grade(None, "the interpreter ended")
        reason = _limit_of_monty(exc.fault)
        return Grade(None if reason else False, reason)
    return Grade(True)


def _limit_of_monty(fault: BaseException) -> str:
    """Why a fault does not say that the code is wrong; empty if it does."""
    message = str(fault)
    if message.startswith(_LIMITS):
        return "time, memory or depth ran out"
    if isinstance(fault, ImportError | PermissionError):
        return "a module or a file that Monty lacks"
    if message.startswith(_LACKS) or message in _BUILTINS:
        return "syntax or a name that Monty lacks"
    words = message.split("'") if isinstance(fault, AttributeError) else []
    owner = getattr(builtins, words[1], None) if len(words) > 3 else None
    lacks = isinstance(owner, type) and hasattr(owner, words[3])
    return "a method that Monty lacks" if lacks else ""


def extracted(text: str, how: Extract) -> str:
    """The answer in a text; empty if it is not there."""
    if how == "last_line":
        return text.strip().rpartition("\n")[2].strip()
    if how == "last_number":
        words = reversed(text.translate(_AROUND_NUMBER).split())
        last = next((word for word in words if any(map(str.isdecimal, word))), "").strip(",.;:!?")
        # The number of a fraction or of a version would be half of it.
        return last if number(last) is not None else ""
    start, depth = text.rfind(_BOX), 0
    body = text[start + len(_BOX) :] if start >= 0 else ""
    for position, char in enumerate(body):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return body[:position].strip()
    return ""


def fenced(text: str) -> str:
    """The code of an answer, without the fence around it and the fence's language."""
    _, fence, after = text.partition("```")
    body = after.partition("\n")[2].partition("```")[0] if fence else text
    return body.strip("\n")
