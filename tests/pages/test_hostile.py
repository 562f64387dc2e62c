"""Transcripts are hostile text: nothing in one does anything, and none is too large to show."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from oversight.engine.run.reader import Place, RunReader
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.tables import RunTables
from oversight.engine.views.pages import searched
from oversight.engine.views.pages.links import PageQuery, ServerLinks, page_of
from oversight.engine.views.pages.site import write_site
from oversight.engine.views.pages.transcript_page import calls_section
from oversight.engine.views.pages.transcript_view import read
from tests.pages.speaking import LONG, bad_run
from tests.run_folders import cut

MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    return asyncio.run(bad_run(tmp_path_factory.mktemp("bad")))


@pytest.fixture
def run(hostile: RunReader) -> Iterator[RunReader]:
    """The run, opened again."""
    with RunReader(hostile.folder, hostile.store) as opened:
        yield opened


def made_page(run: RunReader, name: str, **parameters: object) -> str:
    values: dict[str, Any] = parameters
    return page_of(name)(run, ServerLinks("run"), PageQuery(**values))


async def test_hostile_transcript_is_shown_as_text_and_cut(run):
    page = made_page(run, "reading")
    assert "&lt;script&gt;window.broken=1" in page and '<span class="ctl">\\u202e</span>' in page
    assert "javascript:" not in page.replace("href=&#39;javascript:window.broken=4", "")
    assert "more characters" in page


async def test_second_search_reads_no_database(run, monkeypatch):
    searched._kept.clear()
    first, reads = made_page(run, "search", q="speaker turn*"), []
    every = RunTables.every_call
    monkeypatch.setattr(RunTables, "every_call", lambda self: reads.append(self) or every(self))
    assert made_page(run, "search", q="speaker turn*") == first
    assert "texts of this run match" in made_page(run, "search", q="turn*") and not reads
    # A run that is too large is read for each query.
    monkeypatch.setattr(searched, "MAX_KEPT", 10)
    searched._kept.clear()
    assert made_page(run, "search", q="speaker turn*") == first and len(reads) == 2
    searched._kept.clear()


async def test_cut_request_has_a_page_with_its_full_text(run: RunReader) -> None:
    one = read(run, Place(0, 0), requests=True)
    (address,) = set(re.findall(r"only=(\w{12})", calls_section(one, ServerLinks("run"))))
    full = calls_section(one, ServerLinks("run"), only=address)
    assert "more characters" not in full and "only=" not in full
    assert full.count("&lt;b&gt;") >= LONG.count("<b>")


@pytest.mark.campaign
async def test_ten_thousand_turns_are_split_into_pages_of_a_hundred(tmp_path: Path) -> None:
    run = await bad_run(tmp_path, turns=10_000)
    first, last = read(run, Place(1, 0)), read(run, Place(1, 0), page=99)
    assert (first.pages, first.lines[0][0].number, last.lines[-1][0].number) == (100, 1, 10_000)
    for one in (first, last):
        assert len(one.lines) == 100
        assert len(made_page(run, "reading", row=1, turns=one.page).encode()) < MOST_BYTES
    assert len(calls_section(first, ServerLinks("run")).encode()) < MOST_BYTES


@pytest.mark.wire
async def test_site_has_one_file_per_hundred_turns(run: RunReader, tmp_path: Path) -> None:
    write_site(run, tmp_path / "site", most=None, calls=True)
    assert len(list((tmp_path / "site").glob("row-1-1-p0-d0-t*.html"))) == 2


LISTS: dict[str, tuple[str, dict[str, object]]] = {
    "reading": ("reading", {}), "compare": ("compare", {}),
    "asked": ("compare", {"first": "<script>", "second": "</title><img src=x>"}),
    "map": ("map", {}), "origin": ("origin", {}), "problem": ("problem", {}),
    "frontier": ("measure", {"kind": "frontier"}), "worlds": ("measure", {"kind": "worlds"}),
    "calibration": ("measure", {"kind": "calibration"}),
    "transcripts": ("transcripts", {"words": "<script>"}), "row": ("row", {"row": 0}),
    "search": ("search", {"q": "script window*"}), "failures": ("failures", {}),
    "overview": ("overview", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
async def test_lists_of_a_hostile_run_escape_markup(name: str, run: RunReader) -> None:
    page = made_page(run, LISTS[name][0], **LISTS[name][1])
    body = page.partition("<main")[2].partition("</main>")[0]
    for data in ("map", "dots"):
        body = body.replace(f'<script type="application/json" id="{data}-data">', "", 1)
    for live in ("<script", "<img", "<iframe", "<style", "<meta", "<b><b>"):
        assert live not in body
    assert not set("\u202e\u2066\x1b\x00\u2028\ufeff") & set(page)
    assert len(page.encode()) < MOST_BYTES


@pytest.mark.parametrize("name", LISTS)
async def test_run_without_verdicts_has_all_lists_and_they_grow(name, hostile, tmp_path):
    folder = Path(copytree(hostile.folder, tmp_path / "run"))
    with RunReader(folder) as run:
        (first,) = run.tables.cells([0])
    cut(folder, 0)
    rmtree(folder / "report", ignore_errors=True)
    with RunReader(folder, hostile.store) as run:
        assert "</html>" in made_page(run, LISTS[name][0], **LISTS[name][1])
        with closing(RunDatabase(folder)) as database:
            database.write([first])
        assert "</html>" in made_page(run, LISTS[name][0], **LISTS[name][1])
