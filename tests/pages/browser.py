"""Debian's Chromium under Playwright, for tests and for pictures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

from tests.waiting import PATIENCE

PATIENCE_MS = 1000 * PATIENCE
CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome") or ""

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Makes pages or contexts whose waits end only at what counts as a hang."""

    def made(**settings: Any) -> Any:
        page = make(**settings)
        page.set_default_timeout(PATIENCE_MS)
        return page

    return made


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that asks for nothing by itself."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=list(QUIET), timeout=PATIENCE_MS
        )
        browser.new_context = patient(browser.new_context)
        browser.new_page = patient(browser.new_page)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(place: Path, *flags: str) -> Iterator[str]:
    """The address of a server of pages in a process of its own."""
    import re

    from tests.command_line import running

    words = ("view", place, "--port", "0", "--no-open", *flags)
    with running(*words, cwd=place.parent) as server:
        address = server.until(r"(http://\S+)")[1]
        yield address
        server.process.terminate()
        server.end()
        assert re.match("http", address)
