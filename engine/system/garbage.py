"""The garbage collector while a run is under way: seldom, and not over what is there to stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""Objects made and still there before the young ones are looked through; Python's own 700 cost a
sixth of all time, since every call in flight is looked through again and again."""


@contextmanager
def gc_relaxed(young: int = YOUNG) -> Iterator[None]:
    """While the body runs, what was there before it is left alone, and the rest seldom visited.

    young: objects made and still there before the young ones are looked through.

    The collector belongs to the whole process: it is as it was when the body ends.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
