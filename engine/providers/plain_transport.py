"""The plain transport: our client without a vendor's, for the highest throughput."""

from collections.abc import Awaitable, Mapping

from .http_client import HttpClient
from .settings import Settings
from .target import Target
from .transport import Response, Transport


class PlainTransport(HttpClient, Transport):
    """Posts below a base URL, with the same credentials each time."""

    def __init__(self, settings: Settings, base_url: str, auth: Mapping[str, str]) -> None:
        """auth: authentication headers."""
        # Short of the five seconds after which uvicorn, under most such servers, hangs up.
        super().__init__(settings, keep_alive=4.0)
        self._base_url = base_url.rstrip("/")
        self._auth = dict(auth)
        self._last: tuple[str, Mapping[str, str], Target] | None = None
        """Path and headers of the last request, and what they make."""

    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Awaitable[Response]:
        last = self._last
        if last is None or last[0] is not path or last[1] is not headers:
            target = Target("POST", self._base_url + path, {**headers, **self._auth})
            last = self._last = path, headers, target
        return self.send(last[2], body, about)
