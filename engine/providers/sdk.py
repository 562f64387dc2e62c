"""Vendors' client libraries over our HTTP client: their auth, regions and signatures.

All settings are passed explicitly: clients read only cloud credentials from the environment. Only
the client's raw `post` is used: typed methods would transform every message and parse every reply
again. The underlying HTTP client is the plain transport's, so faults are mapped, bodies capped and
keys hidden in one place.

Importing this module imports httpx2, so it is imported with the first call."""

import importlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx2
import orjson

from ..errors import AuthenticationFailed, EngineError
from .http_client import HttpClient
from .transport import Response, Target, Transport

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex
    from openai import AsyncOpenAI

    from .settings import Settings

    Client: TypeAlias = AsyncOpenAI | AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex


def load_clients(*providers: str) -> None:
    """Import the clients of these providers now: the first call would be a second late."""
    for provider in {"openai", "azure", *_CREDENTIALS}.intersection(providers):
        importlib.import_module("anthropic" if provider in _CREDENTIALS else "openai")


AZURE_PATH = "/openai/v1"
"""Where Azure has OpenAI's own API."""

_CREDENTIALS: "dict[str, tuple[str, Callable[[Settings], dict[str, Any]]]]" = {
    "anthropic": ("AsyncAnthropic", lambda settings: {"api_key": settings.key}),
    "foundry": ("AsyncAnthropicFoundry", lambda settings: {"api_key": settings.key}),
    "bedrock": (
        "AsyncAnthropicBedrock",
        lambda settings: {"api_key": settings.key or None, "aws_region": settings.option("region")},
    ),
    "vertex": (
        "AsyncAnthropicVertex",
        lambda settings: {
            "access_token": settings.key or None,
            "region": settings.option("region"),
            "project_id": settings.option("project"),
        },
    ),
}
"""By provider, its class in Anthropic's library, and its special arguments."""


def openai_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncOpenAI":
    from openai import AsyncOpenAI

    base_url = settings.base_url
    if settings.provider == "azure":
        # The address may already contain the path.
        base_url = base_url.removesuffix(AZURE_PATH) + AZURE_PATH
    return AsyncOpenAI(
        api_key=settings.key,
        organization=settings.option("organization") or None,
        project=settings.option("project") or None,
        base_url=base_url,
        **_once(settings, http),
    )


def anthropic_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropic":
    """A client for Anthropic or a cloud that resells its models, without tracing."""
    library = importlib.import_module("anthropic")
    name, credentials = _CREDENTIALS[settings.provider]
    client: AsyncAnthropic = getattr(library, name)(
        base_url=settings.base_url,
        open_telemetry=False,
        **credentials(settings),
        **_once(settings, http),
    )
    return client


def _once(settings: "Settings", http: "httpx2.AsyncClient") -> dict[str, Any]:
    """Options of a client: our connections and deadline, and no retries."""
    return {"timeout": settings.deadline, "max_retries": 0, "http_client": http}


_ANSWER = "oversight.answer"
_ABOUT: ContextVar[str] = ContextVar("about")
"""The call that this task sends, since client libraries do not pass it through."""


class SdkTransport(Transport):
    """Posts through a client library, which knows the base URL and the credentials.

    make: builds the vendor's client around an HTTP client, for the first request. as_tree: whether
    the client needs the body as a dict. Clients of clouds do: they move the model's name from there
    into the URL."""

    def __init__(
        self,
        source: str,
        make: "Callable[[httpx2.AsyncClient], Client]",
        client: HttpClient,
        *,
        as_tree: bool = False,
    ) -> None:
        self._source = source
        self._make = make
        self._http = client
        self._as_tree = as_tree
        self._client: Client | None = None

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Response:
        _ABOUT.set(about)
        try:
            if self._client is None:
                self._client = self._make(
                    httpx2.AsyncClient(
                        transport=_Backend(self._http),
                        headers={"accept-encoding": "gzip, deflate"},
                        follow_redirects=False,
                        trust_env=False,
                    )
                )
            content: Any = {"body": orjson.loads(body)} if self._as_tree else {"content": body}
            came = await self._client.post(
                path, cast_to=httpx2.Response, options={"headers": dict(headers)}, **content
            )
        except EngineError:
            raise
        except Exception as exc:
            came = self._answer_within(exc)
        answer: Response = came.extensions[_ANSWER]
        return answer

    def read(self, came: Response) -> Response:
        return self._http.read(came)

    async def quiet_down(self) -> None:
        await self._http.quiet_down()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        await self._http.close()

    def _answer_within(self, exc: Exception) -> httpx2.Response:
        """Unwrap an exception of a client: return the response of a bad status, or raise the
        transport's error."""
        if isinstance(exc.__cause__, EngineError):
            raise exc.__cause__ from exc.__cause__.__cause__
        response = getattr(exc, "response", None)
        if isinstance(response, httpx2.Response):
            return response
        # It failed before sending: missing credentials, region or extra.
        message = self._http.secret.hidden_in(" ".join(str(exc).split()))
        if isinstance(exc, ModuleNotFoundError):
            message += f"; pip install 'anthropic[{self._source}]'"
        fault = AuthenticationFailed(f"{self._source}: cannot prepare a request: {message}")
        raise fault.unsent() from self._http.quotable(exc)


class _Backend(httpx2.AsyncBaseTransport):
    """Sends the requests of a vendor's client through ours."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._client.send(_target(request), request.content, _ABOUT.get())
        # The vendor's client needs neither body nor headers; SdkTransport takes the answer.
        return httpx2.Response(answer.status, request=request, extensions={_ANSWER: answer})


def _target(request: httpx2.Request) -> Target:
    """The target of a request. A separate function, so that the frame of a failed call holds no
    key. Headers are decoded here, since the library guesses their encoding at every access."""
    headers = {name.decode(): value.decode() for name, value in request.headers.raw}
    return Target(request.method, str(request.url), headers)
