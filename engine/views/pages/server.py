"""The server of pages: every page of every run of a folder, rendered when it is asked for."""

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import orjson
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from ...errors import EngineError
from ...run.folders import is_run, run_folders
from ...run.reader import RunReader
from ...run.reader_notes import add_note, remove_note
from ...run.run_folder import REPORT
from ...system.files import read_bounded
from .environment import EVERY, compiled, page
from .guard import (
    EVERYWHERE,
    AccessRules,
    Handler,
    Listener,
    bodies_in_time,
    guard,
    headed,
    is_loopback,
)
from .links import (
    DEFAULTS,
    REPORT_FILES,
    ROUTES,
    NoPage,
    ServerLinks,
    anchor,
    page_of,
    page_query,
    place_of,
)
from .runs import runs_page
from .strip import snapshot_of


class Server(ABC):
    """A server of pages that answers only whom its access rules let in."""

    sheets = EVERY
    """Stylesheets and scripts that its pages may have."""

    def __init__(self, access: AccessRules, opening: str = "") -> None:
        """opening: appended to the address that a user opens."""
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

    everywhere: `0.0.0.0` or `::`, on which a server listens."""
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


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A page as an answer."""
    return web.Response(text=text, status=status, headers=headers, content_type="text/html")


@web.middleware
async def _faults_as_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Faults as pages that say what to do."""
    try:
        return await handler(request)
    except (web.HTTPNotFound, NoPage) as gone:
        message = gone.text if isinstance(gone, web.HTTPNotFound) else str(gone)
        return html(message_page("Page not found", message or ""), 404)
    except EngineError as fault:
        return html(message_page("This page cannot be shown", str(fault)), 500)


def message_page(title: str, message: str = "") -> str:
    """A heading, and the message of a fault with the next step."""
    return page("fault", ServerLinks(""), title=title, message=message)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about this server. A request that is not HTTP is answered with 400,
    and would otherwise fill the terminal with tracebacks."""
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))


SNAPSHOT_INTERVAL = 1.0
"""Seconds between two snapshots of a run under way."""

PATIENCE, KEPT_SECONDS = 0.5, 60.0
"""After the first a visitor of a large run is told to wait; so long the page is kept for them."""


class PageServer(Server):
    """Serves the runs of a folder, or one run alone."""

    def __init__(
        self,
        place: Path,
        store: Path | str | None = None,
        *,
        host: str = "127.0.0.1",
        token: str = "",
    ) -> None:
        """place: a run folder, or a folder that has some. token: empty on loopback."""
        self._notes = is_loopback(host)
        methods = ("GET", "HEAD", "POST") if self._notes else ("GET", "HEAD")
        rules = AccessRules(host, (token,) if token else (), methods=methods)
        super().__init__(rules, f"?token={token}" if token else "")
        self.place = place
        self._store = store
        self._runs: dict[str, RunReader] = {}
        self.busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By name of the run: held while its figures are computed, once for all pages."""
        self._making: dict[str, asyncio.Task[web.Response]] = {}
        """By address, pages whose visitors were told to wait."""

    def folders(self) -> Mapping[str, Path]:
        """The run folders that are served, by name."""
        folders = [self.place] if is_run(self.place) else run_folders(self.place)
        return {folder.resolve().name: folder for folder in folders}

    def routes(self) -> list[web.RouteDef]:
        run = "/run/{run}"
        return [
            web.get("/", self._list),
            *(web.get(run + _pattern(route.path), self._page(n)) for n, route in ROUTES.items()),
            web.get(f"{run}/events", self._events),
            web.post(f"{run}/notes", self._note),
            web.get(f"{run}/report.{{ending}}", self._file),
            web.get(f"{run}/figure/{{kind}}.{{ending}}", self._figure),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.cleanup_ctx.append(self._open)
        return app

    async def _open(self, app: web.Application) -> AsyncIterator[None]:
        """While the first page is looked at, load what the pages that it links to need."""
        loading = asyncio.create_task(asyncio.to_thread(_prepare))
        yield
        await loading
        await asyncio.gather(*self._making.values(), return_exceptions=True)
        for run in self._runs.values():
            run.__exit__()

    def _run(self, request: web.Request) -> RunReader:
        return self._reader(request.match_info["run"])

    def _reader(self, name: str) -> RunReader:
        folder = self.folders().get(name)
        if folder is None:
            raise web.HTTPNotFound(text=f"run not found: {name!r} in {self.place}")
        if name not in self._runs:
            self._runs[name] = RunReader(folder, self._store)
        return self._runs[name]

    async def _list(self, request: web.Request) -> web.Response:
        return html(await asyncio.to_thread(runs_page, self.place, self.folders()))

    def _page(self, name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        route = ROUTES[name]

        async def made(request: web.Request) -> web.Response:
            run = self._run(request)
            names = {"score", *route.query}
            query = {key: text for key, text in request.query.items() if key in names}
            parameters = page_query(query | request.match_info)
            readers = {name: partial(self._reader, name) for name in self.folders()}
            links = ServerLinks(run.name, parameters.score, self._notes, readers)

            def make() -> str:
                return page_of(name)(run, links, parameters)

            if not route.reckons:
                return html(await asyncio.to_thread(make))
            async with self.busy[run.name]:
                return html(await asyncio.to_thread(make))

        async def answer(request: web.Request) -> web.Response:
            """The page. For a slow one, first a line; then the browser asks again, and waits."""
            loop, path = asyncio.get_running_loop(), request.path_qs
            making = self._making.pop(path, None)
            if making is None:
                making = loop.create_task(made(request))
                await asyncio.wait((making,), timeout=PATIENCE)
                if not making.done() and (notice := self._run(request).notice):
                    self._making[path] = making
                    loop.call_later(KEPT_SECONDS, self._making.pop, path, None)
                    return html(message_page(notice), 202, {"Refresh": f"0; url={path}"})
            return await making

        return answer

    async def _note(self, request: web.Request) -> web.Response:
        """Add or remove a note, and lead back to its transcript."""
        run, form = self._run(request), await request.post()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        numbers = {name: fields.get(name, "0") for name in ("row", "problem", "draw")}
        place = place_of(run, page_query(numbers))
        if gone := fields.get("remove"):
            await asyncio.to_thread(remove_note, run, gone)
        else:
            texts = (fields.get(name, "") for name in ("turn", "kind", "text"))
            await asyncio.to_thread(add_note, run, place, *texts)
        links = ServerLinks(run.name, notes=True)
        return web.Response(
            status=303, headers={"Location": f"{links.reading(place)}#{anchor(place)}-notes"}
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """One snapshot a second, as events, until the run ends or nobody looks any more."""
        run = self._run(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            now = await asyncio.to_thread(snapshot_of, run)
            try:
                await response.write(b"data: " + orjson.dumps(now) + b"\n\n")
            except ConnectionError:
                return response
            if now["state"] != "running":
                return response
            await asyncio.sleep(SNAPSHOT_INTERVAL)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        run, ending = self._run(request), request.match_info["ending"]
        file = run.folder / REPORT / f"report.{ending}"
        if ending not in REPORT_FILES or not file.is_file():
            raise web.HTTPNotFound(text=f"the run has no report.{ending}")
        return _sent(f"report.{ending}", await asyncio.to_thread(read_bounded, file))

    async def _figure(self, request: web.Request) -> web.StreamResponse:
        """A chart of a page as a picture, drawn as `oversight export plot` draws it."""
        from .figure import figure_bytes

        run, kind, ending = self._run(request), *map(request.match_info.get, ("kind", "ending"))
        score = page_query({"score": request.query.get("score", "brier")}).score
        async with self.busy[run.name]:
            figure = await asyncio.to_thread(figure_bytes, run, kind or "", ending or "", score)
        return _sent(f"{run.name}-{kind}.{ending}", figure)


def _prepare() -> None:
    """Load the code and the templates of the overview, and the analyses that it links to."""
    page_of("overview")
    from ...analysis.catalogue import PLACES, analysis

    for template in ("base", "run", "pieces", "overview"):
        compiled(template)
    for name in PLACES:
        analysis(name)


def _pattern(path: str) -> str:
    """A path as the server has it: parameters that are numbers are digits."""
    for name, default in DEFAULTS.items():
        if isinstance(default, int):
            path = path.replace(f"{{{name}}}", f"{{{name}:\\d+}}")
    return path


def _sent(name: str, body: bytes) -> web.Response:
    """A file to keep."""
    return web.Response(
        body=body,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
