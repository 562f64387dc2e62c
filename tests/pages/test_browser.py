"""Every screen in a real browser: served and from files, by keyboard, in light and dark."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import unescape
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import orjson
import pytest

from oversight.engine.analysis.rows import read_rows
from oversight.engine.display.progress import Snapshot
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.views.pages.answer import (
    DOUBT,
    FAILED,
    IMPUTED,
    VALUE,
    field_states,
    ordered_by_mean,
)
from oversight.engine.views.pages.site import write_site
from tests.command_line import oversight
from tests.pages.browser import asked_by, faults_in, opened, served, unpacked, violations
from tests.pages.conftest import SMALL
from tests.pages.speaking import bad_run
from tests.run_folders import CELLS, cut, folder, land

SCREENS = (
    "", "run/{hard}", "run/{hard}?plot=lift&by=judge", "run/{hard}/transcripts?show=liar+won",
    "run/{hard}/row/30", "run/{hard}/map", "run/{hard}/compare",
    "run/{hard}/compare?first=debate+1&second=propaganda", "run/{hard}/origin",
    "run/{hard}/problem/2", "run/{hard}/row/30/problem/2", "run/{hard}/row/30/problem/2/calls",
    "run/{hard}/failures", "run/{hard}/cost", "run/{hard}/measure/frontier",
    "run/{hard}/measure/worlds", "run/{hard}/measure/calibration", "run/{hard}/search?q=simulated",
    "run/nobody",
)  # fmt: skip
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def root(runs: Path) -> Iterator[str]:
    with served(runs) as address:
        yield address


@pytest.fixture(scope="module")
def run(root: str, hard: Path) -> str:
    """The address of the run that has everything in it."""
    return f"{root}run/{hard.name}"


@pytest.fixture(scope="module")
def site(hard: Path, place: Path) -> Path:
    """A bundle of the run that has everything in it."""
    written = oversight("view", hard, "--write", "site", "--transcripts", "24", cwd=place)
    assert written.code == 0, written.err
    return place / "site"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs that differ in their judges."""
    place = tmp_path_factory.mktemp("pair")
    for name, judge in (("first", "sim/judge"), ("second", "sim/medium")):
        text = SMALL.replace("name: small", f"name: {name}").replace("sim/judge", judge)
        (place / f"{name}.yaml").write_text(text)
        assert oversight("run", f"{name}.yaml", cwd=place).code == 0
    return place / "runs"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of transcripts as bad as can be."""
    place = tmp_path_factory.mktemp("hostile")

    async def made() -> None:
        with await bad_run(place) as run:
            write_site(run, place / "site", most=None, calls=True)

    # In a separate thread: a loop of the browser's driver runs in this one.
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, made()).result()
    return place / "site"


@pytest.mark.parametrize("screen", SCREENS)
def test_page_is_accessible_and_fits_a_narrow_window(screen, page, root, hard):
    faults, addresses = faults_in(page), asked_by(page)
    page.goto(root + screen.format(hard=hard.name))
    assert all(url.startswith((root, "data:")) for url in addresses), "it asks nobody else"
    if not screen.endswith("nobody"):
        assert faults == []
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    strips = page.locator("td.plot:visible svg").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().width)"
    )
    assert all(width >= 200 for width in strips)


def test_every_page_of_a_site_opens_from_its_file(page: Any, site: Path) -> None:
    faults, addresses = faults_in(page), asked_by(page)
    pages = sorted(site.glob("*.html"))
    kinds = {file.stem.partition("-")[0] for file in pages}
    tables = {"compare", "transcripts", "search", "measure", "calls", "origin"}
    assert kinds == {"index", "map", "problem", "row", "failures", "cost"} | tables
    firsts = [next(file for file in pages if file.stem.startswith(kind)) for kind in sorted(kinds)]
    for file in [*firsts, next(site.glob("calls-*.html"))]:
        page.goto(file.as_uri())
        assert page.locator("main").inner_text().strip()
    # A page of several readings is the one kind that is not served.
    many = max(pages, key=lambda file: unpacked(file).count('<section class="reading"'))
    page.goto(many.as_uri())
    page.locator(".reading").first.wait_for()
    assert page.locator(".reading").count() > 1 and violations(page) == []
    page.goto(next(site.glob("calls-*.html")).as_uri())
    page.locator(".call").first.wait_for()
    assert faults == [] and all(url.startswith(("file:", "data:")) for url in addresses)


def test_every_link_of_a_site_has_a_target(site: Path) -> None:
    texts = {file.name: unpacked(file) for file in site.glob("*.html")}
    anchors = {name: set(re.findall(r'id="([^"]+)"', text)) for name, text in texts.items()}
    for name, text in texts.items():
        links = {unescape(link) for link in re.findall(r'<a [^>]*?href="([^"]+)"', text)}
        assert links
        for link in links:
            file, _, anchor = link.partition("#")
            assert (site / (file or name)).exists(), f"{name} leads to {link}"
            if anchor and "=" not in anchor:
                assert anchor in anchors[file or name], f"{name}: {link}"


def test_search_in_a_site_opens_the_turn(page: Any, site: Path) -> None:
    faults, addresses = faults_in(page), asked_by(page)
    page.goto((site / "search.html").as_uri())
    page.get_by_role("searchbox").fill('simulated "this simul*"')
    page.keyboard.press("Enter")
    page.locator("#hits a").first.click()
    page.locator(".turn:target").wait_for()
    assert "simulated" in page.locator(".turn:target").inner_text()
    assert page.locator(".reading:visible").count() == 1, "others of the file are hidden"
    page.goto((site / "transcripts.html").as_uri())
    every = page.locator("#list tbody tr:visible").count()
    page.get_by_role("link", name="liar won", exact=True).first.click()
    assert 0 < page.locator("#list tbody tr:visible").count() < every
    assert faults == [] and all(url.startswith(("file:", "data:")) for url in addresses)


def test_worlds_are_tabs_on_narrow_screens(page: Any, run: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{run}/row/30/problem/2")
    first = page.locator("[data-w]:visible").evaluate_all("all => all.map(e => e.dataset.w)")
    assert len(set(first)) == 1
    page.locator(".world-tab").nth(1).click()
    second = page.locator("[data-w]:visible").evaluate_all("all => all.map(e => e.dataset.w)")
    assert len(set(second)) == 1 and set(first) != set(second)


class Visit:
    """The steps of a person on a page. Pressing counts as a click, typing does not."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.clicks = page, 0
        from playwright.sync_api import TimeoutError

        try:
            page.goto(address, timeout=45_000)
        except TimeoutError:
            # On a crowded machine Chromium may lose its first request: once more then.
            page.goto(address)

    def click(self, locator: Any) -> None:
        self.clicks += 1
        assert self.clicks <= 3
        locator.first.click()

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name))

    def text(self, within: str = "main") -> str:
        return str(self.page.locator(within).first.inner_text())


def test_one_click_leads_to_a_problem_where_the_lie_won(page: Any, run: str) -> None:
    visit = Visit(page, run)
    lowest = page.locator("section", has_text="Problems with the lowest ASD")
    visit.click(lowest.locator("tbody td a"))
    assert page.locator(".world-head.false").count() and "−" in visit.text(".verdict b")


def test_compare_page_answers_which_row_is_better(page: Any, run: str) -> None:
    visit = Visit(page, run)
    page.fill("[name=first]", "debate")
    page.fill("[name=second]", "consultancy")
    visit.click(page.get_by_role("button", name="Answer", exact=True))
    assert "better than consultancy in" in visit.text(".verdict-box")
    visit.click(page.locator("#table1 tbody a"))
    assert "Problems on which they differ most" in visit.text(), "where it loses"
    visit.click(page.locator("#table1 td:nth-child(2) a"))
    assert page.locator(".turn").count(), "and how"


def test_failure_follows_the_last_turn_of_its_world(page: Any, run: str) -> None:
    visit = Visit(page, run)
    visit.click(page.locator("section", has_text="cells failed, by cause").locator("tbody td a"))
    assert "Failed: " in visit.text(".turn.failure")
    world = page.locator(".turn.failure").first.get_attribute("data-w")
    own_turns = page.locator(f"article.turn:is([data-w={world}], :not([data-w]))")
    turns = own_turns.evaluate_all("all => all.map(e => e.className)")
    at = ["failure" in name for name in turns].index(True)
    assert ["judge" in name for name in turns] == [False] * (at + 1) + [True] * len(turns[at + 1 :])
    assert turns[at + 1 :], "the judge follows"
    visit = Visit(page, run)
    visit.click(page.locator(".views summary"))
    visit.link("Failures and flags")
    assert "--retry-failed" in visit.text() and page.locator("#table1 tbody tr").count() > 1


def test_prompt_of_the_judge_is_shown_in_full(page: Any, run: str, hard: Path) -> None:
    with RunReader(hard, hard.parents[1] / "store") as reader:
        cell = reader.cells([reader.worlds(Place(30, 2))[0]]).popitem()[1]
        call = next(recorded for recorded in reversed(cell.calls) if recorded.role == "judge")
        request, _ = reader.stored(call) or (None, None)
    assert request
    Visit(page, f"{run}/row/30/problem/2").link("full text that the judge read")
    texts = page.locator(".call details:not(.reply details) .raw").all_text_contents()
    assert texts == [message.text for message in request.messages]


def test_cost_figure_links_and_origin_are_reachable(page, run, hard, tmp_path):
    visit = Visit(page, run)
    assert "tokens in" in visit.text("section:has-text('Cost per problem')"), "no click"
    assert "SIMULATED" in visit.text("h1") and "SIMULATED" in visit.text(".origin")
    visit.click(page.locator(".menu summary", has_text="figure"))
    command = visit.text(".menu code").split()
    name = command.index(hard.name)
    ran = oversight(*command[1:name], hard, *command[name + 1 :], cwd=tmp_path)
    assert ran.code == 0 and (tmp_path / "asd.pdf").exists(), "the command draws it, too"
    with page.expect_download() as drawn:
        visit.link("SVG")
    assert "<svg" in Path(drawn.value.path()).read_text()
    visit = Visit(page, f"{run}/row/30/problem/2")
    visit.link("world B · turn 1")
    assert page.url.endswith("-B1") and page.locator(".turn:target").count() == 1


def test_search_leads_to_the_turn(page: Any, run: str) -> None:
    visit = Visit(page, run)
    page.fill(".find input", "simulated case")
    page.keyboard.press("Enter")
    visit.click(page.locator("#hits a"))
    assert "simulated" in visit.text(".turn:target")


def test_transcript_page_works_by_keys_alone(page: Any, run: str) -> None:
    page.goto(f"{run}/row/30/problem/2")
    page.keyboard.press("j")
    page.wait_for_url("**/row/30/problem/3")
    page.keyboard.press("l")
    page.wait_for_url("**/row/31/problem/3")
    page.keyboard.press("k")
    page.wait_for_url("**/row/31/problem/2")
    page.keyboard.press("h")
    page.wait_for_url("**/row/30/problem/2")
    page.keyboard.press("t")
    page.keyboard.press("t")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "World B, turn 1, Debater B"
    page.keyboard.press("d")
    assert page.locator("#diff").get_attribute("aria-pressed") == "true"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    page.keyboard.press("a")
    page.wait_for_url("**/calls")
    page.keyboard.press("m")
    page.wait_for_url("**/map")


def test_map_names_and_counts_the_states_of_its_fields(page, runs, hard, tmp_path):
    part = tmp_path / "runs" / "part"
    copytree(hard, part)
    cut(part, len(RunReader(part).sweep) * 2 // 3)
    completed = read_rows(RunReader(part))
    values = completed.asd_by_problem("brier")
    problems, rows = ordered_by_mean(values)
    kind = {n: completed.sweep.rows[n].mechanism for n in rows}
    rows.sort(key=lambda n: [*dict.fromkeys(kind.values())].index(kind[n]))
    states = field_states(completed, values)[problems][:, rows] & ~DOUBT
    with served(part.parent) as address:
        for state, word in ((FAILED, "failed"), (VALUE | IMPUTED, "imputed"), (0, "not run")):
            page.goto(f"{address}run/part/map")
            fields = np.argwhere(states == state).tolist()
            assert f"{word} {len(fields)}" in page.locator(".legend").inner_text()
            page.locator("#map").focus()
            down, right = fields[0]
            for key in ("ArrowLeft", *["ArrowDown"] * down, *["ArrowRight"] * right):
                page.keyboard.press(key)
            field = page.locator("#field").inner_text()
            assert re.search(rf"(: |, ){word}(, flagged)?$", field), field
        number, row = problems[fields[0][0]], rows[fields[0][1]]
        page.goto(f"{address}run/part/problem/{number}")
        assert page.locator("#rows tbody tr td.num").nth(-1).inner_text() == "not run"
        page.goto(f"{address}run/part/row/{row}/problem/{number}")
        assert "not run" in page.locator(".verdict").inner_text()


def test_map_names_enlarges_and_opens_fields(page: Any, run: str) -> None:
    page.goto(f"{run}/map")
    box = page.locator("#map").bounding_box()
    bands, top = page.locator("#map-top b").all_inner_texts(), page.locator("#map-top span")
    assert {"debate", "consultancy", "naive judge"} < {*bands} and not top.count()
    assert page.locator("#map-side a").count() == 5
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    assert " under " in page.locator("#field").inner_text()
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 30)
    page.mouse.up()
    page.locator("#whole").wait_for()
    every = page.locator("#list-1 li").all_text_contents()
    assert top.all_inner_texts() == every[: top.count()] and top.count()
    assert page.locator("#map-top b").all_inner_texts() == bands[:1] and violations(page) == []
    page.locator("#map").focus()
    page.keyboard.press("Escape")
    assert page.locator("#map").bounding_box() == box and not top.count()
    for key in ("ArrowDown", "l", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/row/*/problem/*")


def test_filter_without_matches_says_so_and_is_reset(page: Any, run: str) -> None:
    page.goto(run)
    every = page.locator("#forest tbody tr:visible").count()
    page.fill("#filter", "nobody")
    assert "No line contains all of these words" in page.locator(".no-row").inner_text()
    page.get_by_role("button", name="Show all").click()
    assert page.locator("#forest tbody tr:visible").count() == every
    page.locator(".fold").first.click()
    assert page.locator("#forest tbody tr:visible").count() > every


FOCUSED = "document.activeElement.id || document.activeElement.textContent.trim()"
MENU = ["Failures and flags", "Cost", "Frontier of cost", "World against world", "Calibration"]


def test_few_stops_precede_the_filter_and_the_menu_works_by_keys(page: Any, run: str) -> None:
    page.goto(run)
    stops = []
    while not stops or stops[-1] != "filter":
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
    assert len(stops) <= 11 and stops[-2] == "more", stops
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.locator(".views details a:visible").all_inner_texts()[:5] == MENU
    assert violations(page) == []
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == MENU[0]
    page.keyboard.press("Escape")
    assert page.locator(".views details a:visible").count() == 0
    page.keyboard.press("e")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cost")
    assert page.locator(".views [aria-current=page]").text_content() == "Cost"


@pytest.mark.parametrize("width", [1440, 390])
def test_menu_of_a_site_opens_without_script(browser: Any, site: Path, width: int) -> None:
    with opened(browser, java_script_enabled=False) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((site / "index.html").as_uri())
        assert page.locator("tr.member").first.is_visible()
        page.locator(".views summary").click()
        page.get_by_role("link", name="Calibration").click()
        assert page.locator("h1").inner_text() == "Calibration"
        box = page.locator(".views").bounding_box()
        assert box["x"] >= 0 and box["width"] <= width


def test_two_judges_are_two_marks_on_the_line_of_a_protocol(page, root, small):
    page.goto(f"{root}run/{small.name}")
    lines = page.locator("#forest tbody tr:visible")
    assert lines.count() == 3, "three protocols with two judges each"
    assert lines.locator(".two g").count() == 6
    assert lines.locator(".two circle.mean:visible, .two rect.mean:visible").count() == 6
    legend = page.locator(".legend").inner_text()
    assert "sim/judge stated" in legend and "sim/weak logprob" in legend
    heads = page.locator("#forest thead th").all_inner_texts()
    assert not {"n", "failed"} & set(heads), "figures that are equal or 0 are left out"


def test_list_keeps_its_order_and_filter_in_the_address(page: Any, run: str) -> None:
    page.goto(run)
    page.keyboard.press("/")
    page.keyboard.type("debate strong")
    page.get_by_role("button", name="ASD", exact=True).click()
    rows = page.locator("#forest tbody tr:visible").all_inner_texts()
    members = page.locator("#forest tr.member:visible").all_inner_texts()
    assert members and all("sim/strong" in row for row in members)
    again = page.context.new_page()
    again.goto(page.url)
    assert again.locator("#forest tbody tr:visible").all_inner_texts() == rows
    values = again.locator("#forest tr.group:visible td[data-label=ASD]").evaluate_all(
        "all => all.map(td => Number(td.dataset.value))"
    )
    assert len(values) > 1 and values == sorted(values, reverse=True)


def test_print_leaves_out_controls(page: Any, run: str) -> None:
    page.goto(f"{run}/row/30/problem/2")
    page.emulate_media(media="print")
    assert not page.locator(".views").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.locator(".turn").first.is_visible()


@pytest.mark.parametrize("name", ["index", "map", "problem-0", "row-0-1", "calls-1"])
def test_hostile_texts_of_a_site_do_not_run(name: str, page: Any, hostile: Path) -> None:
    addresses = asked_by(page)
    page.goto((hostile / f"{name}.html").as_uri())
    assert page.evaluate("window.broken") is None
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    assert all(url.startswith(("file:", "data:")) for url in addresses)


@pytest.mark.parametrize("width", (1440, 390))
def test_one_click_leads_from_a_number_to_its_cells(width, page, run, hard, site):
    page.set_viewport_size({"width": width, "height": 800})
    with RunReader(hard) as reader:
        rows, names = read_rows(reader), read_rows(reader).names
        results = rows.results("brier", (1.0,)).rows
        n = next(n for n, row in enumerate(results) if row.imputed and row.lift and row.accuracy)
        wrong = set(rows.table.cells.problem[rows.table.counted_right(n) < 1].tolist())
        failed = {at.problem for at, _ in map(reader.where, rows.table.failed) if at.row == n}
    for show, count in (
        ("wrong verdict", len(wrong)),
        ("failed", len(failed)),
        ("imputed", results[n].imputed),
    ):
        visit = Visit(page, run)
        page.locator(".fold").evaluate_all("all => all.forEach(each => each.click())")
        visit.click(page.locator(f"td.num a[href$='/row/{n}?show={show.replace(' ', '+')}']"))
        assert page.locator("#list tbody tr").count() == count, show
        assert show in visit.text(".choices [aria-current]")
    visit = Visit(page, run)
    page.locator(".fold").evaluate_all("all => all.forEach(each => each.click())")
    visit.click(page.locator(f"tr:has(a[href$='/row/{n}']) a[href*='/compare']"))
    assert visit.text(".verdict-box .big").startswith(names[n])
    # A site filters its list of transcripts, and its list of contrasts.
    for table, words in (("list", "%22debate%2C+sequential%22+wrong+verdict"), ("table1", "%22")):
        visit = Visit(page, (site / "index.html").as_uri())
        visit.click(page.locator(f"td.num a[href*='#{table}.filter={words}']:visible"))
        page.wait_for_url(f"**#{table}.filter=*")  # and until its scripts have filtered
        lines = page.locator(f"#{table} tbody tr:visible")
        assert 0 < lines.count() < page.locator(f"#{table} tbody tr").count(), words


WAIT = (
    'waiting for compatible/lab/odd: HTTP 500 "CUDA <b>error</b>…", 20 cells held, next try in '
    "4:00 (--give-up 10m ends the wait)"
)


def test_strip_of_a_run_under_way_shows_calls_times_and_waits(page: Any, tmp_path: Path) -> None:
    place = tmp_path / "runs" / "active"
    place.mkdir(parents=True)
    live, edge = page.locator("#live"), "e => getComputedStyle(e).borderLeftColor"
    with folder(place) as run, served(place.parent) as address:
        land(run, CELLS[:4], failed=[1])

        def tell(now: Snapshot) -> None:
            run.database.tell("progress", orjson.dumps(now))

        at_start = Snapshot(calls=12, new=10, in_flight=2, expected=1656, elapsed=9)
        tell(at_start)
        page.goto(f"{address}run/active")
        names = page.locator("#live dt").all_inner_texts()
        counted = "cells, calls, sent, from cache, reused, in flight, failed"
        assert ", ".join(names) == f"{counted}, elapsed, left, spent, forecast"
        figures = page.locator("#live dd")
        cells = f"4 of {len(CELLS)} ({4 / len(CELLS):.0%})"
        counts = [cells, "12 of about 1,656", "10", "0", "0", "2", "1"]
        assert figures.all_inner_texts() == [*counts, "0:09", "–", "$0.00", "–"]
        assert live.get_attribute("data-state") == "running" and violations(page) == []
        green = live.evaluate(edge)
        later = replace(at_start, calls=619, new=200, stored=1, shared=418, elapsed=70, left=120)
        tell(replace(later, waits=("odd",), models=(WAIT,)))
        page.locator("#live[data-state=waiting]").wait_for()
        assert page.locator("#nothing").inner_text() == WAIT
        assert page.locator("#live p b").count() == 1, "the server's words are inert"
        assert figures.all_inner_texts()[7:9] == ["1:10", "2:00"]
        assert live.evaluate(edge) != green and violations(page) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        tell(replace(later, models=("m  2.0/s  limited by concurrency 4",)))
        page.locator("#live[data-state=running]").wait_for()
        page.locator("#live summary").click()
        assert page.locator("#limits").inner_text() == "m  2.0/s  limited by concurrency 4"
        assert WAIT not in live.inner_text()


@pytest.mark.parametrize("width", (1440, 390))
def test_two_clicks_lead_to_one_problem_in_two_runs(width: int, browser: Any, pair: Path) -> None:
    with served(pair) as root, opened(browser, viewport={"width": width, "height": 800}) as page:
        one, two = (folder.name for folder in sorted(pair.iterdir()))
        visit = Visit(page, f"{root}run/{one}")
        visit.link("compare")
        page.fill("[name=run2]", two)
        page.keyboard.press("Enter")
        table = page.locator("section", has_text="changed sides")
        table.wait_for()
        assert violations(page) == []
        id = table.locator("tbody th").first.inner_text()
        assert "→" in table.locator("tbody td").nth(1).inner_text()
        visit.click(table.locator(f"a[href*='/run/{two}/row/']"))
        assert f"/run/{two}/row/" in page.url and visit.clicks == 2
        assert id in page.locator("h1").first.inner_text()
        page.goto(f"{root}run/{one}/compare?run2=nobody")
        assert "unknown run 'nobody'" in page.locator(".fail").inner_text()
