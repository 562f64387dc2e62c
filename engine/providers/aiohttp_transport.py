"""The plain transport: aiohttp without a vendor's client, for the highest throughput."""

from collections.abc import Mapping

from yarl import URL

from ..errors import OutcomeUnknown, Unreachable
from .deadline import within
from .exchange import Sending
from .pool import ConnectionPool
from .transport import Response, Transport


class AiohttpTransport(Transport):
    """Posts below a base URL, with the same credentials each time.

    source: the provider's name, for messages. auth: authentication headers.
    """

    def __init__(
        self, source: str, base_url: str, auth: Mapping[str, str], pool: ConnectionPool
    ) -> None:
        self._source = source
        self._base_url = base_url.rstrip("/")
        self._auth = dict(auth)
        self._headers: tuple[Mapping[str, str], dict[str, str]] = ({}, {})
        """The headers of the last request, without the credentials and with them."""
        self._pool = pool
        self._urls: dict[str, URL] = {}

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(self._base_url + path)
        if self._headers[0] is not headers:
            self._headers = headers, {**headers, **self._auth}
        sending = Sending()
        try:
            with within(deadline):
                return await self._pool.post(url, self._headers[1], body, sending)
        except TimeoutError as exc:
            raise overdue(self._source, deadline, sending.sent) from exc

    async def close(self) -> None:
        await self._pool.close()


def overdue(source: str, deadline: float, sent: bool) -> OutcomeUnknown | Unreachable:
    """The error for an exchange that took longer than `deadline` seconds."""
    if sent:
        return OutcomeUnknown(f"{source}: no whole answer within {deadline:g} s")
    return Unreachable(f"{source}: no connection within {deadline:g} s")
