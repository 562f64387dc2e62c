"""A command that runs in this process, in the folder that a test is in."""

import sys
from pathlib import Path

import pytest

from oversight.engine.cli.group import main
from tests.command_line import Command, Ran


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""

    def ran(*words: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["oversight", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return Ran(int(left.value.code or 0), out, err)

    return ran
