"""The pages that take the sweep, its store or all of its outcomes, each made when it is asked for.

The server loads this module, and with it models and figures, behind the first page that it shows.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web

from ...protocols.errors import ProtocolError
from ..errors import EngineError
from ..pictures.comparison import comparison_forest
from ..pictures.costs import SampledCost, sampled_costs
from ..pictures.landed import tallied
from ..runs.probing import read_probes
from ..runs.reader import Place, RunReader
from .addresses import Served
from .cost import cost_page
from .failures import failures_page
from .grid import map_page, pages_of, problem_page
from .queries import asked_number, asked_score
from .reader import calls_page, calls_section, reader_page
from .reading import Reading, read
from .runs import compare_page


class PagesInDepth:
    """The pages of one server. Each takes the run that it shows, and the request."""

    def __init__(self, busy: Mapping[str, asyncio.Lock]) -> None:
        """busy: a lock for each run, by its name: what one page has computed, the next finds."""
        self._busy = busy
        self._costs: dict[str, tuple[object, tuple[int, list[SampledCost]]]] = {}

    async def ready(self, run: RunReader) -> None:
        """Load what a reading needs. A run without readings says so when one is asked for."""

        def open_it() -> None:
            with suppress(EngineError, ProtocolError):
                run.records(())
                _ = run.sweep

        await asyncio.to_thread(open_it)

    async def map(self, run: RunReader, request: web.Request) -> str:
        part = asked_number(request, "page"), asked_number(request, "rows")

        def make() -> str:
            if part not in pages_of(run):
                raise web.HTTPNotFound(text=f"the map has no part {part}")
            return map_page(run, Served(run.name), part, asked_score(request))

        return await self._made(run, make)

    async def problem(self, run: RunReader, request: web.Request) -> str:
        at = int(request.match_info["problem"])

        def make() -> str:
            if at >= len(run.sweep.problems):
                raise web.HTTPNotFound(text=f"the run has no problem {at}")
            return problem_page(run, Served(run.name), at, asked_score(request))

        return await self._made(run, make)

    async def reading(self, run: RunReader, request: web.Request) -> str:
        one = await _read(run, request)
        return reader_page(run, Served(run.name), one)

    async def calls(self, run: RunReader, request: web.Request) -> str:
        one, links = await _read(run, request, requests=True), Served(run.name)
        only = request.query.get("only", "")
        if not any(each.address.startswith(only) for each in one.asked) and only:
            raise web.HTTPNotFound(text=f"no call of this reading has an address like {only!r}")
        name = f"{one.problem.id} · {one.row.kind}"
        section = calls_section(one, links, only=only)
        return calls_page(run, links, [section], name, links.reading(one.place))

    async def failures(self, run: RunReader, request: web.Request) -> str:
        return await self._made(run, lambda: failures_page(run, Served(run.name)))

    async def cost(self, run: RunReader, request: web.Request) -> str:
        async with self._busy[run.name]:
            await asyncio.to_thread(tallied, run)
            known = self._costs.get(run.name)
            if known is None or known[0] != run.stamp:
                costs = await asyncio.to_thread(sampled_costs, run)
                known = self._costs[run.name] = (run.stamp, costs)
            return cost_page(run, Served(run.name), *known[1])

    async def compare(
        self, runs: tuple[RunReader, RunReader], names: Sequence[str], request: web.Request
    ) -> str:
        def make() -> str:
            found = comparison_forest(*runs, asked_score(request))
            return compare_page(names, runs[0].name, runs[1].name, found)

        return await asyncio.to_thread(make)

    async def _made(self, run: RunReader, make: Callable[[], str]) -> str:
        async with self._busy[run.name]:
            return await asyncio.to_thread(make)


async def _read(run: RunReader, request: web.Request, *, requests: bool = False) -> Reading:
    """A reading takes no lock: it needs the sweep and a few lines, and waits for no figures."""
    place = Place(
        int(request.match_info["row"]),
        int(request.match_info["problem"]),
        asked_number(request, "draw"),
    )
    sweep = await asyncio.to_thread(lambda: run.sweep)
    if (
        place.row >= len(sweep.rows)
        or place.problem >= len(sweep.problems)
        or place.draw >= sweep.draws
    ):
        raise web.HTTPNotFound(text=f"the run has no row, problem and draw {place}")
    score, turns = asked_score(request), asked_number(request, "turns")
    return await asyncio.to_thread(
        lambda: read(run, place, score, turns, read_probes(run.folder), requests=requests)
    )
