"""Every screen in a real browser: served and from files, by keyboard, in light and dark."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from oversight.engine.views.pages.site import write_bundle
from tests.command_line import oversight
from tests.pages.browser import asked_by, faults_in, served, violations
from tests.pages.speaking import bad_run

SCREENS = (
    "",
    "run/{hard}",
    "run/{hard}/map",
    "run/{hard}/problem/2",
    "run/{hard}/row/30/problem/2",
    "run/{hard}/row/30/problem/2/calls",
    "run/{hard}/failures",
    "run/{hard}/cost",
    "run/{hard}/measure/frontier",
    "run/{hard}/measure/worlds",
    "run/{hard}/measure/calibration",
    "run/{hard}/live",
    "compare?a={hard}&b={hard}",
    "run/{hard}/answer",
    "run/{hard}/answer?first=debate+1&second=propaganda",
    "run/{hard}/pivot?by=protocol",
    "run/{hard}/cells?show=liar+won",
    "run/{hard}/row/30",
    "run/{hard}/search?q=simulated",
    "run/{hard}/measure/calibration",
    "run/nobody",
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def root(runs: Path) -> Iterator[str]:
    with served(runs) as address:
        yield address


@pytest.fixture(scope="module")
def site(hard: Path, place: Path) -> Path:
    """A bundle of the run that has everything in it."""
    done = oversight("view", hard, "--write", "site", "--readings", "24", cwd=place)
    assert done.code == 0, done.err
    return place / "site"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of transcripts as bad as can be."""
    place = tmp_path_factory.mktemp("hostile")

    async def made() -> None:
        with await bad_run(place) as run:
            write_bundle(run, place / "site", most=None, calls=True)

    # In a thread of its own: a loop of the browser's driver runs in this one.
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, made()).result()
    return place / "site"


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_accessible_whole_and_fits_a_narrow_window(
    screen: str, page: Any, root: str, hard: Path
) -> None:
    faults, asked = faults_in(page), asked_by(page)
    page.goto(root + screen.format(hard=hard.name))
    assert all(url.startswith((root, "data:")) for url in asked), "it asks nobody else"
    if not screen.endswith("nobody"):
        assert faults == []
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_every_page_of_a_bundle_opens_from_its_file(page: Any, site: Path) -> None:
    faults, asked = faults_in(page), asked_by(page)
    pages = sorted(site.glob("*.html"))
    kinds = {each.stem.partition("-")[0] for each in pages}
    tables = {"answer", "pivot", "cells", "search", "measure", "calls"}
    assert kinds == {"index", "map", "problem", "row", "failures", "cost"} | tables
    firsts = [next(each for each in pages if each.stem.startswith(kind)) for kind in sorted(kinds)]
    for each in [*firsts, next(site.glob("calls-*.html"))]:
        page.goto(each.as_uri())
        assert page.locator("main").inner_text().strip()
    # A page of several readings is the one kind that is not served.
    many = max(pages, key=lambda each: each.read_text().count('<section class="reading"'))
    page.goto(many.as_uri())
    assert page.locator(".reading").count() > 1
    assert violations(page) == []
    assert faults == []
    assert all(url.startswith(("file:", "data:")) for url in asked)


def test_no_link_of_a_bundle_leads_nowhere(site: Path) -> None:
    texts = {file.name: file.read_text() for file in site.glob("*.html")}
    anchors = {name: set(re.findall(r'id="([^"]+)"', text)) for name, text in texts.items()}
    for name, text in texts.items():
        links = {unescape(link) for link in re.findall(r'<a [^>]*?href="([^"]+)"', text)}
        assert links
        for link in links:
            file, _, anchor = link.partition("#")
            assert (site / (file or name)).exists(), f"{name} leads to {link}"
            if anchor and "=" not in anchor:
                assert anchor in anchors[file or name], f"{name}: {link}"


def test_a_site_is_searched_from_its_files_and_opens_the_turn(page: Any, site: Path) -> None:
    faults, asked = faults_in(page), asked_by(page)
    page.goto((site / "search.html").as_uri())
    page.get_by_role("searchbox").fill('simulated "this simul*"')
    page.keyboard.press("Enter")
    page.locator("#hits a").first.click()
    page.locator(".turn:target").wait_for()
    assert "simulated" in page.locator(".turn:target").inner_text()
    assert page.locator(".reading:visible").count() == 1, "others of the file are hidden"
    page.goto((site / "cells.html").as_uri())
    every = page.locator("#cells tbody tr:visible").count()
    page.get_by_role("link", name="liar won", exact=True).first.click()
    assert 0 < page.locator("#cells tbody tr:visible").count() < every
    assert faults == [] and all(url.startswith(("file:", "data:")) for url in asked)


def test_worlds_are_tabs_where_they_do_not_fit(page: Any, root: str, hard: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{root}run/{hard.name}/row/30/problem/2")
    first = page.locator("[data-w]:visible").evaluate_all("all => all.map(e => e.dataset.w)")
    assert len(set(first)) == 1
    page.locator(".world-tab").nth(1).click()
    second = page.locator("[data-w]:visible").evaluate_all("all => all.map(e => e.dataset.w)")
    assert len(set(second)) == 1 and set(first) != set(second)


def test_five_questions_are_answered_in_three_clicks_each(page: Any, root: str, hard: Path) -> None:
    """What people come with. Typing a word counts as no click; pressing a button or a link does."""
    first = f"{root}run/{hard.name}"

    def button(name: str) -> Any:
        return page.get_by_role("button", name=name, exact=True)

    def link(name: str) -> Any:
        return page.get_by_role("link", name=name).first

    page.goto(first)
    page.fill("[name=first]", "debate")
    page.fill("[name=second]", "consultancy")
    button("Answer").click()
    assert "better than consultancy in" in page.locator(".verdict-box").inner_text()
    page.locator("#pairs tbody a").first.click()
    assert "Problems on which they differ most" in page.inner_text("main"), "where it loses"
    link("under the first row").click()
    assert page.locator(".turn").count(), "and how: the third click"

    page.goto(first)
    link("transcripts").click()
    link("liar won").click()
    page.locator("#cells tbody a").first.click()
    assert page.locator(".world-head.false").count(), "a liar who won"

    page.goto(first)
    page.fill(".find input", "simulated case")
    page.keyboard.press("Enter")
    page.locator("#hits a").first.click()
    assert "simulated" in page.locator(".turn:target").inner_text(), "a word in a speech"

    page.goto(first)
    assert "cost" in page.locator(".origin").inner_text().lower(), "what it cost: no click"
    link("cost").click()
    assert "The ledger is empty" in page.inner_text("main")


def test_a_reader_is_walked_by_keys_alone(page: Any, root: str, hard: Path) -> None:
    page.goto(f"{root}run/{hard.name}/row/30/problem/2")
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


def test_a_map_is_walked_by_keys_and_opened(page: Any, root: str, hard: Path) -> None:
    page.goto(f"{root}run/{hard.name}/map")
    for key in "jlljlhk":
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('td') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url("**/row/*/problem/*")


def test_a_list_keeps_its_order_and_filter_in_the_address(page: Any, root: str, hard: Path) -> None:
    page.goto(f"{root}run/{hard.name}")
    page.keyboard.press("/")
    page.keyboard.type("debate strong")
    page.get_by_role("button", name="ASD").click()
    shown = page.locator("#forest tbody tr:visible")
    rows = shown.all_inner_texts()
    assert rows and all("debate" in row and "sim/strong" in row for row in rows)
    again = page.context.new_page()
    again.goto(page.url)
    assert again.locator("#forest tbody tr:visible").all_inner_texts() == rows
    values = again.locator("#forest tbody tr:visible td[data-label=ASD]").evaluate_all(
        "all => all.map(td => Number(td.dataset.value))"
    )
    assert values == sorted(values, reverse=True)


def test_print_leaves_out_what_only_a_screen_can_do(page: Any, root: str, hard: Path) -> None:
    page.goto(f"{root}run/{hard.name}/row/30/problem/2")
    page.emulate_media(media="print")
    assert not page.locator(".views").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.locator(".turn").first.is_visible()


@pytest.mark.parametrize("name", ["index", "map", "problem-0", "row-0-1", "calls-1"])
def test_nothing_of_a_hostile_bundle_runs(name: str, page: Any, hostile: Path) -> None:
    asked = asked_by(page)
    page.goto((hostile / f"{name}.html").as_uri())
    assert page.evaluate("window.broken") is None
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    assert all(url.startswith(("file:", "data:")) for url in asked)
