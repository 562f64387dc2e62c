"""Finished runs that tests only read: each sweep is run once a session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.command_line import run_in
from tests.engine.conftest import SWEEP

Kept: TypeAlias = Callable[..., Path]
"""The folder of a finished run, from the text of its sweep file (default: `small.yaml`) and flags
of `oversight run`; its store is next to it."""


def muddled(share: float) -> str:
    """`small.yaml` with a judge of which so much cannot be read."""
    return f"{SWEEP}models: {{sim/judge: {{muddle: {share}}}}}\n" if share else SWEEP


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    @cache
    def run(sweep: str = SWEEP, *flags: str) -> Path:
        place = tmp_path_factory.mktemp("kept")
        ran = run_in(place, "sweep.yaml", sweep, "--run-folder", place.name, *flags)
        assert ran.code in (0, 1), ran.err
        return place / place.name

    return run
