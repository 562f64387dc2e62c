"""Runs to look at, made once, and a browser to look with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import oversight
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
        ran = oversight("run", sweep, cwd=place)
        assert ran.code in (0, 1), ran.err
    return place / "runs"


@pytest.fixture(scope="session")
def hard(runs: Path) -> Path:
    return next(runs.glob("hard-*"))


@pytest.fixture(scope="session")
def small(runs: Path) -> Path:
    return next(runs.glob("small-*"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="needs oversight-bench[browser]")
    if not CHROMIUM:
        pytest.skip("needs chromium: apt-get install chromium")
    with chromium() as found:
        yield found
