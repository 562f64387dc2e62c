"""What a run that asks in batches is told by its user."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Then: TypeAlias = Literal["live", "wait"]
"""How a call is asked whose line came back without a reply three times."""

MAX_TRIES = 3
"""Batches that a line goes out with before `Then` decides."""


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """Which calls go in batches, and how long anybody waits for them."""

    every: bool = False
    """Whether those of all models do, of which the sweep file says nothing."""
    waits: bool = True
    """Whether to wait for batches that are out; else what can be done now is done, and no more."""
    patience: float | None = None
    """Seconds from the first batch of the run on, after which batches that are out are cancelled
    and the rest is asked live; None for as long as it takes."""
    then: Then = "live"
    max_lines: int | None = None
    """Calls of one batch at most; None for as many as the vendor takes."""

    def __post_init__(self) -> None:
        if self.patience is not None and not self.patience >= 0:
            raise ValueError(f"patience: {self.patience} is not a number of seconds, 0 or more")
        if self.max_lines is not None and self.max_lines < 1:
            raise ValueError(f"max_lines: {self.max_lines} is less than 1")


LIVE = BatchTerms()
"""Nothing goes in batches but what the sweep file says."""
