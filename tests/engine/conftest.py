"""A working folder with a small sweep on simulated models, and the command line in this process."""

import signal
import sys
from pathlib import Path

import pytest

from oversight.engine.cli.group import main
from oversight.engine.cli.signals import STOP_SIGNALS
from tests.command_line import Command, Ran

SWEEP = """\
name: small
problems: {bundled: {name: arithmetic, limit: 4}}
agents: {model: [sim/strong, sim/weak]}
judges: sim/judge
protocols:
  naive_judge:
  debate: {rounds: 1}
  consultancy: {turns: 2}
"""
"""40 cells: 4 problems, 5 rows, 2 worlds."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `small.yaml` in it, and a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    (tmp_path / "small.yaml").write_text(SWEEP)
    return tmp_path


@pytest.fixture
def command(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command in this process, which saves the second that a new one takes to start."""

    def run(*words: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["oversight", *map(str, words)])
        capfd.readouterr()
        heard = [(number, signal.getsignal(number)) for number in STOP_SIGNALS]
        try:
            with pytest.raises(SystemExit) as left:
                main()
        finally:
            for number, handler in heard:
                signal.signal(number, handler)
        out, err = capfd.readouterr()
        return Ran(int(left.value.code or 0), out, err)

    return run


@pytest.fixture
def muddled(place: Path) -> None:
    """Of what the judge says, a third cannot be read."""
    text = (place / "small.yaml").read_text()
    models = "models: {sim/judge: {muddle: 0.3}}\n"
    (place / "small.yaml").write_text(text + models)
