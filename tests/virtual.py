"""An event loop whose clock jumps to the next timer, so that no test ever sleeps."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
TICK = 1e-9
"""Seconds that a turn of the loop takes. As with a real clock, time never stands still: code
that waits for a hair more than a float can hold would otherwise turn for ever."""

POLL = 64
"""Turns of the loop between two looks at sockets and other threads, each of which is a system call;
where nothing else can go on, it looks at once."""


class _Jump(selectors.DefaultSelector):
    """Takes the time that a selector would wait off the clock, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            # Nothing is due: only another thread or a socket can go on, in real time.
            return super().select(None)
        self.now += timeout if timeout > TICK else TICK
        self._turns += 1
        return [] if self._turns % POLL else super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 s and advances only by the time that the loop would have waited."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` under a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtually(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run a test under a virtual clock."""

    @wraps(test)
    def ran(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return ran


def now() -> float:
    """Loop time (s)."""
    return asyncio.get_running_loop().time()
