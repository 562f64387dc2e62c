"""Sites: the pages of a run as standalone files, to send or to archive."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from markupsafe import Markup

from ...analysis.pairs import row_names
from ...analysis.rows import read_rows
from ...analysis.scoring.inference import Places
from ...errors import UsageError
from ...run.probing import read_probes
from ...run.reader import Place, RunReader
from ...run.reader_notes import read_notes
from ...run.run_folder import REPORT
from ...system.files import read_bounded, replace_file, unwritable
from .environment import EVERY, static
from .links import PageQuery, SiteLinks, page_of, parts
from .searched import SearchedTexts, search_page
from .strip import measures_of
from .transcript_page import Transcripts, called_page, calls_section, readers_page, section
from .transcript_view import ends_of, read

READINGS_A_FILE = 3
CALLS_A_FILE = 600_000
"""Characters of requests and replies in a file of them, about, before they are packed."""

COPIED = ("report.csv", "report.tex")
"""Files of the report that lie in a site; its JSON, the largest, stays in the run folder."""

BUNDLE_MARKER = ".oversight-bundle"
"""A file in every site; only a folder that has it may be overwritten."""


@dataclass(slots=True)
class Written:
    """The written part of a site."""

    folder: Path
    readings: int = 0
    files: int = 0
    size: int = 0

    def add(self, name: str, page: str | bytes) -> None:
        data = page.encode("utf-8", "replace") if isinstance(page, str) else page
        replace_file(self.folder / name, [data], durable=False)
        self.files += 1
        self.size += len(data)


def telling(run: RunReader, most: int | None) -> list[Place]:
    """The transcripts of a site: failed first, then flagged, then the largest ASD.

    At most a third failed, and a third are flagged. Half of the rest has the lowest ASD, and half
    the highest. most: None for all."""
    every = Transcripts(run, read_rows(run), "brier")
    if most is None:
        return _placed(every, np.flatnonzero(every.ended).tolist())
    failed, doubt = every.kinds["failed"], every.kinds["doubt"] & ~every.kinds["failed"]
    chosen = [*_spread(np.flatnonzero(failed), most // 3)]
    chosen += _spread(np.flatnonzero(doubt), most // 3)
    # A judge that nobody could read counts as its worst verdict: an ASD, but none to look at first.
    measured = np.flatnonzero(~np.isnan(every.asd) & ~failed & (every.draws == 0))
    measured = measured[np.argsort(every.asd[measured], kind="stable")]
    ends = np.column_stack((measured, measured[::-1])).ravel().tolist()
    return _placed(every, [*dict.fromkeys([*chosen, *ends])][:most])


def _placed(every: Transcripts, chosen: list[int]) -> list[Place]:
    return sorted(map(every.place, chosen), key=lambda at: (at.row, at.problem, at.draw))


def _spread(numbers: Places, most: int) -> list[int]:
    """At most `most` of them, evenly spaced over the problems."""
    if len(numbers) > most:
        numbers = numbers[np.arange(most) * len(numbers) // most]
    return [int(at) for at in numbers]


def write_site(
    run: RunReader,
    to: Path,
    *,
    most: int | None,
    calls: bool,
    notes: bool = True,
    on_progress: Callable[[int, int], None] = lambda written, all: None,
) -> Written:
    """Write a run's pages into a folder.

    most: number of readings, the most telling ones; None for all. calls: with requests and
    replies. notes: with the notes of people. on_progress: called with the numbers of
    written readings and of all. UsageError if the folder holds something other than a site,
    RunFolderError if it cannot be written."""
    with _staged(to) as stage:
        return _write(run, stage, most, calls, notes, on_progress)


def _write(
    run: RunReader,
    to: Path,
    most: int | None,
    calls: bool,
    notes: bool,
    on_progress: Callable[[int, int], None],
) -> Written:
    places = telling(run, most)
    links = SiteLinks(row_names(run.sweep.rows))
    links.shows_notes = notes
    links.selection = _selection(run, len(places), most)
    texts, written = SearchedTexts(), Written(to)
    pages = [*_pages(run, places)]
    for file, page, parameters in pages:
        links.add(file, page, **parameters)
    if places:
        links.add("search.html", "search")
    files = _files(places)
    for place, name in files.items():
        links.add(f"{name}.html", "reading", **parts(place))
    for name in EVERY:
        written.add(name, static(name))
    requests, probes = _Requests(run, links, written), read_probes(run.folder)
    readers_notes = read_notes(run)
    for file, group in groupby(places, key=files.__getitem__):
        sections: list[Markup] = []
        for place in group:
            ends = ends_of(run, place, requests=calls)
            one = read(run, place, probes=probes, ends=ends)
            kind = one.row.shown
            # The number of turns is only known once they are read.
            further = {
                n: f"{file}-p{place.problem}-d{place.draw}-t{n}" for n in range(1, one.pages)
            }
            for n, name in further.items():
                links.add(f"{name}.html", "reading", **parts(place), turns=n)
            if calls:
                requests.add(place, calls_section(one, links, links.reading(place)))
            sections.append(section(run, links, one, readers_notes))
            texts.add(one, file)
            for n, name in further.items():
                other = read(run, place, page=n, probes=probes, ends=ends)
                page = readers_page(run, links, [section(run, links, other, readers_notes)], kind)
                written.add(f"{name}.html", page)
                texts.add(other, name)
            written.readings += 1
            on_progress(written.readings, len(places))
        written.add(f"{file}.html", readers_page(run, links, sections, kind))
    requests.close()
    texts.close()
    for file, page, parameters in pages:
        values: dict[str, Any] = parameters
        written.add(file, page_of(page)(run, links, PageQuery(**values)))
    for number, lines in enumerate(texts.files):
        written.add(f"texts-{number}.js", lines)
    if places:
        written.add("search.html", search_page(run, links, PageQuery(), parts=len(texts.files)))
    for name in COPIED:
        if (source := run.folder / REPORT / name).exists():
            written.add(name, read_bounded(source))
    return written


def _pages(run: RunReader, places: list[Place]) -> Iterator[tuple[str, str, dict[str, int | str]]]:
    """(file, page, parameters) of all pages except transcripts."""
    yield "index.html", "overview", {}
    yield "index-lift.html", "overview", {"plot": "lift"}
    for page in ("transcripts", "map", "compare", "failures", "cost", "origin"):
        yield f"{page}.html", page, {}
    for kind in measures_of(run):
        yield f"measure-{kind}.html", "measure", {"kind": kind}
    for problem in sorted({place.problem for place in places}):
        yield f"problem-{problem}.html", "problem", {"problem": problem}


@dataclass(slots=True)
class _Requests:
    """The files of requests and replies, each filled with as many readings as it holds."""

    run: RunReader
    links: SiteLinks
    written: Written
    sections: list[Markup] = field(default_factory=list)
    number: int = 1

    def add(self, place: Place, section: Markup) -> None:
        if self.sections and sum(map(len, self.sections)) + len(section) > CALLS_A_FILE:
            self.close()
        self.links.add(f"calls-{self.number}.html", "calls", **parts(place))
        self.sections.append(section)

    def close(self) -> None:
        """Write the file that is being filled."""
        if self.sections:
            page = called_page(self.run, self.links, self.sections, "", "")
            self.written.add(f"calls-{self.number}.html", page)
        self.sections, self.number = [], self.number + 1


def _selection(run: RunReader, count: int, most: int | None) -> str:
    every = len(run.sweep.rows) * len(run.sweep.problems) * run.sweep.draws
    if most is None or count == every:
        return f"all {count:,} transcripts"
    return (
        f"{count:,} of {every:,} transcripts: at most a third failed and a third flagged; the rest "
        "have the largest ASD in either direction. All figures cover the whole run"
    )


def _files(places: list[Place]) -> dict[Place, str]:
    """File of each reading, without its ending: some readings of a row share one."""
    files: dict[Place, str] = {}
    for row, group in groupby(places, key=lambda place: place.row):
        for n, place in enumerate(group):
            files[place] = f"row-{row}-{n // READINGS_A_FILE + 1}"
    return files


@contextmanager
def _staged(to: Path) -> Iterator[Path]:
    """A temporary folder whose files replace the files in `to` if the body succeeds."""
    stage = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        earlier = list(to.iterdir()) if to.exists() else []
        if earlier and not (to / BUNDLE_MARKER).exists():
            name = earlier[0].name
            raise UsageError(f"{to} is not a site: it holds {name}; choose another folder")
        stage.mkdir(parents=True)
        try:
            (stage / BUNDLE_MARKER).touch()
            yield stage
            to.mkdir(exist_ok=True)
            for file in earlier:
                file.unlink()
            for file in list(stage.iterdir()):
                file.replace(to / file.name)
        finally:
            rmtree(stage, ignore_errors=True)
    except OSError as exc:
        raise unwritable(to, exc) from exc
