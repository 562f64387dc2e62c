"""Who may ask the server what: the host it is called by, the token, and the headers it answers."""

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from oversight.engine.pages.environment import policy

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE = "oversight_token"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a name or an address is of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def guard(
    host: str, port: Callable[[], int], token: str
) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware that every request passes.

    host: where the server listens. port: on which port. token: what a request must know; empty on
    loopback, where nobody else can ask. A request by another name than the server's own is
    refused: a page elsewhere may have had that name point here (DNS rebinding).
    """

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD"))
        if not _called_right(request.host, host, port()):
            raise web.HTTPMisdirectedRequest(text=f"this server is not called {request.host!r}\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.host}":
            raise web.HTTPForbidden(text="pages of other origins may not ask here\n")
        if token and not _knows(request, token):
            raise web.HTTPForbidden(text="open the address with ?token=… that the server printed\n")
        if token and "token" in request.query:
            # Out of the address at once: it would stand in histories and be sent along with it.
            clean = request.rel_url.with_query(
                {name: value for name, value in request.query.items() if name != "token"}
            )
            answer: web.StreamResponse = web.Response(
                status=303, headers={"Location": _own(str(clean))}
            )
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict", path="/")
        else:
            answer = await handler(request)
        return answer

    return guarded


async def headed(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers that every answer has, errors too."""
    response.headers.update(HEADERS)
    response.headers["Content-Security-Policy"] = f"{policy(True)}; frame-ancestors 'none'"


def _own(path: str) -> str:
    """A path of this server: `//elsewhere` would be another's."""
    return "/" + path.lstrip("/\\")


def _knows(request: web.Request, token: str) -> bool:
    given = request.query.get("token") or request.cookies.get(COOKIE, "")
    return hmac.compare_digest(given.encode(), token.encode())


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
    if host in ("0.0.0.0", "::"):
        # Everywhere: by whatever address, but by no name that somebody else may own.
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
    return name.strip("[]") == host
