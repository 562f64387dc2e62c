"""The tools of agents: a calculator, Python, and queries of the question's database.

The calculator is exact. Python is run by Monty, an isolated interpreter, in a separate process,
without files, network or environment, and with a few modules only. Its clock is fixed and its
random generator is seeded, so results repeat. Others read the result as a program's words. So that
no speaker can insert its own words, a value consists of numbers, and an error gives only its kind.

The script in `Question.environment` makes the database. Each query runs in a separate process
(`querying`), since SQLite cannot be stopped within an instruction. The process is killed at its
time limit, or when the cell ends."""

import ast
import asyncio
import builtins
import contextlib
import operator
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

from ...cache.errors import install_command
from ..errors import ToolMissing
from . import querying
from .tool import Scene, ToolResult, tool_of_text, turns

MAX_EXPRESSION = 200
"""Maximum length of an expression, in characters."""
MAX_EXPRESSION_DEPTH = 50
"""Maximum nesting of an expression, in levels."""
MAX_RESULT_BITS = 10_000
"""Maximum size of an integer, in bits; 9**9**9 would have 1.2 billion."""
TOO_MANY_BITS = f"the result has more than {MAX_RESULT_BITS} bits"
ALLOWED = "only numbers, parentheses and + - * / // % ** are allowed"


class _Refused(Exception):
    pass


_ARITHMETIC = frozenset("0123456789.eE_+-*/%() ")
"""Characters of an expression. Python reads more, such as comments, by which a speaker could show
the judge its own words as if a program had computed them."""


def calculate(expression: str) -> str:
    """The value of an arithmetic expression, or a text that starts with `error:`. Numbers,
    parentheses, + - * / // % ** and unary minus and plus; at most 200 characters, 50 levels and
    10,000 bits. Integers are exact; 10 / 4 is 2.5, 10 / 5 is 2. No error text repeats anything of
    the expression."""
    if len(expression) > MAX_EXPRESSION:
        return f"error: longer than {MAX_EXPRESSION} characters"
    if not _ARITHMETIC.issuperset(expression):
        return f"error: {ALLOWED}"
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body, 0)
    except _Refused as exc:
        return f"error: {exc}"
    except ZeroDivisionError:
        return "error: division by zero"
    except (OverflowError, MemoryError, RecursionError):
        return "error: too large"
    except (SyntaxError, ValueError):
        return "error: not an arithmetic expression"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def _value(node: ast.expr, depth: int) -> float:
    if depth > MAX_EXPRESSION_DEPTH:
        raise _Refused(f"more than {MAX_EXPRESSION_DEPTH} levels deep")
    match node:
        case ast.Constant(value=int() | float() as value):
            return _small(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner, depth + 1)
        case ast.BinOp(left=first, op=op, right=second) if type(op) in _BINARY:
            a, b = _value(first, depth + 1), _value(second, depth + 1)
            if isinstance(op, ast.Pow):
                _refuse_large_power(a, b)
            return _small(_BINARY[type(op)](a, b))
    raise _Refused(ALLOWED)


def _refuse_large_power(base: float, exponent: float) -> None:
    """Refuse a power that would be too large, before it is computed."""
    if base < 0 and not float(exponent).is_integer():
        raise _Refused("a fractional power of a negative number is not real")
    # The result has between `least` and twice as many bits, so accepted powers are cheap.
    least = (base.bit_length() - 1) * exponent if isinstance(base, int) else 0
    if isinstance(exponent, int) and least >= MAX_RESULT_BITS:
        raise _Refused(TOO_MANY_BITS)


def _small(value: float) -> float:
    if isinstance(value, int) and value.bit_length() > MAX_RESULT_BITS:
        raise _Refused(TOO_MANY_BITS)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise _Refused("too large")
    return value


async def use_calculator(expression: str, context: Scene) -> ToolResult:
    """The value of an expression, or why it has none."""
    return ToolResult(calculate(expression), expression)


CALCULATOR = tool_of_text(
    "calculator",
    "Evaluates an arithmetic expression: numbers, parentheses, + - * / // % **.",
    "expression",
    use_calculator,
)


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
    """The value of the code, or a ToolResult that says why it ended."""
    try:
        return run_code(code)
    except CodeEnded as exc:
        kind = _kind(exc.fault) if exc.fault else ""
        ended = kind in ("", "TimeoutError", "MemoryError")
        return ToolResult(ENDED if ended else f"error: {kind}")


class CodeEnded(Exception):
    """Code of a model ended without a value."""

    def __init__(self, fault: BaseException | None) -> None:
        super().__init__()
        self.fault = fault
        """The exception that ended the code; None if the interpreter itself ended."""


def run_code(*parts: str) -> object:
    """The value of the last part of some code. CodeEnded; ToolMissing if the interpreter is not
    installed. Each use starts a new interpreter, within some milliseconds, so that no state is kept
    between uses. Parts share their names, and no open string of one swallows the next."""
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
            value: object = None
            for part in parts:
                value = session.feed_run(part, print_callback=CollectString(MAX_PRINTED))
            return value
    except FileNotFoundError:
        raise missing() from None
    except MontyError as exc:
        crashed = isinstance(exc, MontyCrashedError)
        raise CodeEnded(None if crashed else exc.exception()) from exc


def missing() -> ToolMissing:
    """The error for an interpreter that is not installed."""
    return ToolMissing(f"the tool python needs an interpreter: {install_command('tools')}")


def _kind(fault: BaseException) -> str:
    """The name of the exception that ended the code; it holds none of the code's words."""
    kinds = (kind.__name__ for kind in type(fault).__mro__)
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


MAX_QUERY = 1_000
"""Maximum characters of a query."""
QUERY_SECONDS = 60
"""Maximum time of a query. Counted steps end most queries far sooner; this limit catches work that
cannot be counted, and stalled machines."""


async def use_query(sql: str, context: Scene) -> ToolResult:
    """The rows of a query, or an error that repeats nothing of it."""
    script = context.question.environment
    if not script:
        return ToolResult("error: this question has no database")
    if len(sql) > MAX_QUERY:
        return ToolResult(f"error: longer than {MAX_QUERY} characters")
    async with turns():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", querying.__file__,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                written, _ = await process.communicate(orjson.dumps((sql, script, context.claimed)))
        except TimeoutError:
            return ToolResult(f"error: it takes more than {QUERY_SECONDS} s")
        finally:
            # Even if the process has ended, `kill` would take its exit code from asyncio.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    if process.returncode:
        return ToolResult("error: this is no query of the database")
    return ToolResult(*orjson.loads(written))


QUERY = tool_of_text(
    "query",
    "Runs one SQL query (SQLite, SELECT) on the database that the question is about.",
    "sql",
    use_query,
    1.0,
)
