"""A vendor's batch endpoint: where calls are handed in, asked after, and collected."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, TypeAlias

from oversight.engine.batches.vendor_http import VendorHttp
from oversight.engine.providers.fault import ErrorAnswer
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.wire import Wire

Lost: TypeAlias = Literal["Expired", "Cancelled", "Missing"]
"""Why a line has no result: the day was over or the batch was cancelled, and it is not billed; or
nobody said a word of it, and it may be."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one batch may hold."""

    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch that was handed in, or may have been."""

    mark: str
    """Ours, made before it is handed in."""
    model: str
    lines: int
    at: float
    """Seconds since 1970, just before it was handed in."""
    tokens: float = 0.0
    """What it puts into the queue of the model: prompts, about, and all of max_tokens."""
    worst: float = 0.0
    """Dollars at most."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """How it stands with a batch."""

    done: int
    """Lines that have a result, as far as the vendor tells before the end."""
    ended: bool
    downloads: tuple[str, ...] = ()
    """Paths of the results, once it has ended."""
    absent: Lost = "Missing"
    """What became of lines that the results do not mention."""
    fault: ErrorAnswer | None = None
    """Why the whole batch was turned down, and nothing of it asked."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """What came of one line."""

    address: str
    status: int
    """As the answer to a live call would have it."""
    body: bytes
    lost: Lost | None = None
    """Why there is neither status nor body; None where they are there."""


class BatchEndpoint(ABC):
    """The batch endpoint of one provider. A call's address is the id of its line.

    Raises what calls raise. That a request failed does not say that a batch was not made of it:
    `find` does.
    """

    caps: Caps
    shows_marks: ClassVar[bool] = True
    """Whether its list of batches tells ours from others'."""

    def __init__(self, settings: Settings, wire: Wire) -> None:
        self.settings = settings
        self.wire = wire
        self.http = VendorHttp(settings, wire)

    @abstractmethod
    def line(self, address: str, body: bytes) -> bytes:
        """One call as a batch holds it. body: as it would be posted."""

    @abstractmethod
    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        """A whole batch as it is handed in."""

    @abstractmethod
    async def submit(self, mark: str, file: Path) -> str:
        """Hand in a batch; the vendor's id of it."""

    @abstractmethod
    async def find(self, lost: Submission, known: Collection[str]) -> str | None:
        """The id of a batch whose handing in was not answered; None if there is none such.

        known: ids that are of other batches. A vendor whose list does not show marks may give
        another's batch of the same age and size: its results tell.
        """

    @abstractmethod
    async def state(self, id: str) -> BatchState: ...

    @abstractmethod
    def read(self, line: bytes) -> LineResult:
        """One line of the results, in whatever order they came; LookupError, TypeError or
        ValueError if it is none."""

    @abstractmethod
    async def cancel(self, id: str) -> None:
        """Have the vendor begin no more of its lines. What is done is billed, and comes."""

    async def close(self) -> None:
        await self.http.close()


def batch_endpoint(settings: Settings, wire: Wire) -> BatchEndpoint:
    """The endpoint of a provider that takes batches."""
    from oversight.engine.batches.anthropic_endpoint import AnthropicEndpoint
    from oversight.engine.batches.openai_endpoint import OpenAIEndpoint

    endpoints: dict[str, type[BatchEndpoint]] = {
        "openai": OpenAIEndpoint,
        "anthropic": AnthropicEndpoint,
    }
    return endpoints[settings.provider](settings, wire)
