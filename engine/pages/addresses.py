"""Addresses of pages: on the server, and in the files of a bundle."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from ..runs.reader import Place


class Addresses:
    """Links from one page to others of the same run; empty if there is no such page.

    Here there is none: a page that stands alone, as in a notebook, links to no other.
    """

    live = False
    """Whether pages may send requests while they are open."""

    def runs(self) -> str:
        return ""

    def overview(self, score: str = "brier") -> str:
        return ""

    def map(self, problems: int = 0, rows: int = 0) -> str:
        """problems, rows: which page of them, from 0."""
        return ""

    def problem(self, problem: int) -> str:
        return ""

    def reading(self, place: Place, turns: int = 0) -> str:
        """turns: which page of them, from 0."""
        return ""

    def calls(self, place: Place, address: str = "") -> str:
        return ""

    def whole(self, place: Place, address: str) -> str:
        """Link to the page of one call in full."""
        return ""

    def failures(self) -> str:
        return ""

    def cost(self) -> str:
        return ""

    def watch(self) -> str:
        return ""

    def compare(self) -> str:
        return ""

    def file(self, name: str) -> str:
        """A report of the run folder: `csv`, `tex`, `json`."""
        return ""


class Served(Addresses):
    """The addresses of one run on the server."""

    live = True

    def __init__(self, name: str) -> None:
        self.run = f"/run/{quote(name, safe='')}"

    def runs(self) -> str:
        return "/"

    def overview(self, score: str = "brier") -> str:
        return self.run if score == "brier" else f"{self.run}?score={score}"

    def map(self, problems: int = 0, rows: int = 0) -> str:
        return f"{self.run}/map{_query(page=problems, rows=rows)}"

    def problem(self, problem: int) -> str:
        return f"{self.run}/problem/{problem}"

    def reading(self, place: Place, turns: int = 0) -> str:
        return f"{self._reading(place)}{_query(draw=place.draw, turns=turns)}"

    def calls(self, place: Place, address: str = "") -> str:
        anchor = f"#c{address[:12]}" if address else ""
        return f"{self._reading(place)}/calls{_query(draw=place.draw)}{anchor}"

    def whole(self, place: Place, address: str) -> str:
        query = _query(draw=place.draw, only=address[:12])
        return f"{self._reading(place)}/calls{query}"

    def failures(self) -> str:
        return f"{self.run}/failures"

    def cost(self) -> str:
        return f"{self.run}/cost"

    def watch(self) -> str:
        return f"{self.run}/live"

    def compare(self) -> str:
        return f"/compare?a={self.run.rpartition('/')[2]}"

    def file(self, name: str) -> str:
        return f"{self.run}/report.{name}"

    def _reading(self, place: Place) -> str:
        return f"{self.run}/row/{place.row}/problem/{place.problem}"


def _query(**values: int | str) -> str:
    """The query of an address, without the values that a page has by itself."""
    query = "&".join(f"{name}={value}" for name, value in values.items() if value)
    return f"?{query}" if query else ""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The readings of a bundle, and the file of each."""

    files: Mapping[tuple[Place, int], str]
    """(place, page of turns) -> file name without extension."""
    problems: frozenset[int]
    scores: tuple[str, ...]
    map_pages: frozenset[tuple[int, int]]
    with_calls: bool


class BundleAddresses(Addresses):
    """Links between the files of a bundle, which all lie in one folder."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def overview(self, score: str = "brier") -> str:
        if score not in self._shelf.scores:
            return ""
        return "index.html" if score == "brier" else f"index-{score}.html"

    def map(self, problems: int = 0, rows: int = 0) -> str:
        if (problems, rows) not in self._shelf.map_pages:
            return ""
        return f"map-{problems}-{rows}.html" if problems or rows else "map.html"

    def problem(self, problem: int) -> str:
        return f"problem-{problem}.html" if problem in self._shelf.problems else ""

    def reading(self, place: Place, turns: int = 0) -> str:
        file = self._shelf.files.get((place, turns))
        return f"{file}.html#{anchor(place, turns)}" if file else ""

    def calls(self, place: Place, address: str = "") -> str:
        file = self._shelf.files.get((place, 0))
        if not file or not self._shelf.with_calls:
            return ""
        return f"{file}-calls.html#" + (f"c{address[:12]}" if address else anchor(place, 0))

    def failures(self) -> str:
        return "failures.html"

    def cost(self) -> str:
        return "cost.html"

    def file(self, name: str) -> str:
        return f"report.{name}"


class AtDesk(Addresses):
    """The pages of a rater: without links, but listening for events."""

    live = True


def anchor(place: Place, turns: int = 0) -> str:
    """Anchor of a reading within its file."""
    return f"r{place.row}-p{place.problem}-d{place.draw}" + (f"-t{turns}" if turns else "")
