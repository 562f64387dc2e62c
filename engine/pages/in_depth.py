"""The pages that take the sweep, its store or all of its outcomes, each made when it is asked for.

The server loads this module, and with it models and figures, behind the first page that it shows.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web

from ...protocols.errors import ProtocolError
from ..decisions.rows import read_rows
from ..errors import EngineError
from ..runs.probing import read_probes
from ..runs.reader import Place, RunReader
from .addresses import Served
from .answer import answer_page
from .cells import KINDS, Choice, cells_page
from .failures import failures_page
from .grid import map_page, pages_of, problem_page
from .measures import MEASURES, cost_page, groups_page, measure_page, people_page
from .provenance import check_leakage
from .queries import asked_number, asked_score
from .reader import calls_page, calls_section, reader_page
from .reading import Reading, read
from .searched import search_page

ORDERS = ("problem", "asd", "-asd")
"""Orders of a list of transcripts."""


class PagesInDepth:
    """The pages of one server. Each takes the run that it shows, and the request."""

    def __init__(self, busy: Mapping[str, asyncio.Lock]) -> None:
        """busy: a lock for each run, by its name: what one page has computed, the next finds."""
        self._busy = busy

    async def ready(self, run: RunReader) -> None:
        """Load what a reading needs. A run without readings says so when one is asked for."""

        def open_it() -> None:
            with suppress(EngineError, ProtocolError):
                run.records(())
                read_rows(run)
                check_leakage(run)

        await asyncio.to_thread(open_it)

    async def map(self, run: RunReader, request: web.Request) -> str:
        part = asked_number(request, "page"), asked_number(request, "rows")

        def make() -> str:
            if part not in pages_of(run):
                raise web.HTTPNotFound(text=f"the map has no part {part}")
            return map_page(run, _links(run, request), part, asked_score(request))

        return await self._made(run, make)

    async def problem(self, run: RunReader, request: web.Request) -> str:
        at = int(request.match_info["problem"])

        def make() -> str:
            if at >= len(run.sweep.problems):
                raise web.HTTPNotFound(text=f"the run has no problem {at}")
            return problem_page(run, _links(run, request), at, asked_score(request))

        return await self._made(run, make)

    async def reading(self, run: RunReader, request: web.Request) -> str:
        one = await _read(run, request)
        return reader_page(run, _links(run, request), one)

    async def calls(self, run: RunReader, request: web.Request) -> str:
        one, links = await _read(run, request, requests=True), _links(run, request)
        only = request.query.get("only", "")
        if not any(each.address.startswith(only) for each in one.asked) and only:
            raise web.HTTPNotFound(text=f"no call of this reading has an address like {only!r}")
        name = f"{one.problem.id} · {one.row.shown}"
        section = calls_section(one, links, only=only)
        return calls_page(run, links, [section], name, links.reading(one.place))

    async def failures(self, run: RunReader, request: web.Request) -> str:
        return await self._made(run, lambda: failures_page(run, _links(run, request)))

    async def cost(self, run: RunReader, request: web.Request) -> str:
        return await self._made(run, lambda: cost_page(run, _links(run, request)))

    async def measure(self, run: RunReader, request: web.Request) -> str:
        kind, score = request.match_info["kind"], asked_score(request)
        if kind not in MEASURES:
            raise web.HTTPNotFound(text=f"{kind!r} is no measure; there are {', '.join(MEASURES)}")
        return await self._made(run, lambda: measure_page(run, _links(run, request), kind, score))

    async def answer(self, run: RunReader, request: web.Request) -> str:
        return await self.compare((run,), (), request)

    async def compare(
        self, runs: tuple[RunReader, ...], names: Sequence[str], request: web.Request
    ) -> str:
        """names: of all runs that may stand beside each other."""
        asked = request.query.get("first", "").strip(), request.query.get("second", "").strip()
        links, score = [_links(run, request) for run in runs], asked_score(request)
        return await self._made(runs[0], lambda: answer_page(runs, links, names, score, asked))

    async def groups(self, run: RunReader, request: web.Request) -> str:
        by, score = request.query.getall("by", []), asked_score(request)
        return await self._made(run, lambda: groups_page(run, _links(run, request), score, by))

    async def row(self, run: RunReader, request: web.Request) -> str:
        number = int(request.match_info["row"])
        if number >= len(run.sweep.rows):
            raise web.HTTPNotFound(text=f"the run has no row {number}")
        return await self._listed(run, request, number)

    async def cells(self, run: RunReader, request: web.Request) -> str:
        return await self._listed(run, request, None)

    async def _listed(self, run: RunReader, request: web.Request, row: int | None) -> str:
        show, order = request.query.get("show", ""), request.query.get("order", "problem")
        if show and show not in KINDS:
            raise web.HTTPNotFound(text=f"{show!r} is no kind; there are {', '.join(KINDS)}")
        if order not in ORDERS:
            raise web.HTTPNotFound(text=f"{order!r} is no order; there are {', '.join(ORDERS)}")
        words = request.query.get("words", "")[:200]
        choice = Choice(row, show, words, order, asked_number(request, "page"))
        score = asked_score(request)
        return await self._made(run, lambda: cells_page(run, _links(run, request), choice, score))

    async def people(self, run: RunReader, request: web.Request) -> str:
        return await self._made(run, lambda: people_page(run, _links(run, request)))

    async def search(self, run: RunReader, request: web.Request) -> str:
        words, page = request.query.get("q", "")[:500], asked_number(request, "page")
        links = _links(run, request)
        return await asyncio.to_thread(lambda: search_page(run, links, words, page))

    async def _made(self, run: RunReader, make: Callable[[], str]) -> str:
        async with self._busy[run.name]:
            return await asyncio.to_thread(make)


def _links(run: RunReader, request: web.Request) -> Served:
    """The addresses of the run's pages, which keep the score that was chosen."""
    return Served(run.name, asked_score(request))


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
