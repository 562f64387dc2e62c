"""The transport over vendors' clients: their auth, regions and signatures, our connections.

The client's raw `post` is used, never its typed methods: those would transform every message and
parse every reply a second time. The pool beneath is that of the plain transport, so faults are
mapped, bodies capped and keys hidden in one place.

Importing this module imports httpx2; the catalogue does so when the first call is sent.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

import httpx2
import orjson
from yarl import URL

from ..errors import AuthenticationFailed, EngineError
from .aiohttp_transport import overdue
from .deadline import within
from .exchange import Sending
from .pool import ConnectionPool
from .transport import Response, Transport

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex
    from openai import AsyncOpenAI

    Client: TypeAlias = AsyncOpenAI | AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex

_SENDING: ContextVar[Sending] = ContextVar("sending")
"""The `Sending` of this task, since client libraries do not pass objects of ours through."""

_ANSWER = "oversight.answer"


class SdkTransport(Transport):
    """Posts through a client library, which knows the base URL and the credentials.

    make: builds the client around an HTTP client; called when the first request is sent.
    as_tree: whether the client needs the body as a dict, as those of clouds do, which move the
    model's name from there into the URL.
    """

    def __init__(
        self,
        source: str,
        make: "Callable[[httpx2.AsyncClient], Client]",
        pool: ConnectionPool,
        *,
        as_tree: bool = False,
    ) -> None:
        self._source = source
        self._make = make
        self._pool = pool
        self._as_tree = as_tree
        self._client: Client | None = None

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response:
        sending = Sending()
        token = _SENDING.set(sending)
        try:
            with within(deadline):
                return await self._post(path, headers, body)
        except TimeoutError as exc:
            raise overdue(self._source, deadline, sending.sent) from exc
        finally:
            _SENDING.reset(token)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        await self._pool.close()

    async def _post(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        try:
            if self._client is None:
                self._client = self._make(_http_client(self._pool))
            if self._as_tree:
                came = await self._client.post(
                    path,
                    cast_to=httpx2.Response,
                    body=orjson.loads(body),
                    options={"headers": dict(headers)},
                )
            else:
                came = await self._client.post(
                    path, cast_to=httpx2.Response, content=body, options={"headers": dict(headers)}
                )
        except EngineError:
            raise
        except Exception as exc:
            came = self._answer_within(exc)
        answer: Response = came.extensions[_ANSWER]
        return answer

    def _answer_within(self, exc: Exception) -> httpx2.Response:
        """Unwrap what a client raised: the response of a bad status, or the pool's own error."""
        if isinstance(exc.__cause__, EngineError):
            raise exc.__cause__ from exc.__cause__.__cause__
        response = getattr(exc, "response", None)
        if isinstance(response, httpx2.Response):
            return response
        # It failed before anything was sent: no credentials, no region, a missing extra.
        said = self._pool.secret.hidden_in(" ".join(str(exc).split()))
        if isinstance(exc, ModuleNotFoundError):
            said += f"; pip install 'anthropic[{self._source}]'"
        raise AuthenticationFailed(f"{self._source}: cannot prepare a request: {said}") from (
            self._pool.quotable(exc)
        )


class _Backend(httpx2.AsyncBaseTransport):
    """Sends the requests that a client has prepared through a pool."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._urls: dict[str, URL] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        written = str(request.url)
        url = self._urls.get(written)
        if url is None:
            url = self._urls[written] = URL(written, encoded=True)
        answer = await self._pool.post(url, _decoded(request), request.content, _SENDING.get())
        # The client needs neither body nor headers; SdkTransport takes the answer from here.
        return httpx2.Response(answer.status, request=request, extensions={_ANSWER: answer})


def _decoded(request: httpx2.Request) -> dict[str, str]:
    """Headers of a request; decoded here, as the library guesses the encoding at every access."""
    return {name.decode(): value.decode() for name, value in request.headers.raw}


def _http_client(pool: ConnectionPool) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=_Backend(pool),
        headers={"accept-encoding": "gzip, deflate"},
        follow_redirects=False,
        trust_env=False,
    )
