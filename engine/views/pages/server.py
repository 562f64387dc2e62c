"""The server of pages: every page of every run of a folder, rendered when it is asked for."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from ...run.listing import is_run, run_folders
from ...run.reader import RunReader
from ...run.run_folder import REPORT
from .addresses import Served
from .guard import AccessRules
from .live import Watcher, live_page
from .overview import REPORT_FILES, overview
from .queries import asked_score
from .runs import fault_page, runs_page
from .serving import Server, html

if TYPE_CHECKING:
    from .in_depth import PagesInDepth

SNAPSHOT_INTERVAL = 1.0
"""Seconds between two snapshots of a run on the live page."""

READING = "/row/{row:\\d+}/problem/{problem:\\d+}"

IN_DEPTH = {
    "/answer": "answer",
    "/pivot": "groups",
    "/cells": "cells",
    "/row/{row:\\d+}": "cells",
    "/search": "search",
    "/map": "map",
    "/problem/{problem:\\d+}": "problem",
    READING: "reading",
    f"{READING}/calls": "calls",
    "/failures": "failures",
    "/cost": "cost",
    "/measure/{kind}": "measure",
}
"""Path behind the run, and name among `in_depth.PAGES`, which is loaded when one is asked for."""


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
        """By name of the run: held while figures of it are computed."""
        self._loading: asyncio.Task[PagesInDepth] | None = None
        self._behind: set[asyncio.Task[object]] = set()

    def folders(self) -> Mapping[str, Path]:
        """The run folders that are served, by name."""
        found = [self.place] if is_run(self.place) else run_folders(self.place)
        return {each.resolve().name: each for each in found}

    def routes(self) -> list[web.RouteDef]:
        run = "/run/{run}"
        return [
            web.get("/", self._list),
            web.get("/compare", self._compare),
            web.get(run, self._overview),
            *(web.get(run + path, self._deep(page)) for path, page in IN_DEPTH.items()),
            web.get(f"{run}/live", self._live),
            web.get(f"{run}/live/events", self._events),
            web.get(f"{run}/report.{{ending}}", self._file),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, app: web.Application) -> None:
        if self._behind:
            await asyncio.wait(self._behind)
        for run in self._runs.values():
            run.__exit__()

    def _run(self, request: web.Request) -> RunReader:
        return self._named(request.match_info["run"])

    def _named(self, name: str) -> RunReader:
        folder = self.folders().get(name)
        if folder is None:
            raise web.HTTPNotFound(text=f"there is no run {name!r} in {self.place}")
        if name not in self._runs:
            self._runs[name] = RunReader(folder, self._store)
        return self._runs[name]

    async def _list(self, request: web.Request) -> web.Response:
        page = await asyncio.to_thread(runs_page, self.place, self.folders())
        return await self._sent(request, page, self._in_depth())

    async def _overview(self, request: web.Request) -> web.Response:
        run, under = self._run(request), asked_score(request)

        def make() -> str:
            return overview(run, Served(run.name, under), under, run.scores)

        async def ready() -> None:
            await (await self._in_depth()).ready(run)

        async with self.busy[run.name]:
            page = await asyncio.to_thread(make)
        return await self._sent(request, page, ready())

    async def _sent(
        self, request: web.Request, page: str, ready: Coroutine[object, object, object]
    ) -> web.Response:
        """Send a page, and then load what the pages that it links to need."""
        response = html(page)
        await response.prepare(request)
        await response.write_eof()
        task = asyncio.create_task(ready)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return response

    def _deep(self, name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            run = self._run(request)
            return html(await (await self._in_depth()).page(name, run, request))

        return answer

    async def _in_depth(self) -> "PagesInDepth":
        """The pages that need models and figures; loaded with the first of them."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return await asyncio.shield(self._loading)

    def _load(self) -> "PagesInDepth":
        from .in_depth import PagesInDepth

        return PagesInDepth(self.busy)

    async def _live(self, request: web.Request) -> web.Response:
        run = self._run(request)
        now = await asyncio.to_thread(Watcher(run).snapshot)
        return html(live_page(run, Served(run.name), now))

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

    async def _compare(self, request: web.Request) -> web.Response:
        names = list(self.folders())
        chosen = request.query.getall("run", [])
        a = request.query.get("a") or (chosen[0] if chosen else names[0] if names else "")
        others = [name for name in names if name != a]
        b = request.query.get("b") or (chosen[1] if len(chosen) > 1 else "".join(others[:1]))
        if not (a and b):
            told = f"There is one run in {self.place}; it takes two."
            return html(fault_page("There is nothing to compare", told), 404)
        pages = await self._in_depth()
        return html(await pages.compare((self._named(a), self._named(b)), names, request))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        run, ending = self._run(request), request.match_info["ending"]
        file = run.folder / REPORT / f"report.{ending}"
        if ending not in REPORT_FILES or not file.is_file():
            raise web.HTTPNotFound(text=f"the run has no report.{ending}")
        return web.Response(
            body=await asyncio.to_thread(file.read_bytes),
            content_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="report.{ending}"'},
        )
