"""The pages of a run: their paths, parameters and functions, and links to them.

The server answers by this table, and a site is written by it. Modules of
pages are imported with the first request."""

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from ....protocols.scores import ALL_SCORES
from ....protocols.settings import unknown
from ...errors import UsageError
from ...run.reader import Place, RunReader

REPORT_FILES = ("csv", "tex", "json")
"""Endings of the files of the report that a page offers."""

MOST_PAIRS = 14
"""Rows of a run up to which a site has the contrasts of all pairs of them."""

MAX_WORDS = 500
"""Characters of a parameter that are read."""


MOST_ON_SERVER, MOST_IN_FILE = {"transcripts": 100}, {"transcripts": 1_000, "calls": 600_000}
"""Size limits by page: lines of a list, bytes of markup for each text of a call."""


class NoPage(Exception):
    """An unknown page; its text names the known ones."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The parameters of a page, as its address has them; numbers are from 0."""

    row: int = 0
    problem: int = 0
    draw: int = 0
    turns: int = 0
    """Page of the turns."""
    page: int = 0
    score: str = "brier"
    kind: str = ""
    """Name of an analysis, or of a figure."""
    by: str = ""
    """The setting by which the overview groups its rows."""
    plot: str = "asd"
    """The figure of the overview."""
    show: str = ""
    words: str = ""
    order: str = "worst"
    first: str = ""
    second: str = ""
    run2: str = ""
    """The other run, which has the second row."""
    group: str = ""
    """The value of `by` whose rows are listed."""
    q: str = ""
    only: str = ""
    """Beginning of the address of the one call to show."""
    apart: int = 0
    """1 to show each world in a column."""


Page: TypeAlias = Callable[[RunReader, "Links", PageQuery], str]


class Route(NamedTuple):
    """One kind of page."""

    path: str
    """Below the run; names in braces are parameters."""
    page: str
    """`module:function` of this package."""
    query: tuple[str, ...] = ()
    """Parameters after the `?`, in addition to the score."""
    reckons: bool = True
    """Whether it needs the figures of the run."""


READING = "/row/{row}/problem/{problem}"

ROUTES: Mapping[str, Route] = {
    "overview": Route("", "overview:overview_page", ("by", "plot")),
    "transcripts": Route(
        "/transcripts",
        "transcript_page:transcripts_page",
        ("show", "words", "order", "page", "by", "group"),
    ),
    "row": Route("/row/{row}", "transcript_page:row_page", ("show", "words", "order", "page")),
    "map": Route("/map", "answer:map_page"),
    "compare": Route("/compare", "answer:compare_page", ("first", "second", "run2")),
    "problem": Route("/problem/{problem}", "answer:problem_page"),
    "reading": Route(
        READING, "transcript_page:reader_page", ("draw", "turns", "apart"), reckons=False
    ),
    "calls": Route(
        f"{READING}/calls", "transcript_page:calls_page", ("draw", "only"), reckons=False
    ),
    "search": Route("/search", "searched:search_page", ("q", "page"), reckons=False),
    "failures": Route("/failures", "overview:failures_page"),
    "cost": Route("/cost", "findings:cost_page"),
    "measure": Route("/measure/{kind}", "findings:measure_page"),
    "origin": Route("/origin", "strip:origin_page"),
}

CHOICES: Mapping[str, Collection[str]] = {
    "score": ALL_SCORES,
    "plot": ("asd", "lift"),
    "order": ("worst", "best", "change", "sweep"),
}

DEFAULTS = {parameter.name: parameter.default for parameter in fields(PageQuery)}


def page_of(name: str) -> Page:
    """The function that makes a page of ROUTES."""
    module, _, called = ROUTES[name].page.partition(":")
    function: Page = getattr(importlib.import_module(f".{module}", __package__), called)
    return function


def page_query(texts: Mapping[str, str]) -> PageQuery:
    """The parameters of a page from their texts. NoPage for an invalid value."""
    values: dict[str, Any] = {n: _read(n, text) for n, text in texts.items() if n in DEFAULTS}
    return PageQuery(**values)


def _read(name: str, text: str) -> int | str:
    if isinstance(DEFAULTS[name], int):
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise NoPage(f"{name}={text!r} is not the number of a page")
        return int(text)
    return one_of(text, CHOICES[name], name) if name in CHOICES else text[:MAX_WORDS].strip()


def one_of(value: str, choices: Collection[str], noun: str) -> str:
    """The value. NoPage, with the known values, for any other."""
    if value not in choices:
        raise NoPage(unknown(noun, value, choices))
    return value


def nth(number: int, count: int, noun: str) -> int:
    """The number. NoPage for one that is not below the count."""
    if number >= count:
        raise NoPage(f"the run has no {noun} {number}; it has {count:,}")
    return number


def place_of(run: RunReader, query: PageQuery) -> Place:
    """The place that a page names. NoPage if the run has none like it."""
    sweep = run.sweep
    return Place(
        nth(query.row, len(sweep.rows), "row"),
        nth(query.problem, len(sweep.problems), "problem"),
        nth(query.draw, sweep.draws, "draw"),
    )


Key: TypeAlias = tuple[str, frozenset[tuple[str, object]]]


class Links:
    """Links from one page to others of the same run; empty for a page that does not exist.

    This class is for a page without others, as in a notebook: all links are empty."""

    connects = False
    """Whether pages may send requests while they are open."""
    events = ""
    """Address of the events of a run that is active."""
    runs = ""
    """The list of all runs."""
    selection = ""
    """The transcripts that a site holds, in words."""
    notes = ""
    """Address that takes notes; empty where they can only be read."""
    shows_notes = True
    runs_beside: Sequence[str] = ()
    """Names of the other runs that a page can compare with."""
    shared = False
    """Whether style and script lie in files that all pages share."""

    def beside(self, name: str) -> "tuple[RunReader, Links]":
        """Another run, and the links to its pages. UsageError for an unknown one."""
        raise UsageError(unknown("run", name, self.runs_beside))

    def to(self, page: str, /, **parameters: int | str) -> str:
        """A page of ROUTES, with its parameters."""
        return ""

    def form(self, page: str) -> str:
        """Address of a form for a page with other parameters; empty in a site."""
        return ""

    def most(self, page: str) -> int:
        """Size limit: lines of a list, or bytes of each text of a call; 0 if the page decides."""
        return MOST_IN_FILE.get(page, 0)

    def file(self, name: str) -> str:
        """A report of the run folder: `csv`, `tex`, `json`."""
        return ""

    def figure(self, name: str) -> str:
        """A picture, by kind and ending: `asd.svg`."""
        return ""

    def reading(self, place: Place, turns: int = 0) -> str:
        """turns: which page of them, from 0."""
        return self.to("reading", **parts(place), turns=turns)

    def any_reading(self, row: int, problem: int, draws: int) -> str:
        """The first draw, below `draws`, that has a page."""
        places = (Place(row, problem, draw) for draw in range(draws))
        return next(filter(None, map(self.reading, places)), "")

    def turn(self, place: Place, label: str, number: int, room: int) -> str:
        """Link to one turn of the world that argues for `label`; number: of the turn, from 1, or 0
        for the judge. room: turns on a page."""
        page = self.reading(place, max(number - 1, 0) // room)
        return page and f"{page.partition('#')[0]}#{turn_anchor(place, label, number)}"

    def calls(self, place: Place, address: str = "", full: bool = False) -> str:
        """Requests and replies of a reading. full: of the call with this address, if possible."""
        page = self.to("calls", **parts(place))
        return f"{page}#c{address[:12]}" if page and address else page


class ServerLinks(Links):
    """The addresses of one run on the server."""

    connects = True
    runs = "/"

    def __init__(
        self,
        name: str,
        score: str = "brier",
        notes: bool = False,
        readers: Mapping[str, Callable[[], RunReader]] = MappingProxyType({}),
    ) -> None:
        """score: the chosen one, which every link keeps. notes: whether visitors may write them.
        readers: all runs that are served, by name."""
        self.runs_beside, self._readers = [one for one in readers if one != name], readers
        self.run = f"/run/{quote(name, safe='')}"
        self.events = f"{self.run}/events"
        self.notes = f"{self.run}/notes" if notes else ""
        self._score = score

    def to(self, page: str, /, **parameters: int | str) -> str:
        path = ROUTES[page].path
        values = {"score": self._score} | parameters
        query = {
            name: value
            for name, value in values.items()
            if value != DEFAULTS[name] and f"{{{name}}}" not in path
        }
        return f"{self.run}{path.format(**parameters)}{'?' if query else ''}{urlencode(query)}"

    def beside(self, name: str) -> tuple[RunReader, Links]:
        if name not in self._readers:
            return super().beside(name)
        return self._readers[name](), ServerLinks(name, self._score)

    def form(self, page: str) -> str:
        return self.to(page)

    def most(self, page: str) -> int:
        return MOST_ON_SERVER.get(page, 0)

    def file(self, name: str) -> str:
        return f"{self.run}/report.{name}"

    def figure(self, name: str) -> str:
        return f"{self.run}/figure/{name}"

    def calls(self, place: Place, address: str = "", full: bool = False) -> str:
        if full:
            return self.to("calls", **parts(place), only=address[:12])
        return super().calls(place, address)


class SiteLinks(Links):
    """Links between the files of a site, which all lie in one folder."""

    shared = True

    def __init__(self, rows: Sequence[str]) -> None:
        """rows: their names, by which the list of transcripts is filtered."""
        self._rows = rows
        self.files: dict[Key, str] = {}
        """By page and parameters, the file."""

    def add(self, file: str, page: str, /, **parameters: int | str) -> str:
        """Note the file of a page, and return its name."""
        self.files[_key(page, parameters)] = file
        return file

    def to(self, page: str, /, **parameters: int | str) -> str:
        table, filters = "list", ""
        match page:
            case "row":
                page, filters = "transcripts", f'"{self._rows[int(parameters["row"])]}" '
                filters += str(parameters.get("show", ""))
                parameters = {}
            case "transcripts":
                group = parameters.get("group", "")
                filters = f'"{group}" ' * bool(group) + str(parameters.get("show", ""))
                parameters = {}
            case "compare" if parameters:
                # The second row stands in the list only if it has all pairs.
                names = tuple(parameters.values())[: 1 + (len(self._rows) <= MOST_PAIRS)]
                parts = chain(*(str(name).split(" · ") for name in names))
                table, filters, parameters = "table1", " ".join(f'"{part}"' for part in parts), {}
        file = self.files.get(_key(page, parameters), "")
        if not filters.strip() or not file:
            return file
        # A table of hundreds of rows has as many of these.
        fragment = urlencode({f"{table}.filter": filters.strip()}, safe="/").replace("%C2%B7", "·")
        return f"{file}#{fragment}"

    def file(self, name: str) -> str:
        return "" if name == "json" else f"report.{name}"

    def reading(self, place: Place, turns: int = 0) -> str:
        file = super().reading(place, turns)
        return file and f"{file}#{anchor(place, turns)}"

    def calls(self, place: Place, address: str = "", full: bool = False) -> str:
        file = super().calls(place, address)
        return file if "#" in file or not file else f"{file}#{anchor(place)}"


def _key(page: str, parameters: dict[str, int | str]) -> Key:
    return page, frozenset((n, value) for n, value in parameters.items() if value != DEFAULTS[n])


def readings_of(run: RunReader, links: Links) -> str | list[list[str]]:
    """The address of a reading with `{r}` and `{p}` for the numbers of row and problem. For a site,
    whose files have different names, all addresses by row and problem."""
    if links.form("map"):
        return links.reading(Place(0, 0)).replace("/row/0/problem/0", "/row/{r}/problem/{p}")
    rows, problems = (range(len(every)) for every in (run.sweep.rows, run.sweep.problems))
    return [[links.any_reading(r, p, run.sweep.draws) for p in problems] for r in rows]


def parts(place: Place) -> dict[str, int | str]:
    """The parameters that a place has in an address."""
    return {"row": place.row, "problem": place.problem, "draw": place.draw}


def anchor(place: Place, turns: int = 0) -> str:
    """Anchor of a reading within its file."""
    return f"r{place.row}-p{place.problem}-d{place.draw}" + (f"-t{turns}" if turns else "")


def turn_anchor(place: Place, label: str, number: int) -> str:
    """Anchor of a turn, from 1, in the world that argues for `label`; 0: the words of the judge."""
    return f"{anchor(place)}-{label}{number or 'judge'}"
