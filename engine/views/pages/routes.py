"""The pages of a run, each once: its path, its parameters, and what makes it.

The server answers by this table, and a site is written by it. Nothing is imported before a page is
asked for: models and figures load with the first one.
"""

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ....protocols.scores import SCORES

if TYPE_CHECKING:
    from ...run.reader import RunReader
    from .addresses import Addresses

MAX_WORDS = 500
"""Characters of a parameter that are read."""


class NoPage(Exception):
    """There is no such page; what it says names those that there are."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of a page, as its address has them; numbers are from 0."""

    row: int = 0
    problem: int = 0
    draw: int = 0
    turns: int = 0
    """Which page of the turns."""
    page: int = 0
    score: str = "brier"
    kind: str = ""
    """Name of an analysis, or of a figure."""
    by: str = ""
    """What the rows of the overview are grouped by."""
    plot: str = "asd"
    """What the overview draws."""
    show: str = ""
    words: str = ""
    order: str = "worst"
    first: str = ""
    second: str = ""
    q: str = ""
    only: str = ""
    """Beginning of the address of the one call to show."""


Page: TypeAlias = Callable[["RunReader", "Addresses", Asked], str]


class Route(NamedTuple):
    """One kind of page."""

    path: str
    """Below the run; what stands in braces is a parameter."""
    page: str
    """`module:function` of this package."""
    query: tuple[str, ...] = ()
    """Parameters behind the `?`, beside the score."""
    reckons: bool = True
    """Whether it waits for the figures of the run."""


READING = "/row/{row}/problem/{problem}"

ROUTES: Mapping[str, Route] = {
    "overview": Route("", "overview:overview_page", ("by", "plot")),
    "transcripts": Route(
        "/transcripts", "transcripts:transcripts_page", ("show", "words", "order", "page")
    ),
    "row": Route("/row/{row}", "transcripts:row_page", ("show", "words", "order", "page")),
    "map": Route("/map", "grid:map_page"),
    "compare": Route("/compare", "answer:compare_page", ("first", "second")),
    "more": Route("/more", "measures:more_page"),
    "problem": Route("/problem/{problem}", "grid:problem_page"),
    "reading": Route(READING, "reader:reader_page", ("draw", "turns"), reckons=False),
    "calls": Route(f"{READING}/calls", "reader:calls_page", ("draw", "only"), reckons=False),
    "search": Route("/search", "searched:search_page", ("q", "page"), reckons=False),
    "failures": Route("/failures", "failures:failures_page"),
    "cost": Route("/cost", "measures:cost_page"),
    "measure": Route("/measure/{kind}", "measures:measure_page"),
    "origin": Route("/origin", "provenance:origin_page"),
}

CHOICES: Mapping[str, Collection[str]] = {
    "score": SCORES,
    "plot": ("asd", "lift"),
    "order": ("worst", "best", "sweep"),
}

DEFAULTS = {each.name: each.default for each in fields(Asked)}


def page_of(name: str) -> Page:
    """What makes a page of ROUTES."""
    module, _, called = ROUTES[name].page.partition(":")
    found: Page = getattr(importlib.import_module(f".{module}", __package__), called)
    return found


def asked(told: Mapping[str, str]) -> Asked:
    """The parameters of a page as texts. NoPage for a value that none has."""
    values: dict[str, Any] = {n: _read(n, text) for n, text in told.items() if n in DEFAULTS}
    return Asked(**values)


def _read(name: str, text: str) -> int | str:
    if isinstance(DEFAULTS[name], int):
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise NoPage(f"{name}={text!r} is no number of a page")
        return int(text)
    return one_of(text, CHOICES[name], name) if name in CHOICES else text[:MAX_WORDS].strip()


def one_of(value: str, known: Collection[str], what: str) -> str:
    """The value. NoPage, with those that there are, where it is none of them."""
    if value not in known:
        raise NoPage(f"there is no {what} {value!r}; there are {', '.join(known)}")
    return value


def nth(number: int, count: int, what: str) -> int:
    """The number. NoPage where so many do not reach to it."""
    if number >= count:
        raise NoPage(f"the run has no {what} {number}; it has {count:,}")
    return number
