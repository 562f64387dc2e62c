"""The server of pages: every page of every run of a folder, rendered when it is asked for."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
from aiohttp import web

from oversight.engine.pages.addresses import Served
from oversight.engine.pages.cost import cost_page
from oversight.engine.pages.failures import failures_page
from oversight.engine.pages.grid import map_page, pages_of, problem_page
from oversight.engine.pages.guard import Door
from oversight.engine.pages.live import Watcher, live_page
from oversight.engine.pages.overview import REPORT_FILES, overview
from oversight.engine.pages.reader import calls_page, calls_section, reader_page
from oversight.engine.pages.reading import Reading, read
from oversight.engine.pages.runs import compare_page, runs_page
from oversight.engine.pages.serving import Server, html
from oversight.engine.pictures.comparison import comparison_forest
from oversight.engine.pictures.costs import SampledCost, sampled_costs
from oversight.engine.pictures.opened import OpenedRun, Place
from oversight.engine.runs.listing import is_run, run_folders
from oversight.engine.runs.probing import read_probes
from oversight.engine.runs.run_folder import REPORT
from oversight.protocols.scores import SCORES

EVERY = 1.0
"""Seconds between two snapshots of a run that is watched."""


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
        super().__init__(Door(host, (token,) if token else ()), f"?token={token}" if token else "")
        self.place = place
        self._store = store
        self._runs: dict[str, OpenedRun] = {}
        self._costs: dict[str, tuple[object, tuple[int, list[SampledCost]]]] = {}
        self._busy: dict[str, asyncio.Lock] = {}

    def folders(self) -> Mapping[str, Path]:
        """The run folders that are served, by name."""
        found = [self.place] if is_run(self.place) else run_folders(self.place)
        return {each.resolve().name: each for each in found}

    def routes(self) -> list[web.RouteDef]:
        run = "/run/{run}"
        reading = f"{run}/row/{{row:\\d+}}/problem/{{problem:\\d+}}"
        return [
            web.get("/", self._list),
            web.get("/compare", self._compare),
            web.get(run, self._overview),
            web.get(f"{run}/map", self._map),
            web.get(f"{run}/problem/{{problem:\\d+}}", self._problem),
            web.get(reading, self._reading),
            web.get(f"{reading}/calls", self._calls),
            web.get(f"{run}/failures", self._failures),
            web.get(f"{run}/cost", self._cost),
            web.get(f"{run}/live", self._live),
            web.get(f"{run}/live/events", self._events),
            web.get(f"{run}/report.{{ending}}", self._file),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, app: web.Application) -> None:
        for run in self._runs.values():
            run.__exit__()

    def _run(self, request: web.Request) -> OpenedRun:
        return self._named(request.match_info["run"])

    def _named(self, name: str) -> OpenedRun:
        folder = self.folders().get(name)
        if folder is None:
            raise web.HTTPNotFound(text=f"there is no run {name!r} in {self.place}")
        if name not in self._runs:
            self._runs[name] = OpenedRun(folder, self._store)
        return self._runs[name]

    async def _list(self, request: web.Request) -> web.Response:
        return html(await asyncio.to_thread(runs_page, self.place, self.folders()))

    async def _overview(self, request: web.Request) -> web.Response:
        run, score = self._run(request), _score(request)
        return await self._made(run, lambda: overview(run, Served(run.name), score, run.scores))

    async def _map(self, request: web.Request) -> web.Response:
        run, part = self._run(request), (_number(request, "page"), _number(request, "rows"))

        def make() -> str:
            if part not in pages_of(run):
                raise web.HTTPNotFound(text=f"the map has no part {part}")
            return map_page(run, Served(run.name), part, _score(request))

        return await self._made(run, make)

    async def _problem(self, request: web.Request) -> web.Response:
        run, number = self._run(request), int(request.match_info["problem"])

        def make() -> str:
            if number >= len(run.sweep.problems):
                raise web.HTTPNotFound(text=f"the run has no problem {number}")
            return problem_page(run, Served(run.name), number, _score(request))

        return await self._made(run, make)

    async def _reading(self, request: web.Request) -> web.Response:
        run = self._run(request)
        one = await self._read(run, request)
        return html(reader_page(run, Served(run.name), one))

    async def _calls(self, request: web.Request) -> web.Response:
        run = self._run(request)
        one = await self._read(run, request)
        links = Served(run.name)
        name = f"{one.problem.id} · {one.row.kind}"
        back = links.reading(one.place)
        return html(calls_page(run, links, [calls_section(one)], name, back))

    async def _read(self, run: OpenedRun, request: web.Request) -> Reading:
        place = Place(
            int(request.match_info["row"]),
            int(request.match_info["problem"]),
            _number(request, "draw"),
        )
        async with self._lock(run):
            sweep = await asyncio.to_thread(lambda: run.sweep)
            if (
                place.row >= len(sweep.rows)
                or place.problem >= len(sweep.problems)
                or place.draw >= sweep.draws
            ):
                raise web.HTTPNotFound(text=f"the run has no row, problem and draw {place}")
            probes = read_probes(run.folder)
            return await read(run, place, _score(request), _number(request, "turns"), probes)

    async def _failures(self, request: web.Request) -> web.Response:
        run = self._run(request)
        return await self._made(run, lambda: failures_page(run, Served(run.name)))

    async def _cost(self, request: web.Request) -> web.Response:
        run = self._run(request)
        async with self._lock(run):
            await asyncio.to_thread(lambda: run.landed().results)
            known = self._costs.get(run.name)
            if known is None or known[0] != run.stamp:
                known = self._costs[run.name] = (run.stamp, await sampled_costs(run))
            return html(cost_page(run, Served(run.name), *known[1]))

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
            await asyncio.sleep(EVERY)

    async def _compare(self, request: web.Request) -> web.Response:
        names = list(self.folders())
        chosen = request.query.getall("run", [])
        a = request.query.get("a") or (chosen[0] if chosen else "")
        b = request.query.get("b") or (chosen[1] if len(chosen) > 1 else "")
        if not (a and b):
            return html(compare_page(names, a, b, None))
        first, second = self._named(a), self._named(b)

        def make() -> str:
            found = comparison_forest(first, second, _score(request))
            return compare_page(names, a, b, found)

        return html(await asyncio.to_thread(make))

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

    async def _made(self, run: OpenedRun, make: Callable[[], str]) -> web.Response:
        # One at a time for each run: what one page reckons, the next has at hand.
        async with self._lock(run):
            return html(await asyncio.to_thread(make))

    def _lock(self, run: OpenedRun) -> asyncio.Lock:
        return self._busy.setdefault(run.name, asyncio.Lock())


def _score(request: web.Request) -> str:
    score = request.query.get("score", "brier")
    if score not in SCORES:
        raise web.HTTPNotFound(text=f"there is no score {score!r}; there are {', '.join(SCORES)}")
    return score


def _number(request: web.Request, name: str) -> int:
    value = request.query.get(name, "0")
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise web.HTTPNotFound(text=f"{name}={value!r} is no number of a page")
    return int(value)
