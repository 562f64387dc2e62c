"""Debian's Chromium under Playwright, for tests and for pictures."""

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import decompress
from pathlib import Path
from shutil import which
from typing import Any

from tests.waiting import PATIENCE

PATIENCE_MS = 120_000
"""Time limit of a page; most waits end at once, or never."""
CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome") or ""
AXE = Path(__file__).parent / "vendored" / "axe.min.js"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that asks for nothing by itself."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=list(QUIET), timeout=1000 * PATIENCE
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, **how: Any) -> Iterator[Any]:
    """A new page in a separate window, whose waits end only after a hang."""
    context = browser.new_context(reduced_motion="reduce", **how)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def asked_by(page: Any) -> list[str]:
    """Every address that a page asks for from now on."""
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    return addresses


def faults_in(page: Any) -> list[str]:
    """All that goes wrong in a page from now on, as its console tells it."""
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("console", lambda at: faults.append(at.text) if at.type in ("error", "warning") else 0)
    return faults


def violations(page: Any) -> list[str]:
    """The violations that axe finds: of all rules in the light, and of contrast in the dark. The
    driver puts axe into the page, since the policy would refuse it."""
    page.evaluate(AXE.read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    problems = []
    for scheme, rules in (
        ("dark", {"type": "rule", "values": ["color-contrast"]}),
        ("light", {"type": "tag", "values": tags}),
    ):
        page.emulate_media(color_scheme=scheme)
        result = page.evaluate(
            "rules => axe.run(document, {resultTypes: ['violations'], runOnly: rules,"
            " preload: false})",
            rules,
        )
        problems += [
            f"{scheme}, {violation['id']}: {violation['nodes'][0]['html'][:200]} "
            f"{violation['nodes'][0]['failureSummary'][:300]}"
            for violation in result["violations"]
        ]
    return problems


def unpacked(file: Path) -> str:
    """A page of a site as its script unpacks it."""
    text = file.read_text()
    match = re.search(r'id="packed" hidden>([^<]+)<', text)
    return text + decompress(b64decode(match[1])).decode() if match else text


@contextmanager
def served(place: Path, *flags: str) -> Iterator[str]:
    """The address of a server of pages in a separate process."""
    from tests.command_line import running

    words = ("view", place, "--port", "0", "--no-open", *flags)
    with running(*words, cwd=place.parent) as server:
        yield server.until(r"(http://\S+)")[1]
        server.process.terminate()
        server.end()
