"""Run a speaker's code in Monty, an isolated Python interpreter.

It runs in a separate process, without files, network or environment, and with a few modules only.
Its clock is fixed and its random generator is seeded, so results repeat. Others read the result as
a program's words. So that no speaker can insert its own words, a value consists of numbers, and an
error gives only its kind.
"""

import asyncio
import builtins
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...cache.errors import install_command
from ..errors import ToolMissing
from .tool import Scene, ToolResult, tool_of_text, turns

if TYPE_CHECKING:
    from pydantic_monty import MontyError

MAX_CODE = 4_000
"""Maximum characters of the code."""
SECONDS = 5.0
"""Maximum running time. Near this limit, code may finish on one machine and not on another."""
MEMORY = 64 * 2**20
"""Maximum memory, in bytes."""
MAX_CALLS = 200
"""Maximum depth of nested calls."""
MAX_SHOWN = 1_000
"""Maximum characters of the value."""
MAX_BITS = 10_000
"""Maximum bits of an integer."""
NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
"""The time that the interpreter's clock shows."""
MAX_PRINTED = 65_536
"""Maximum bytes printed. The output is discarded."""

ENDED = f"error: more than {SECONDS:g} s or {MEMORY // 2**20} MB"
"""Result of code that exceeds a limit. The text names both: the first one met varies by machine."""
REFUSED = (
    "error: the last line must be an expression whose value is a number, True, False or None, or "
    "a list, tuple or mapping of them"
)


async def use_python(code: str, context: Scene) -> ToolResult:
    """The value of the last expression of the code, or an error that repeats nothing of it.
    ToolMissing if the interpreter is not installed. After a cancellation the code runs on, for at
    most SECONDS."""
    if len(code) > MAX_CODE:
        return ToolResult(f"error: longer than {MAX_CODE} characters")
    async with turns():
        # On a thread: the interpreter's own asynchronous pool can be left behind by a cancellation.
        value = await asyncio.to_thread(_run, code)
    if isinstance(value, ToolResult):
        return value
    try:
        text = _as_text(value)
    except (TypeError, RecursionError):
        return ToolResult(REFUSED)
    if len(text) > MAX_SHOWN:
        return ToolResult(f"error: the value takes more than {MAX_SHOWN} characters")
    return ToolResult(text, "code of the speaker")


PYTHON = tool_of_text(
    "python",
    "Runs Python code, without files, network or packages, and gives the value of its last "
    "line: a number, True, False or None, or a list, tuple or mapping of them.",
    "code",
    use_python,
    1.0,
)


def _run(code: str) -> object:
    """The value of the code, or a ToolResult that says why it ended. Each use starts a new
    interpreter, within some milliseconds, so that no state is kept between uses."""
    try:
        from pydantic_monty import CollectString, Monty, MontyCrashedError, MontyError
    except ImportError:
        raise missing() from None
    try:
        with (
            Monty(max_processes=1, request_timeout=10 * SECONDS) as pool,
            pool.checkout(
                limits={
                    "max_feed_duration_secs": SECONDS,
                    "max_memory": MEMORY,
                    "max_recursion_depth": MAX_CALLS,
                },
                os_policy={"datetime": NOON, "sleep": "zero", "random_start": {"seed": 0}},
            ) as session,
        ):
            value: object = session.feed_run(code, print_callback=CollectString(MAX_PRINTED))
            return value
    except FileNotFoundError:
        raise missing() from None
    except MontyError as exc:
        ended = isinstance(exc, MontyCrashedError) or _kind(exc) in ("TimeoutError", "MemoryError")
        return ToolResult(ENDED if ended else f"error: {_kind(exc)}")


def missing() -> ToolMissing:
    """The error for an interpreter that is not installed."""
    return ToolMissing(f"the tool python needs an interpreter: {install_command('tools')}")


def _kind(fault: "MontyError") -> str:
    """The name of the exception that ended the code; it holds none of the code's words."""
    kinds = (kind.__name__ for kind in type(fault.exception()).__mro__)
    return next(kind for kind in kinds if hasattr(builtins, kind))


def _as_text(value: object) -> str:
    """A value as others read it. TypeError if it may hold words."""
    match value:
        case None | bool():
            return str(value)
        case int() if value.bit_length() <= MAX_BITS:
            return str(value)
        case float():
            return f"{value:.12g}"
        case list() | tuple():
            return f"[{', '.join(map(_as_text, value))}]"
        case dict():
            return f"{{{', '.join(f'{_as_text(k)}: {_as_text(v)}' for k, v in value.items())}}}"
    raise TypeError(value)
