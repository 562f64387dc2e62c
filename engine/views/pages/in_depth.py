"""The pages that take the sweep, its store or all of its outcomes, each made when it is asked for.

The server loads this module, and with it models and figures, behind the first page that it shows.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web

from ....protocols.errors import ProtocolError
from ...analysis.rows import read_rows
from ...errors import EngineError
from ...run.probing import read_probes
from ...run.reader import Place, RunReader
from .addresses import Served
from .answer import answer_page
from .cells import KINDS, Choice, cells_page
from .failures import failures_page
from .grid import map_page, pages_of, problem_page
from .measures import cost_page, groups_page, measure_page, measures_of
from .provenance import check_leakage
from .queries import asked_number, asked_score
from .reader import calls_page, calls_section, reader_page
from .reading import Reading, read
from .searched import search_page

ORDERS = ("problem", "asd", "-asd")
"""Orders of a list of transcripts."""


class PagesInDepth:
    """The pages of one server."""

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

    async def page(self, name: str, run: RunReader, request: web.Request) -> str:
        """One of PAGES. HTTPNotFound for what the run does not have."""
        links = _links(run, request)
        if name in UNLOCKED:
            return await asyncio.to_thread(PAGES[name], run, links, request)
        async with self._busy[run.name]:
            return await asyncio.to_thread(PAGES[name], run, links, request)

    async def compare(
        self, runs: tuple[RunReader, ...], names: Sequence[str], request: web.Request
    ) -> str:
        """names: of all runs that may stand beside each other."""
        async with self._busy[runs[0].name]:
            return await asyncio.to_thread(_answer, runs, names, request)


def _links(run: RunReader, request: web.Request) -> Served:
    """The addresses of the run's pages, which keep the score that was chosen."""
    return Served(run.name, asked_score(request))


def _answer(runs: tuple[RunReader, ...], names: Sequence[str], request: web.Request) -> str:
    asked = request.query.get("first", "").strip(), request.query.get("second", "").strip()
    links = [_links(run, request) for run in runs]
    return answer_page(runs, links, names, asked_score(request), asked)


def _map(run: RunReader, links: Served, request: web.Request) -> str:
    part = asked_number(request, "page"), asked_number(request, "rows")
    if part not in pages_of(run):
        raise web.HTTPNotFound(text=f"the map has no part {part}")
    return map_page(run, links, part, asked_score(request))


def _problem(run: RunReader, links: Served, request: web.Request) -> str:
    at = int(request.match_info["problem"])
    if at >= len(run.sweep.problems):
        raise web.HTTPNotFound(text=f"the run has no problem {at}")
    return problem_page(run, links, at, asked_score(request))


def _calls(run: RunReader, links: Served, request: web.Request) -> str:
    one, only = _read(run, request, requests=True), request.query.get("only", "")
    if not any(each.address.startswith(only) for each in one.asked) and only:
        raise web.HTTPNotFound(text=f"no call of this reading has an address like {only!r}")
    name = f"{one.problem.id} · {one.row.shown}"
    section = calls_section(one, links, only=only)
    return calls_page(run, links, [section], name, links.reading(one.place))


def _measure(run: RunReader, links: Served, request: web.Request) -> str:
    kind = request.match_info["kind"]
    if kind not in (there := measures_of(run)):
        raise web.HTTPNotFound(text=f"{kind!r} is no measure; there are {', '.join(there)}")
    return measure_page(run, links, kind, asked_score(request))


def _cells(run: RunReader, links: Served, request: web.Request) -> str:
    """The list of transcripts, or the page of a row."""
    row = int(request.match_info["row"]) if "row" in request.match_info else None
    if row is not None and row >= len(run.sweep.rows):
        raise web.HTTPNotFound(text=f"the run has no row {row}")
    show, order = request.query.get("show", ""), request.query.get("order", "problem")
    if show and show not in KINDS:
        raise web.HTTPNotFound(text=f"{show!r} is no kind; there are {', '.join(KINDS)}")
    if order not in ORDERS:
        raise web.HTTPNotFound(text=f"{order!r} is no order; there are {', '.join(ORDERS)}")
    words = request.query.get("words", "")[:200]
    choice = Choice(row, show, words, order, asked_number(request, "page"))
    return cells_page(run, links, choice, asked_score(request))


def _search(run: RunReader, links: Served, request: web.Request) -> str:
    return search_page(run, links, request.query.get("q", "")[:500], asked_number(request, "page"))


def _read(run: RunReader, request: web.Request, *, requests: bool = False) -> Reading:
    row, problem = int(request.match_info["row"]), int(request.match_info["problem"])
    place, sweep = Place(row, problem, asked_number(request, "draw")), run.sweep
    if row >= len(sweep.rows) or problem >= len(sweep.problems) or place.draw >= sweep.draws:
        raise web.HTTPNotFound(text=f"the run has no row, problem and draw {place}")
    score, turns = asked_score(request), asked_number(request, "turns")
    return read(run, place, score, turns, read_probes(run.folder), requests=requests)


PAGES: Mapping[str, Callable[[RunReader, Served, web.Request], str]] = {
    "answer": lambda run, _, request: _answer((run,), (), request),
    "groups": lambda run, links, request: groups_page(
        run, links, asked_score(request), request.query.getall("by", [])
    ),
    "cells": _cells,
    "search": _search,
    "map": _map,
    "problem": _problem,
    "reading": lambda run, links, request: reader_page(run, links, _read(run, request)),
    "calls": _calls,
    "failures": lambda run, links, _: failures_page(run, links),
    "cost": lambda run, links, _: cost_page(run, links),
    "measure": _measure,
}
"""By name, as the server's routes have them."""

UNLOCKED = ("reading", "calls", "search")
"""Pages that need the sweep and a few lines, and wait for no figures."""
