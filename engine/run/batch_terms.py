"""How a run uses batches, as its user wants it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

FOLDER = "batches"
"""What a run keeps of its batches, in its folder."""

Then: TypeAlias = Literal["live", "wait"]
"""What becomes of a call to which three batches brought no reply."""


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """Which calls go in batches, and how long the run waits for them."""

    every: bool = False
    """Whether all models do that the sweep file does not mention."""
    waits: bool = True
    """Whether to wait for batches; else the run does what can be done now, and stops."""
    patience: float | None = None
    """Seconds from the first batch of the run to wait; then batches that are out are cancelled and
    the rest is asked live. None: as long as it takes."""
    then: Then = "live"
    max_lines: int | None = None
    """Maximum number of calls per batch; None: the vendor's."""
    cancels: tuple[str, ...] | None = None
    """Set to cancel batches and do no work: the ids or marks of those to give up, or () to cancel
    all of them."""

    def __post_init__(self) -> None:
        if self.patience is not None and not self.patience >= 0:
            raise ValueError(f"patience: {self.patience} is not a number of seconds, 0 or more")
        if self.max_lines is not None and self.max_lines < 1:
            raise ValueError(f"max_lines: {self.max_lines} is less than 1")


LIVE = BatchTerms()
"""Only the models that the sweep file names go in batches."""
