"""Runs to look at, made once, and a browser to look with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import within
from tests.pages.browser import CHROMIUM, chromium
from tests.pages.runs import HARD


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, `small-…` and `hard-…`, and their store beside it."""
    place = tmp_path_factory.mktemp("looked-at")
    (place / "hard.yaml").write_text(HARD)
    (place / "small.yaml").write_text(
        "name: small\n"
        "problems: {bundled: {name: arithmetic, limit: 6}}\n"
        "agents: sim/strong\n"
        "judges: [sim/judge, {kind: logprob, model: sim/weak}]\n"
        "protocols: {naive_judge: , debate: {rounds: 1}, consultancy: {turns: 2}}\n"
    )
    for sweep in ("hard.yaml", "small.yaml"):
        ran = within("run", sweep, cwd=place, OVERSIGHT_STORE=str(place / "store"))
        assert ran.code in (0, 1), ran.err
    return place / "runs"


@pytest.fixture(scope="session")
def hard(runs: Path) -> Path:
    return next(runs.glob("hard-*"))


@pytest.fixture(scope="session")
def small(runs: Path) -> Path:
    return next(runs.glob("small-*"))


def needs_browser() -> None:
    """Skip, and say why, where there is none."""
    pytest.importorskip("playwright.sync_api", reason="needs oversight-bench[browser]")
    if not CHROMIUM:
        pytest.skip("needs chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    needs_browser()
    with chromium() as found:
        yield found


@pytest.fixture
def looked_at() -> Any:
    """Opens addresses in a browser and a thread of its own, for tests in which a loop runs; what
    went wrong in each."""
    needs_browser()

    def look(addresses: list[str]) -> list[str]:
        def all_of_them() -> list[str]:
            with chromium() as browser:
                return [one(browser, address) for address in addresses]

        with ThreadPoolExecutor(1) as other:
            return other.submit(all_of_them).result()

    def one(browser: Any, address: str) -> str:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_load_state("load")
        ran = page.evaluate("window.broken === undefined ? '' : 'ran ' + window.broken")
        shown = page.evaluate("getComputedStyle(document.body).display")
        elsewhere = [url for url in asked if not url.startswith(("file:", "data:"))]
        page.close()
        return ran or ("the body is hidden" if shown == "none" else "") or " ".join(elsewhere)

    return look
