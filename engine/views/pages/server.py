"""The server of pages: every page of every run of a folder, rendered when it is asked for."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import orjson
from aiohttp import web

from ...run.folders import is_run, run_folders
from ...run.reader import RunReader
from ...run.run_folder import REPORT
from ...system.files import read_bounded
from .guard import AccessRules
from .links import DEFAULTS, REPORT_FILES, ROUTES, ServerLinks, asked, page_of
from .runs import runs_page
from .serving import Server, html
from .strip import Watcher

SNAPSHOT_INTERVAL = 1.0
"""Seconds between two snapshots of a run under way."""


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
        super().__init__(
            AccessRules(host, (token,) if token else ()), f"?token={token}" if token else ""
        )
        self.place = place
        self._store = store
        self._runs: dict[str, RunReader] = {}
        self.busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By name of the run: held while figures of it are computed; what one page has computed,
        the next finds."""

    def folders(self) -> Mapping[str, Path]:
        """The run folders that are served, by name."""
        found = [self.place] if is_run(self.place) else run_folders(self.place)
        return {each.resolve().name: each for each in found}

    def routes(self) -> list[web.RouteDef]:
        run = "/run/{run}"
        return [
            web.get("/", self._list),
            *(web.get(run + _pattern(route.path), self._page(n)) for n, route in ROUTES.items()),
            web.get(f"{run}/events", self._events),
            web.get(f"{run}/report.{{ending}}", self._file),
            web.get(f"{run}/figure/{{kind}}.{{ending}}", self._figure),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.cleanup_ctx.append(self._open)
        return app

    async def _open(self, app: web.Application) -> AsyncIterator[None]:
        """While the first page is looked at, load what the pages that it links to need."""
        loading = asyncio.create_task(asyncio.to_thread(page_of, "overview"))
        yield
        await loading
        for run in self._runs.values():
            run.__exit__()

    def _run(self, request: web.Request) -> RunReader:
        name = request.match_info["run"]
        folder = self.folders().get(name)
        if folder is None:
            raise web.HTTPNotFound(text=f"there is no run {name!r} in {self.place}")
        if name not in self._runs:
            self._runs[name] = RunReader(folder, self._store)
        return self._runs[name]

    async def _list(self, request: web.Request) -> web.Response:
        return html(await asyncio.to_thread(runs_page, self.place, self.folders()))

    def _page(self, name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        route = ROUTES[name]

        async def answer(request: web.Request) -> web.Response:
            run = self._run(request)
            known = {"score", *route.query}
            query = {key: text for key, text in request.query.items() if key in known}
            told = asked(query | request.match_info)
            links = ServerLinks(run.name, told.score)

            def make() -> str:
                return page_of(name)(run, links, told)

            if not route.reckons:
                return html(await asyncio.to_thread(make))
            async with self.busy[run.name]:
                return html(await asyncio.to_thread(make))

        return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """One snapshot a second, as events, until the run ends or nobody looks any more."""
        watcher = Watcher(self._run(request))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            now = await asyncio.to_thread(watcher.snapshot)
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
        score = asked({"score": request.query.get("score", "brier")}).score
        async with self.busy[run.name]:
            made = await asyncio.to_thread(figure_bytes, run, kind or "", ending or "", score)
        return _sent(f"{run.name}-{kind}.{ending}", made)


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
