"""The reward environment of examples/verifiers, in an environment that has verifiers."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "verifiers"


def needs() -> list[str]:
    """Requirements of this package, without the clients that verifiers pins to older versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    clients = ("openai", "anthropic")
    return [name for name in project["dependencies"] if not name.startswith(clients)]


def ran(*words: str | Path, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.real
def test_reward_environment_passes_its_checks(tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    for words in (
        [sys.executable, "-m", "venv", tmp_path / "env"],
        [python, "-m", "pip", "install", "-q", "verifiers==0.4.0", "pytest", "anthropic", *needs()],
        [python, "-m", "pip", "install", "-q", "--no-deps", "-e", ROOT],
    ):
        installed = ran(*words)
        if installed.returncode:
            last = (installed.stderr or installed.stdout).strip().rpartition("\n")[2]
            pytest.skip(f"verifiers cannot be installed: {last}")
    checks = ["-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider"]
    process = ran(python, *checks, "--rootdir", EXAMPLE, EXAMPLE / "checks.py", cwd=EXAMPLE)
    assert process.returncode == 0, process.stdout[-4000:]
