"""The port for one HTTP exchange: bytes out, bytes in. It knows no calls, models or keys."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

DEADLINE = 600.0
"""Seconds from handing over a request to holding the whole answer, unless settings say else."""
BODY_CAP = 32 * 2**20
"""The most bytes of an answer, decompressed."""
PROXY_MEND = (
    "it wants a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT, or NO_PROXY for "
    "servers that need none"
)
"""What to do about a 407."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes
    """Decompressed."""
    repeats_key: bool = False
    """Whether a key was found in it, and hidden; see `Secret`."""


class Transport(ABC):
    """One way to a server. Any status is a Response; only a failed exchange raises.

    Unreachable: nothing was sent. Ambiguous: sent, but no whole answer came in time. Malformed:
    an answer over the cap, or one that cannot be decompressed. ProviderDown: the server's
    certificate is bad. AuthenticationFailed: no credentials could be had.
    """

    @abstractmethod
    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response:
        """Exchange one request for one answer within `deadline` seconds, all told.

        On cancellation the connection is closed; whether the server has billed is not known.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Exchanges under way fail as Ambiguous."""


class Deferred(Transport):
    """A transport that is made when the first request goes out: a replay loads no client at all."""

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._made: Transport | None = None

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response:
        if self._made is None:
            self._made = self._make()
        return await self._made.post(path, headers, body, deadline)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
