"""The tests with Inspect, in a separate process: it leaves event loops and handlers behind."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.real
@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="Inspect is not installed")
@pytest.mark.parametrize("cases", sorted(file.name for file in HERE.glob("cases_*.py")))
def test_logs_and_tasks_hold(cases):
    apart = ["-n", "0", "-W", "ignore", "-p", "no:unraisableexception", "-p", "no:cacheprovider"]
    words = [sys.executable, "-m", "pytest", "-q", *apart, str(HERE / cases)]
    ran = subprocess.run(words, cwd=HERE.parents[2], capture_output=True, text=True)
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-4000:] + ran.stderr[-1000:]
