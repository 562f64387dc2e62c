"""Runs to look at, made once, and a browser to look with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_in
from tests.pages.browser import CHROMIUM, chromium, opened

SMALL = """\
name: small
problems: {bundled: {name: arithmetic, limit: 6}}
agents: sim/strong
judges: [sim/judge, {kind: logprob, model: sim/weak}]
protocols: {naive_judge: , debate: {rounds: 1}, consultancy: {turns: 2}}
"""
"""A run in which nothing goes wrong."""

HARD = """\
name: hard
problems: {bundled: passages}
agents: {model: [sim/unruly, sim/strong], tools: [none, calculator]}
judges:
  - {kind: stated, model: sim/unruly}
  - {kind: logprob, model: sim/judge}
protocols:
  naive_judge:
  open_consultancy:
  consultancy: {turns: 2}
  debate: {simultaneous: [true, false], rounds: 2}
  critique:
  market_making:
"""
"""Speakers that refuse, judges that cannot be read, tools, quotes."""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of the runs, which share a store."""
    return tmp_path_factory.mktemp("looked-at")


@pytest.fixture(scope="session")
def small(place: Path) -> Path:
    return ran(SMALL, place)


@pytest.fixture(scope="session")
def hard(place: Path, small: Path) -> Path:
    return ran(HARD.replace("passages", "{name: passages, limit: 5}"), place)


def ran(sweep: str, place: Path) -> Path:
    """The run folder of a sweep."""
    name = sweep.partition("\n")[0].removeprefix("name: ")
    run = run_in(place, "sweep.yaml", sweep)
    assert run.code in (0, 1), run.err
    return next((place / "runs").glob(f"{name}-*"))


@pytest.fixture(scope="session")
def runs(small: Path, hard: Path) -> Path:
    """The folder that has both runs."""
    assert small.parent == hard.parent
    return small.parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="needs oversight-bench[browser]")
    if not CHROMIUM:
        pytest.skip("needs chromium: apt-get install chromium")
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with opened(browser) as page:
        yield page
