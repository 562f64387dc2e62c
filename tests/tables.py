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
    """The value of an expression of these names (one line per list entry), or the exception that it
    raises."""
    return printed(names, _short)


def printed(names: dict[str, Any], shown: Callable[[Any], str] = str) -> Answer:
    """The same, as it is printed: texts without quotation marks."""

    def answer(asked: str) -> Iterator[str]:
        try:
            found = eval(asked, dict(names))
            found = asyncio.run(found) if inspect.iscoroutine(found) else found
            yield from map(str, found) if isinstance(found, list) else [shown(found)]
        except (ValueError, TypeError, CacheError, ProtocolError, EngineError) as fault:
            yield f"{type(fault).__name__}: {fault}"

    return answer


def _short(found: Any) -> str:
    """Numbers to six digits."""
    match found:
        case float():
            return f"{found:.6g}"
        case tuple() if type(found) is tuple:
            return ", ".join(map(_short, found)) or "nothing"
        case str():
            return repr(found)
    return str(found)
