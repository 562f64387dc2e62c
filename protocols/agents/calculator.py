"""The calculator: exact arithmetic for agents."""

import ast
import operator
from collections.abc import Callable

from .tool import Scene, ToolResult, tool_of_text

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
    """The value of an arithmetic expression, or a text that starts with `error:`.

    Numbers, parentheses, + - * / // % ** and unary minus and plus; at most 200 characters,
    50 levels and 10,000 bits. Integers are exact; 10 / 4 is 2.5, 10 / 5 is 2. No error text
    repeats anything of the expression.
    """
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
