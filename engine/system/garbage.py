"""Garbage collection tuned for a run: rare, and without the objects that are there to stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""Net allocations between two collections of the youngest generation. Python's default of 700 cost
a sixth of all time, because every call in flight is traversed again and again."""

LOADING = 3 * YOUNG
"""The same while a command is loaded and prepared: some 60,000 objects are made that stay, and
looking through them once is a twentieth of the time to the first request."""


@contextmanager
def gc_relaxed(young: int = YOUNG) -> Iterator[None]:
    """While the body runs, freeze the objects made before it, and collect the others rarely.

    young: net allocations between two collections of the youngest generation.

    The collector belongs to the whole process: its settings are restored when the body ends.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
