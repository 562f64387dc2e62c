"""The port to a vendor's batch endpoint: submit, find, poll, read results, cancel."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, TypeAlias

from ..providers.fault import ErrorAnswer
from ..providers.settings import Settings
from ..providers.wire import Wire
from .vendor_http import VendorHttp

Lost: TypeAlias = Literal["Expired", "Cancelled", "Missing"]
"""Why a line has no result. Expired and cancelled lines are not billed; missing ones may be."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum size of one batch."""

    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch that was submitted, or may have been."""

    mark: str
    """Our own id, made before it is submitted."""
    model: str
    lines: int
    at: float
    """Seconds since 1970, just before it was submitted."""
    tokens: float = 0.0
    """What it puts into the queue of the model: prompts, about, and all of max_tokens."""
    worst: float = 0.0
    """Maximum cost in dollars."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch at the vendor."""

    done: int
    """Lines with a result so far, where the vendor says so before the end."""
    ended: bool
    downloads: tuple[str, ...] = ()
    """Paths of the result files, once it has ended."""
    absent: Lost = "Missing"
    """Fate of lines that the results do not mention."""
    fault: ErrorAnswer | None = None
    """Why the batch was refused as a whole; then no line was asked."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line."""

    address: str
    status: int
    """HTTP status, as of a live call."""
    body: bytes
    lost: Lost | None = None
    """Why there is neither status nor body; None where there are."""


class BatchEndpoint(ABC):
    """The batch endpoint of one provider. The custom id of a line is its call's address.

    Raises the faults of live calls. A batch may exist although its submission failed: `find` tells.
    """

    caps: Caps
    shows_marks: ClassVar[bool] = True
    """Whether its list of batches shows our marks."""

    def __init__(self, settings: Settings, wire: Wire) -> None:
        self.settings = settings
        self.wire = wire
        self.http = VendorHttp(settings, wire)

    @abstractmethod
    def line(self, address: str, body: bytes) -> bytes:
        """One call in the format of a batch. body: of the live request."""

    @abstractmethod
    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        """Write a whole batch as it is uploaded."""

    @abstractmethod
    async def submit(self, mark: str, file: Path) -> str:
        """Submit a batch; the vendor's id of it."""

    @abstractmethod
    async def find(self, lost: Submission, known: Collection[str]) -> str | None:
        """The id of a batch whose submission was not answered; None if it does not exist.

        known: ids of other batches. Where the list does not show marks this may be another's batch
        of the same age and size, which only its results show.
        """

    @abstractmethod
    async def state(self, id: str) -> BatchState: ...

    @abstractmethod
    def read(self, line: bytes) -> LineResult:
        """One line of the results; LookupError, TypeError or ValueError for any other."""

    @abstractmethod
    async def cancel(self, id: str) -> None:
        """Have the vendor begin no more of its lines. Finished ones are billed and have results."""
