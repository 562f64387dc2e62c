"""The event loop: uvloop where there is one."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec


def event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of event loops; asyncio's own where uvloop is not installed."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
