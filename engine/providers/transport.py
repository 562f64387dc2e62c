"""The interface for one HTTP exchange: bytes out, bytes in; unaware of calls, models and keys."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Mapping
from traceback import clear_frames

from msgspec import Struct

BODY_CAP = 32 * 2**20
"""Maximum size of an answer in bytes, decompressed."""
PROXY_REMEDY = (
    "it wants a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT, or NO_PROXY for "
    "servers that need none"
)
"""What to do about a 407."""


class Response(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes
    """Decompressed."""
    repeats_key: bool = False
    """Whether a key was found in it, and hidden; see `Secret`."""
    sent: float = 0.0
    """When its request was sent (loop time, s); 0 if that is not known."""


NOTHING = Response(0, {}, b"")
"""Takes the place of a response that must not be kept."""


class Transport(ABC):
    """Sends requests to one server. Any status is a Response; only a failed exchange raises.

    Raises: as `HttpClient`; AuthenticationFailed: there are no credentials.
    """

    @abstractmethod
    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Awaitable[Response]:
        """Send for an answer, which `read` takes in. about: a call's address, for messages.

        Cancellation closes the connection; whether the server has billed is then unknown.
        """

    @abstractmethod
    def read(self, came: Response) -> Response:
        """What `post` has given, decompressed and without the key; see `HttpClient.read`."""

    async def quiet_down(self) -> None:
        """Wait for answers that come unasked after the last ones."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Exchanges under way fail with OutcomeUnknown."""


def chain(exc: BaseException | None) -> Iterator[BaseException]:
    """An exception, then its causes and contexts."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        seen.append(exc)
        yield exc
        exc = exc.__cause__ or exc.__context__


def forget(exc: BaseException) -> None:
    """Clear the frames of an exception's tracebacks, except those that are still running.

    While anything holds the exception, they hold the key, and bodies of up to 32 MB each.
    """
    for fault in chain(exc):
        clear_frames(fault.__traceback__)
