"""A sweep at either vendor, and a run that waits for neither hours nor minutes."""

from pathlib import Path

import pytest

from oversight.engine.extensions.batches import dispatch, endpoint, outbox, rounds
from tests.batches import BatchBench


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vendors take hours; this server takes none."""
    monkeypatch.setattr(dispatch, "SETTLE", 0.05)
    monkeypatch.setattr(dispatch, "NOT_FOUND_SECONDS", 0.3)
    monkeypatch.setattr(outbox, "LAST_SECONDS", 0.3)
    monkeypatch.setattr(rounds, "MIN_POLL", 0.01)
    monkeypatch.setattr(endpoint, "MAX_WAIT", 0.05)


@pytest.fixture(params=["openai", "anthropic"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path, request.param)


@pytest.fixture
def openai(tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path)
