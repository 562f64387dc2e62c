"""GSM8K for tests: a sample of our own, and the published files, loaded once a session.

Those are looked for in the folder that OVERSIGHT_GSM8K names, or else next to the checkout."""

import os
from functools import cache
from pathlib import Path

import pytest

from oversight.protocols import Gsm8k, Problem
from oversight.protocols.datasets.leak import LeakageCheck, leakage_check

SAMPLE = Path(__file__).parents[1] / "samples" / "gsm8k"
BESIDE = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"
PUBLISHED = Path(os.environ.get("OVERSIGHT_GSM8K") or BESIDE)

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published files are not here"
)


@cache
def loaded(settings: Gsm8k) -> tuple[Problem, ...]:
    return settings.load()


@cache
def gate(settings: Gsm8k) -> LeakageCheck:
    return leakage_check(loaded(settings))
