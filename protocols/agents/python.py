"""Code that a speaker wrote, run by Monty: a Python interpreter that reaches nothing outside.

It runs in a process of its own, and has no files, no network, no environment, and no modules but a
few that it brings along. Its clock stands still and its chance has a seed, so that the same code
gives the same. Others read what comes of it as the words of a program; so that no speaker can put
its own there, the value is made of numbers, and of an error only its kind is told.
"""

import asyncio
import builtins
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...cache.extras import install_command
from ..errors import ToolMissing
from .tool import ToolContext, ToolResult, tool_of_text, turns

if TYPE_CHECKING:
    from pydantic_monty import MontyError

MAX_CODE = 4_000
"""Characters."""
SECONDS = 5.0
"""Of running. Code near this may end on one machine and not on another."""
MEMORY = 64 * 2**20
"""Bytes."""
MAX_CALLS = 200
"""Levels of calls within calls."""
MAX_SHOWN = 1_000
"""Characters of the value."""
MAX_BITS = 10_000
"""Size of a whole number."""
NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
"""What the clock says."""
MAX_PRINTED = 65_536
"""Bytes that are printed, which nobody reads."""

ENDED = f"error: more than {SECONDS:g} s or {MEMORY // 2**20} MB"
"""Of code that a limit ended, whichever it met first: that depends on the machine."""
REFUSED = (
    "error: the last line must be an expression whose value is a number, True, False or None, or "
    "a list, tuple or mapping of them"
)


async def use_python(code: str, context: ToolContext) -> ToolResult:
    """The value of the last expression of a piece of code, or an error that holds nothing of it.
    ToolMissing where there is no interpreter. Cancelled, the code still has its SECONDS."""
    if len(code) > MAX_CODE:
        return ToolResult(f"error: longer than {MAX_CODE} characters")
    async with turns():
        # On a thread: the interpreter's own asynchronous pool can be left behind by a cancellation.
        value = await asyncio.to_thread(_run, code)
    if isinstance(value, ToolResult):
        return value
    try:
        told = _told(value)
    except (TypeError, RecursionError):
        return ToolResult(REFUSED)
    if len(told) > MAX_SHOWN:
        return ToolResult(f"error: the value takes more than {MAX_SHOWN} characters")
    return ToolResult(told, "code of the speaker")


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
    """What to say where the interpreter is not installed."""
    return ToolMissing(f"the tool python needs an interpreter: {install_command('tools')}")


def _kind(fault: "MontyError") -> str:
    """What ended the code: the name of an exception, which holds nothing that the code says."""
    kinds = (kind.__name__ for kind in type(fault.exception()).__mro__)
    return next(kind for kind in kinds if hasattr(builtins, kind))


def _told(value: object) -> str:
    """A value as others read it. TypeError for one that may hold words."""
    match value:
        case None | bool():
            return str(value)
        case int() if value.bit_length() <= MAX_BITS:
            return str(value)
        case float():
            return f"{value:.12g}"
        case list() | tuple():
            return f"[{', '.join(map(_told, value))}]"
        case dict():
            return f"{{{', '.join(f'{_told(k)}: {_told(v)}' for k, v in value.items())}}}"
    raise TypeError(value)
