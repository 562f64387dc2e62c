"""What the viewer and the raters' pages share: access control, errors as pages, a clean end."""

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from ...errors import EngineError
from .environment import EVERY, page
from .guard import EVERYWHERE, AccessRules, Handler, Listener, bodies_in_time, guard, headed
from .links import NoPage, ServerLinks


class Server(ABC):
    """A server of pages that answers only whom its access rules let in."""

    sheets = EVERY
    """Stylesheets and scripts that its pages may have."""

    def __init__(self, access: AccessRules, opening: str = "") -> None:
        """opening: what is appended to the address that a user opens."""
        self.access = access
        self._opening = opening
        self.port = 0

    @abstractmethod
    def routes(self) -> Iterable[web.AbstractRouteDef]: ...

    def application(self) -> web.Application:
        app = web.Application(
            middlewares=[
                guard(lambda: self.access, lambda: self.port),
                bodies_in_time,
                _faults_as_pages,
            ]
        )
        app.on_response_prepare.append(partial(headed, self.sheets))
        app.add_routes(self.routes())
        return app

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[str]:
        """Serve while the body runs; the address to open. port: 0 for any. OSError if taken."""
        logging.getLogger("aiohttp.server").addFilter(_is_ours)
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            host = self.access.host
            assert runner.server is not None, "it is set up"
            listener = await asyncio.get_running_loop().create_server(
                Listener(runner.server), host, port
            )
            async with listener:
                self.port = listener.sockets[0].getsockname()[1]
                if host in EVERYWHERE:
                    host = own_address(host)
                name = f"[{host}]" if ":" in host else host
                root = self.access.public_url or f"http://{name}:{self.port}"
                yield f"{root}/{self._opening}"
                listener.close()
                # Ends the requests under way, for which leaving the listener would wait.
                await runner.cleanup()
        finally:
            await runner.cleanup()


def own_address(everywhere: str) -> str:
    """An address by which others reach this machine; loopback where it has no other.

    everywhere: `0.0.0.0` or `::`, on which a server listens.
    """
    family, elsewhere = (
        (socket.AF_INET6, "2001:db8::1") if ":" in everywhere else (socket.AF_INET, "192.0.2.1")
    )
    try:
        # To connect a datagram socket sends nothing; it chooses the address to send from.
        with socket.socket(family, socket.SOCK_DGRAM) as chosen:
            chosen.connect((elsewhere, 9))
            return str(chosen.getsockname()[0])
    except OSError:
        return "::1" if family == socket.AF_INET6 else "127.0.0.1"


def html(text: str, status: int = 200) -> web.Response:
    """A page as an answer."""
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


@web.middleware
async def _faults_as_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Faults as pages that say what to do."""
    try:
        return await handler(request)
    except (web.HTTPNotFound, NoPage) as gone:
        said = gone.text if isinstance(gone, web.HTTPNotFound) else str(gone)
        return html(fault_page("There is no such page", said or ""), 404)
    except EngineError as fault:
        return html(fault_page("This cannot be shown", str(fault)), 500)


def fault_page(title: str, said: str) -> str:
    """What went wrong, and what to do."""
    return page("fault", ServerLinks(""), title=title, said=said)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about this server. A request that is not HTTP is answered with 400,
    and would otherwise fill the terminal with tracebacks."""
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))
