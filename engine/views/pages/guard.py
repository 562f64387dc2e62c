"""Access control of the pages: host name, origin, token, headers, and limits on connections.

The limits keep visitors from starving a run."""

import asyncio
import hmac
import ipaddress
import resource
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from .environment import policy

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE = "oversight_token"

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that stand for every address of this machine; nobody can open them."""

TOKEN = web.RequestKey("token", str)
"""Key of a request's token; empty if none is needed."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # A form that is sent under no-referrer would not say where it comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


IDLE_SECONDS = 15.0
"""How long a connection may be without a whole request: from its start, and between two."""
BODY_SECONDS = 30.0
"""How long the body of a request may take."""
MAX_CONNECTIONS = 512
"""Connections of all clients together; at most a quarter of the files that may be open."""
MAX_PER_CLIENT = 128
"""Connections from one address; raters behind one proxy share them."""


def is_loopback(host: str) -> bool:
    """Whether a name or an address is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Access rules of a server: its host, tokens and methods."""

    host: str
    """Host on which the server listens."""
    tokens: tuple[str, ...] = ()
    """Tokens of which a request must carry one; empty on loopback, which others cannot reach."""
    cookie: str = COOKIE
    """Cookie of the token. Cookies ignore ports, so servers on one host need different names."""
    methods: tuple[str, ...] = ("GET", "HEAD")
    public_url: str = ""
    """Origin under which people reach the server through a proxy or a tunnel that ends TLS, as
    `https://study.example.org`; empty where they reach it directly."""


def guard(
    rules: Callable[[], AccessRules], port: Callable[[], int]
) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware that every request passes; it puts the token under TOKEN.

    rules: as they are now. port: where the server listens. A request by another name than the
    server's own is refused: a page elsewhere may have had that name point here (DNS rebinding).
    A request that changes anything must name an origin of ours."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        access = rules()
        if request.method not in access.methods:
            raise web.HTTPMethodNotAllowed(request.method, access.methods)
        proxied = access.public_url.partition("://")[2] == request.host
        if not proxied and not _called_right(request.host, access.host, port()):
            raise web.HTTPMisdirectedRequest(text=f"unknown host name: {request.host!r}\n")
        origin = request.headers.get("Origin")
        changes = request.method not in ("GET", "HEAD")
        ours = [f"http://{request.host}", *filter(None, [access.public_url])]
        if (changes or origin is not None) and origin not in ours:
            raise web.HTTPForbidden(text="requests from other origins are refused\n")
        request[TOKEN] = token = _known(request, access)
        if access.tokens and not token:
            raise web.HTTPForbidden(
                text="Open the link that you were sent, including the part after ?token=. "
                "The previous page still has your text: go back to it.\n"
            )
        if not access.tokens or "token" not in request.query:
            return await handler(request)
        # Redirect without the token, which would stay in histories and be sent as referrer.
        clean = str(request.rel_url.without_query_params("token"))
        # One slash: `//host` would lead to another server.
        answer = web.Response(status=303, headers={"Location": "/" + clean.lstrip("/\\")})
        # Lax: a link in a mail leads here from another site, and the redirect must find the
        # cookie. Requests that change anything must come from our origin, see above.
        answer.set_cookie(
            access.cookie,
            token,
            httponly=True,
            samesite="Lax",
            secure=access.public_url.startswith("https://"),
            path="/",
        )
        return answer

    return guarded


async def headed(
    sheets: tuple[str, ...], request: web.Request, response: web.StreamResponse
) -> None:
    """Set the headers of every response, errors included. sheets: that its pages may have."""
    response.headers.update(HEADERS)
    if response.status >= 400:
        # A refused client must open a new connection: on this one its next request would be lost.
        # By now aiohttp has decided on this header.
        response.force_close()
        response.headers["Connection"] = "close"
    response.headers["Content-Security-Policy"] = (
        f"{policy(True, sheets=sheets)}; frame-ancestors 'none'"
    )


def _known(request: web.Request, access: AccessRules) -> str:
    """The valid token of a request, or an empty text."""
    presented = request.query.get("token") or request.cookies.get(access.cookie, "")
    # Bytes that are not UTF-8 became surrogates.
    key, valid = presented.encode(errors="surrogateescape"), ""
    for token in access.tokens:
        # All are compared, so that timing reveals nothing.
        if hmac.compare_digest(key, token.encode()):
            valid = token
    return valid


def _called_right(called: str, host: str, port: int) -> bool:
    name, _, at = called.rpartition(":") if not called.endswith("]") else (called, "", "")
    if not name:
        name, at = called, ""
    if at and at != str(port):
        return False
    if is_loopback(name):
        return True
    if is_loopback(host):
        return False
    if host in EVERYWHERE:
        # Any address may be used, but no name that somebody else may own.
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
    return name.strip("[]") == host


class Listener:
    """Makes connections' protocols. Beyond a cap the oldest idle one, or the new one, is closed."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(min(MAX_CONNECTIONS, files // 4), 8)
        self._open: deque[_Visit] = deque()
        """The oldest first."""

    def __call__(self) -> "_Visit":
        return _Visit(self, self._server)

    def admit(self, visit: "_Visit") -> bool:
        """Whether a new connection may stay."""
        ours = [visits for visits in self._open if visits.client == visit.client]
        if len(ours) >= min(MAX_PER_CLIENT, self._most) and not _close_one(ours):
            return False
        if len(self._open) >= self._most and not _close_one(self._open):
            return False
        self._open.append(visit)
        return True

    def forget(self, visit: "_Visit") -> None:
        if visit in self._open:
            self._open.remove(visit)


class _Visit(RequestHandler):
    """One connection."""

    __slots__ = ("_listener", "client")

    def __init__(self, listener: Listener, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=1.0,
        )
        self._listener = listener
        self.client = ""

    @property
    def waits(self) -> bool:
        """Whether no request of it is being answered."""
        return self._current_request is None and not self._messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        self.client = name[0] if isinstance(name, tuple) else ""
        super().connection_made(transport)
        if not self._listener.admit(self):
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.forget(self)
        super().connection_lost(exc)


def _close_one(visits: "list[_Visit] | deque[_Visit]") -> bool:
    """Close the oldest connection that waits for a request; False if none waits."""
    waiting = next((visit for visit in visits if visit.waits), None)
    if waiting is None:
        return False
    waiting._listener.forget(waiting)
    waiting.force_close()
    return True


@web.middleware
async def bodies_in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the whole body before anything else is done with the request."""
    if request.can_read_body:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="the request took too long to arrive\n") from None
    return await handler(request)
