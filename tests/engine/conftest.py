"""A working folder with a small sweep on simulated models, and the command line in this process."""

from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Command, within

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
def command(place: Path) -> Command:
    """Runs a command in this process, in the working folder."""
    return partial(within, cwd=place)


@pytest.fixture
def muddled(place: Path) -> None:
    """Of what the judge says, a third cannot be read."""
    text = (place / "small.yaml").read_text()
    models = "models: {sim/judge: {muddle: 0.3}}\n"
    (place / "small.yaml").write_text(text + models)
