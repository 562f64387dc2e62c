"""Addresses of pages: on the server, and in the files of a site."""

from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import quote, urlencode

from ...run.reader import Place
from .routes import DEFAULTS, ROUTES

Key: TypeAlias = tuple[str, frozenset[tuple[str, object]]]


class Addresses:
    """Links from one page to others of the same run; empty where there is no such page.

    Here there is none: a page that stands alone, as in a notebook, links to no other.
    """

    live = False
    """Whether pages may send requests while they are open."""
    runs = ""
    """The list of all runs."""
    taken = ""
    """What a site holds of a run's transcripts, in words."""
    shared = False
    """Whether style and script lie beside the page, in files that all pages share."""

    def to(self, page: str, /, **asked: int | str) -> str:
        """A page of `routes.ROUTES`, with its parameters."""
        return ""

    def file(self, name: str) -> str:
        """A report of the run folder: `csv`, `tex`, `json`."""
        return ""

    def figure(self, name: str) -> str:
        """A picture, by kind and ending: `asd.svg`."""
        return ""

    def reading(self, place: Place, turns: int = 0) -> str:
        """turns: which page of them, from 0."""
        return self.to("reading", **_parts(place), turns=turns)

    def turn(self, place: Place, label: str, number: int, room: int) -> str:
        """Link to one turn of the world that argues for `label`; number: of the turn, from 1, or 0
        for the judge. room: turns on a page."""
        page = self.reading(place, max(number - 1, 0) // room)
        return page and f"{page.partition('#')[0]}#{turn_anchor(place, label, number)}"

    def calls(self, place: Place, address: str = "", whole: bool = False) -> str:
        """Requests and replies of a reading. whole: of the one call with this address, by itself
        where that is possible."""
        page = self.to("calls", **_parts(place))
        return f"{page}#c{address[:12]}" if page and address else page


class Served(Addresses):
    """The addresses of one run on the server."""

    live = True
    runs = "/"

    def __init__(self, name: str, score: str = "brier") -> None:
        """score: the one that was chosen, which every link keeps."""
        self.run = f"/run/{quote(name, safe='')}"
        self._score = score

    def to(self, page: str, /, **asked: int | str) -> str:
        path = ROUTES[page].path
        told = {"score": self._score} | asked
        query = {
            name: value
            for name, value in told.items()
            if value != DEFAULTS[name] and f"{{{name}}}" not in path
        }
        return f"{self.run}{path.format(**asked)}{'?' if query else ''}{urlencode(query)}"

    def file(self, name: str) -> str:
        return f"{self.run}/report.{name}"

    def figure(self, name: str) -> str:
        return f"{self.run}/figure/{name}"

    def calls(self, place: Place, address: str = "", whole: bool = False) -> str:
        if whole:
            return self.to("calls", **_parts(place), only=address[:12])
        return super().calls(place, address)


class SiteAddresses(Addresses):
    """Links between the files of a site, which all lie in one folder."""

    shared = True

    def __init__(self, rows: Sequence[str]) -> None:
        """rows: their names, by which the list of transcripts is filtered."""
        self._rows = rows
        self.files: dict[Key, str] = {}
        """By page and parameters, the file."""

    def add(self, file: str, page: str, /, **asked: int | str) -> str:
        """Note that there is a file, and return its name."""
        self.files[_key(page, asked)] = file
        return file

    def to(self, page: str, /, **asked: int | str) -> str:
        filters = ""
        match page:
            case "row":
                page, filters = "transcripts", f'"{self._rows[int(asked["row"])]}" '
                filters += str(asked.get("show", ""))
                asked = {}
            case "transcripts":
                filters, asked = str(asked.get("show", "")), {}
            case "compare" if asked.get("first"):
                filters, asked = f'"{asked["first"]}" "{asked["second"]}"', {}
        file = self.files.get(_key(page, asked), "")
        if not filters.strip() or not file:
            return file
        # A table of hundreds of rows has as many of these.
        told = urlencode({"list.filter": filters.strip()}, safe="/").replace("%C2%B7", "·")
        return f"{file}#{told}"

    def file(self, name: str) -> str:
        return f"report.{name}"

    def figure(self, name: str) -> str:
        return self.files.get(_key("figure", {"kind": name}), "")

    def reading(self, place: Place, turns: int = 0) -> str:
        file = super().reading(place, turns)
        return file and f"{file}#{anchor(place, turns)}"

    def calls(self, place: Place, address: str = "", whole: bool = False) -> str:
        file = super().calls(place, address)
        return file if "#" in file or not file else f"{file}#{anchor(place)}"


class AtDesk(Addresses):
    """The pages of a rater: without links, but listening for events."""

    live = True


def _key(page: str, asked: dict[str, int | str]) -> Key:
    return page, frozenset(each for each in asked.items() if each[1] != DEFAULTS[each[0]])


def _parts(place: Place) -> dict[str, int | str]:
    return {"row": place.row, "problem": place.problem, "draw": place.draw}


def anchor(place: Place, turns: int = 0) -> str:
    """Anchor of a reading within its file."""
    return f"r{place.row}-p{place.problem}-d{place.draw}" + (f"-t{turns}" if turns else "")


def turn_anchor(place: Place, label: str, number: int) -> str:
    """Anchor of a turn, from 1, in the world that argues for `label`; 0: what the judge wrote."""
    return f"{anchor(place)}-{label}{number or 'judge'}"
