"""The interface for one HTTP exchange: bytes out, bytes in; unaware of calls, models and keys."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...cache.frozen import fast_init

if TYPE_CHECKING:
    from .connection import ServerConnection

DEADLINE = 600.0
"""Default deadline of an exchange: seconds from handing over a request to the whole answer."""
BODY_CAP = 32 * 2**20
"""Maximum size of an answer in bytes, decompressed."""
PROXY_REMEDY = (
    "it wants a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT, or NO_PROXY for "
    "servers that need none"
)
"""What to do about a 407."""


@fast_init
@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes
    """Decompressed."""
    repeats_key: bool = False
    """Whether a key was found in it, and hidden; see `Secret`."""
    connection: "ServerConnection | None" = None
    """Where it came from; None where that is not known."""


NOTHING = Response(0, {}, b"")
"""Takes the place of a response that must not be kept."""


class Transport(ABC):
    """Sends requests to one server. Any status is a Response; only a failed exchange raises.

    Raises: Unreachable: nothing was sent. OutcomeUnknown: sent, but no whole answer came in time.
    Malformed: an answer over the cap, or one that cannot be decompressed. ProviderDown: the
    server's certificate is bad. AuthenticationFailed: there are no credentials.
    """

    @abstractmethod
    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response:
        """Exchange one request for one answer within `deadline` seconds in total.

        Cancellation closes the connection; whether the server has billed is then unknown.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Exchanges under way fail with OutcomeUnknown."""


class Deferred(Transport):
    """A transport made when the first request is sent, so that a replay loads no client at all."""

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._made: Transport | None = None

    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Coroutine[Any, Any, Response]:
        if self._made is None:
            self._made = self._make()
        return self._made.post(path, headers, body, deadline)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
