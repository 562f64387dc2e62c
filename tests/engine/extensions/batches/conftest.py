"""A sweep at either vendor, whose waits are short."""

from pathlib import Path

import pytest

from oversight.engine.extensions.batches import batches, endpoints
from tests.batches import BatchBench
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls are frequent, and vendors have time to correct denials and missing lines. Tests of a
    lasting fault set `NOT_FOUND_SECONDS` to 0."""
    monkeypatch.setattr(batches, "SETTLE", 0.05)
    monkeypatch.setattr(batches, "NOT_FOUND_SECONDS", PATIENCE)
    monkeypatch.setattr(batches, "LAST_SECONDS", PATIENCE)
    monkeypatch.setattr(batches, "MIN_POLL", 0.01)
    monkeypatch.setattr(endpoints, "MAX_WAIT", 0.05)


@pytest.fixture(params=["openai", "anthropic"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path, request.param)


@pytest.fixture
def openai(tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path)
