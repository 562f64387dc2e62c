"""Expressions in tables: `$ …` is Python, with names of a test, and its value stands below."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from oversight import protocols
from oversight.cache.errors import CacheError
from oversight.engine.errors import EngineError
from oversight.protocols import ProtocolError
from tests.sessions import Answer

PUBLIC = {name: getattr(protocols, name) for name in protocols.__all__}
"""Every public name of the protocols."""


def expressions(names: dict[str, Any]) -> Answer:
    """The value of an expression of these names (one line per list entry), or its exception."""
    return printed(names, _short)


def printed(names: dict[str, Any], shown: Callable[[Any], str] = str) -> Answer:
    """The same, as it is printed: texts without quotation marks."""

    def answer(expression: str) -> Iterator[str]:
        try:
            value = eval(expression, dict(names))
            value = asyncio.run(value) if inspect.iscoroutine(value) else value
            yield from map(str, value) if isinstance(value, list) else [shown(value)]
        except (ValueError, TypeError, CacheError, ProtocolError, EngineError) as fault:
            yield f"{type(fault).__name__}: {fault}"

    return answer


def _short(value: Any) -> str:
    """Numbers to six digits."""
    match value:
        case float():
            return f"{value:.6g}"
        case tuple() if type(value) is tuple:
            return ", ".join(map(_short, value)) or "nothing"
        case str():
            return repr(value)
    return str(value)
