"""Every screen in a real browser: served and from files, by keyboard, in light and dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import oversight
from tests.pages.browser import served

AXE = Path(__file__).parent / "vendored" / "axe.min.js"
SCREENS = (
    "",
    "run/{hard}",
    "run/{hard}/map",
    "run/{hard}/problem/2",
    "run/{hard}/row/30/problem/2",
    "run/{hard}/row/30/problem/2/calls",
    "run/{hard}/failures",
    "run/{hard}/cost",
    "run/{hard}/live",
    "compare?a={hard}&b={hard}",
    "run/nobody",
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def root(runs: Path) -> Iterator[str]:
    with served(runs) as address:
        yield address


@pytest.fixture(scope="module")
def site(small: Path, hard: Path) -> Path:
    """A bundle of the run that has everything in it."""
    to = hard.parent.parent / "site"
    done = oversight("bundle", hard, "-o", to, "--readings", "60", cwd=hard.parent.parent)
    assert done.code == 0, done.err
    return to


class Looked:
    """A page with all that it asked for and all that went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.asked: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on(
            "console",
            lambda told: self.faults.append(told.text) if told.type in ("error", "warning") else 0,
        )


@pytest.fixture(params=["light", "dark"])
def looked(request: pytest.FixtureRequest, browser: Any) -> Iterator[Looked]:
    context = browser.new_context(color_scheme=request.param, reduced_motion="reduce")
    yield Looked(context.new_page())
    context.close()


def violations(page: Any) -> list[str]:
    """What axe finds. It is put in by the driver: the page's own policy would refuse it."""
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations'], runOnly: {type: 'tag', values: "
        "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}})"
    )
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}"
        for each in found["violations"]
    ]


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_to_mend_in_any_screen(
    screen: str, looked: Looked, root: str, hard: Path
) -> None:
    looked.page.goto(root + screen.format(hard=hard.name))
    assert violations(looked.page) == []


@pytest.mark.parametrize("screen", SCREENS[:-1])
def test_a_page_asks_nobody_else_and_logs_no_fault(
    screen: str, looked: Looked, root: str, hard: Path
) -> None:
    looked.page.goto(root + screen.format(hard=hard.name))
    looked.page.wait_for_load_state("load")
    assert looked.faults == []
    assert all(url.startswith((root, "data:")) for url in looked.asked)


def test_every_page_of_a_bundle_opens_from_its_file(looked: Looked, site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    kinds = {page.stem.partition("-")[0] for page in pages}
    assert kinds == {"index", "map", "problem", "row", "failures", "cost"}
    firsts = [next(page for page in pages if page.stem.startswith(kind)) for kind in sorted(kinds)]
    for page in [*firsts, next(site.glob("row-*-calls.html"))]:
        looked.page.goto(page.as_uri())
        assert looked.page.locator("main").inner_text().strip()
        assert violations(looked.page) == [], page
    assert looked.faults == []
    assert all(url.startswith(("file:", "data:")) for url in looked.asked)


def test_no_link_of_a_bundle_leads_nowhere(looked: Looked, site: Path) -> None:
    for file in site.glob("*.html"):
        looked.page.goto(file.as_uri())
        links = looked.page.eval_on_selector_all(
            "a[href]", "all => all.map(a => a.getAttribute('href'))"
        )
        for link in set(links):
            name, _, anchor = link.partition("#")
            assert not name or (site / name).exists(), f"{file.name} leads to {link}"
            if anchor and name:
                assert f'id="{anchor}"' in (site / name).read_text(), f"{file.name}: {link}"


def test_a_reader_is_walked_by_keys_alone(looked: Looked, root: str, hard: Path) -> None:
    page = looked.page
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
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == (
        "World B, turn 1, Debater B"
    )
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


def test_a_map_is_walked_by_keys_and_opened(looked: Looked, root: str, hard: Path) -> None:
    page = looked.page
    page.goto(f"{root}run/{hard.name}/map")
    for key in "jlljlhk":
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('td') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url("**/row/*/problem/*")


def test_a_list_keeps_its_order_and_filter_in_the_address(
    looked: Looked, root: str, hard: Path
) -> None:
    page = looked.page
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


@pytest.mark.parametrize("screen", SCREENS[:-1])
def test_nothing_sticks_out_of_a_narrow_screen(
    screen: str, browser: Any, root: str, hard: Path
) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 700})
    page = context.new_page()
    page.goto(root + screen.format(hard=hard.name))
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    context.close()


def test_print_leaves_out_what_only_a_screen_can_do(looked: Looked, root: str, hard: Path) -> None:
    page = looked.page
    page.goto(f"{root}run/{hard.name}/row/30/problem/2")
    page.emulate_media(media="print")
    assert not page.locator(".views").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.locator(".turn").first.is_visible()
