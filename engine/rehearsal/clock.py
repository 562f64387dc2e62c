"""A faster clock: an event loop with several seconds per real second."""

import asyncio
import selectors


class FastLoop(asyncio.SelectorEventLoop):
    """Its time runs `speed` times as fast as time does: limits, pauses, deadlines and latencies
    keep their proportions, and only this machine's own work takes as long as ever.

    Two processes that talk to each other need the same speed.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__(_FastSelector(speed))

    def time(self) -> float:
        return super().time() * self._speed


class _FastSelector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / self._speed)
