"""Running cells without a folder, as tests of what asks and keeps want it."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from oversight.cache.call import Ask
from oversight.engine.runs.scheduler import CellOutcome, attempt
from oversight.engine.runs.workers import run_workers
from oversight.engine.sweeps.sweep import Cell


def run_cells(
    cells: Iterable[Cell], ask: Ask, keep: Callable[[Cell, CellOutcome], None], **how: Any
) -> Awaitable[None]:
    """Each outcome, from `ask`. how: the lanes, the stop token and so on of `run_workers`."""
    return run_workers(cells, partial(attempt, ask=ask), keep, **how)
