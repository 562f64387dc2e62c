"""The reward environment of examples/verifiers, in an environment that has verifiers."""

import site
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "verifiers"


def ran(*words: str | Path, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.real
def test_reward_environment_passes_its_checks(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    python = environment / "bin" / "python"
    ran(sys.executable, "-m", "venv", "--without-pip", environment)
    (packages,) = environment.glob("lib/python*/site-packages")
    # With the packages of this one, except those that verifiers pins to older versions.
    (packages / "more.pth").write_text(f"{site.getsitepackages()[0]}\n{ROOT}\n")
    installed = ran(python, "-m", "pip", "install", "-q", "--no-compile", "verifiers==0.4.0")
    if installed.returncode:
        last = (installed.stderr or installed.stdout).strip().rpartition("\n")[2]
        pytest.skip(f"verifiers cannot be installed: {last}")
    checks = ["-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    process = ran(python, *checks, "--rootdir", EXAMPLE, EXAMPLE / "checks.py", cwd=EXAMPLE)
    assert process.returncode == 0, process.stdout[-4000:]
